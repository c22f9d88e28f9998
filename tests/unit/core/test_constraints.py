"""Which sentences lay down a rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.core.constraints import LONGEST_SENTENCE, constraint_sentences, sentences

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
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_heard_in_many_languages(rule: str) -> None:
    """B2: what must or must not be done is recognised verbatim, in the languages agents are used in."""
    assert constraint_sentences(f"Hello.\n{rule}\nBye") == (rule,)


@pytest.mark.parametrize("remark", REMARKS)
def test_a_remark_is_no_rule(remark: str) -> None:
    """B2: a plain statement is not taken for a constraint."""
    assert constraint_sentences(remark) == ()


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
