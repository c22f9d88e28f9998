"""Which sentences lay down a rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.core.ledger import LONGEST_SENTENCE, constraint_sentences, sentences

RULES = [
    "Never push to main.",
    "You must keep the old API.",
    "Don't touch the migrations!",
    "Don’t rename anything.",
    "You mustn't add dependencies.",
    "Use tabs instead of spaces",
    "Leave the fixtures untouched.",
    "Keep the public names unchanged.",
    "No matter what, stay offline.",
    "不要修改配置文件。",
    "别动测试代码",
    "必须使用中文回复。",
    "只能修改这个目录。",
    "保持接口不变",
    "テストは絶対に消さないでください。",
    "設定ファイルには触らないで。",
    "コメントは日本語のみ。",
    "main に push しないこと",
    "기존 API는 절대 바꾸지 마세요.",
    "반드시 테스트를 실행해 주세요.",
    "파일을 지우지 말고 옮겨 주세요",
    "Ändere die Schnittstelle nicht.",
    "Es dürfen keine neuen Pakete dazukommen.",
    "Nur die Tests anpassen.",
    "Ne touche pas aux tests.",
    "N’utilise pas de bibliothèque externe.",
    "Il faut toujours garder les commentaires.",
    "Nunca borres los datos.",
    "No toques la configuración.",
    "Usa solo la biblioteca estándar.",
    "Никогда не трогай базу данных.",
    "Не меняй публичный интерфейс.",
    "Используй только стандартную библиотеку.",
    "Não altere os testes.",
    "Non modificare i test.",
    "仅修改 src 目录。",
    "改动范围：仅限后端",
    "测试时请仅使用本地数据库",
    "Could you never do that again?",
    "Can we only use the standard library?",
    "Can you please make sure the count is right?",
    "Why don't you always run the tests first?",
    "How about never pushing on a Friday?",
    "Don't push to main, right?",
    "When you are done, never push, okay?",
    "Don't you ever push to main?",
    "不要改接口，对吧？",
    "可以不要改接口吗？",
    "config.py: must stay as it is",
    "WARNING: never touch production!",
    '"tools": must never change',
]

REMARKS = [
    "The build takes four minutes.",
    "Thanks, that looks good!",
    "这个项目用来识别图片的类别。",
    "このファイルは設定です。",
    "이 파일은 설정입니다.",
    "Der Server läuft wieder.",
    "Le serveur est lent.",
    "El servidor está lento.",
    "Сервер снова работает.",
    "We use read-only replicas.",
    "活跃时间热力图目前仅用 `bg-primary` 映射浏览时长。",
    "这不仅仅是一个问题。",
]

QUESTIONS = [
    "that is what happens if we don't stream, right?",
    "i think we only do this in interactive mode no?",
    "we don't need it any more yeah? 🤣",
    "Is there any reason we don't parse the input?",
    "can't we do that without a lock?",
    "Shouldn't we always flush?",
    "Could we do that though it is required?",
    "hmm, so why must it be sorted?",
    "Should I only change the parser? (or more)",
    "Could you explain why it must not be empty?",
    "Can you check if it only happens on Linux?",
    "Where should only one be open?",
    "不能用缓存，对吗？",
]

PASTED = [
    "messages.3: `tool_use` block must have a corresponding `tool_result` block in the next message",
    "ValueError: size must be positive",
    "openai.BadRequestError: messages must not be empty",
    "Error: You must provide a token",
    "error[E0382]: value can't be used after it was moved",
    "src/a.c:12:5: error: only one is allowed",
    "[WARN] only one worker",
    "ERROR cannot open",
    "⎿ You must run it first",
    "2026-02-08 21:51:50.720 |DEBU| hook invoked. It must be there.",
    "Feb  8 21:51:50 host app: never seen",
    '{"type": "error", "message": "You must retry. Never stop."}',
    '  "required": ["name"],',
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_heard_in_many_languages(rule: str) -> None:
    """B2: what must or must not be done is recognised verbatim, in the languages agents are used in."""
    assert constraint_sentences(f"Hello.\n{rule}\nBye") == (rule,)


@pytest.mark.parametrize("remark", REMARKS)
def test_a_remark_is_no_rule(remark: str) -> None:
    """B2: a plain statement is not taken for a constraint."""
    assert constraint_sentences(remark) == ()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_no_rule(question: str) -> None:
    """B2: who asks to be told something lays down nothing, whatever words the question holds."""
    assert constraint_sentences(question) == ()


@pytest.mark.parametrize("line", PASTED)
def test_what_a_program_reported_is_no_rule(line: str) -> None:
    """B2: an error, a line of a log or JSON that a user pasted is not the user's voice; the words around it are."""
    assert constraint_sentences(f"Never a.\n{line}\nAlways b.") == ("Never a.", "Always b.")


@pytest.mark.parametrize("piece", ["\n", " \n", "?", "a.1", '"a": "', "}, ", "00:00:00 must\n", "and ", "\t{["])
def test_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    """B17: endless repetition in a request is read in one go, not again from every place."""
    assert len(constraint_sentences(f"never {piece * (100_000 // len(piece))} x")) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "```\nnever = do_not(only)\n```",
        "```python\n# must never\n",
        "~~~\nalways required\n~~~",
    ],
)
def test_fenced_code_is_not_the_user_s_voice(text: str) -> None:
    """B2: rules inside code fences, closed or left open, are pasted material."""
    assert constraint_sentences(f"Look at this.\n{text}") == ()


def test_rules_around_a_fence_are_heard() -> None:
    """B2: what is said before and after pasted code still counts, in order."""
    assert constraint_sentences("Never a.\n```\nmust b\n```\nAlways c.") == ("Never a.", "Always c.")


def test_a_very_long_line_is_pasted_material() -> None:
    """B2: a line beyond the length of a sentence is no rule; one at that length is."""
    at, beyond = "never " + "x" * (LONGEST_SENTENCE - 6), "never " + "x" * (LONGEST_SENTENCE - 5)

    assert constraint_sentences(f"{beyond}\n{at}") == (at,)


def test_sentences_end_where_readers_end_them() -> None:
    """Sentences part at full stops before a space, at CJK marks and at line ends, not inside file names."""
    assert sentences(" Edit a.py now. Then stop!\n\n- 好的。继续？ok ") == (
        "Edit a.py now.",
        "Then stop!",
        "- 好的。",
        "继续？",
        "ok",
    )
    assert sentences(" \n ") == ()


@given(st.text(max_size=400))
def test_every_rule_stands_in_the_text(text: str) -> None:
    """B2: whatever the text, a constraint is a verbatim piece of it."""
    assert all(rule in text for rule in constraint_sentences(text))
