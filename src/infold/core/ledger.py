"""The facts a fold may not lose, as values that can be merged, and which of the user's sentences are rules.

A `Ledger` is extracted from messages by code (`extract.py`), never from a model's memory. Ledgers of successive heads
merge, so that facts known only from an older checkpoint are carried on: the later fact wins if both concern the same
thing, and what is settled (an error that no longer occurs, a question that was answered) goes. `checkpoint_text.py`
writes a ledger as text. What must stay a message (tools that were added, instructions with a date, the working folder)
is carried on as one by `carry_state`.
"""

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from infold.core.later_words import MOST_REMEMBERED, MOST_TEXTS, remember, two_to_keep
from infold.core.messages import (
    STATE_ID,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    is_from_caller,
    is_genuine_user,
    is_opaque,
)
from infold.core.phrases import TESTS

CHECKPOINT_MARK = "[Earlier conversation, folded."
"""The beginning of every text that a fold writes."""

EXCERPTS = (
    "[Next, up to the newest messages: excerpts of earlier steps in their own form and order. Results are left out, "
    "and so are other steps.]"
)
"""The last line of a checkpoint behind which steps are shown."""

FileOperation: TypeAlias = Literal["read", "written", "edited", "deleted", "moved"]

MOST_FILES, MOST_COMMANDS, MOST_ERRORS, MOST_QUOTES, MOST_NARRATIVES, MOST_VALUES = 1_000, 300, 60, 500, 3, 100
"""How many facts of each kind a checkpoint carries; older ones stay in the log and are found by recall."""


class Quote(Struct, frozen=True, gc=False, omit_defaults=True):
    """Verbatim words, the handle of the part they are from, and the question of the agent that they answer, if any."""

    handle: str
    text: str
    asked: str = ""


class LaterWords(Struct, frozen=True, gc=False):
    """A sentence of the user, and what the user said later about the same thing."""

    sentence: Quote = field(name="rule")
    words: Quote = field(name="by")


class FileFact(Struct, frozen=True, gc=False, omit_defaults=True):
    """A file, the last operation on it, and the number of its changes."""

    path: str
    operation: FileOperation
    edits: int
    handle: str


class CommandFact(Struct, frozen=True, gc=False, omit_defaults=True):
    """A command line and how its newest run ended; without a status, the status is unknown."""

    command: str
    handle: str
    exit_status: int | None = None
    outcome: str = ""
    runs: int = 1


class ValueFact(Struct, frozen=True, gc=False):
    """A call that neither ran a command nor touched a file, and the beginning of what it returned last."""

    call: str
    value: str
    handle: str


class ErrorFact(Struct, frozen=True, gc=False):
    """An unsettled failure: its origin (a command, a file, a tool) and its most informative line."""

    origin: str
    line: str
    handle: str


class TodoFact(Struct, frozen=True):
    """One item of the newest todo list."""

    item: str
    status: str


class JobFact(Struct, frozen=True, gc=False):
    """A call that was started and has not finished; `id` identifies it in a later report, if known."""

    description: str
    handle: str
    id: str = ""


class Ledger(Struct, frozen=True, omit_defaults=True):
    """What is known of a folded head, oldest first within each kind.

    `settled` names what succeeded in this head, so that merging can drop older errors of the same origin, and `ended`
    the older jobs that ended in it; both are used up by that merge. `todos` `None` means that no list was written,
    unlike an empty one. `narratives` are the words of earlier summaries, which a fold by code carries on and a model's
    next summary replaces. `attachments` are the media and documents that came with the user's words, `answers` what the
    user replied to questions that the agent asked by a tool, with the question. `forgotten` names
    the instructions that did not fit when this ledger was merged; they are reported once and are then only in the log.
    `later` places what the user said next to what was said later about the same thing, at most two for a sentence; `values`
    is what other calls returned, `overcome` are failures whose origin has succeeded since.
    """

    first_request: Quote | None = None
    latest_request: Quote | None = None
    requests: tuple[Quote, ...] = ()
    constraints: tuple[Quote, ...] = ()
    pinned: tuple[Quote, ...] = ()
    files: tuple[FileFact, ...] = ()
    commands: tuple[CommandFact, ...] = ()
    settled: tuple[str, ...] = ()
    errors: tuple[ErrorFact, ...] = ()
    todos: tuple[TodoFact, ...] | None = None
    decisions: tuple[Quote, ...] = ()
    findings: tuple[Quote, ...] = ()
    questions: tuple[Quote, ...] = ()
    reports: tuple[Quote, ...] = ()
    narratives: tuple[Quote, ...] = ()
    jobs: tuple[JobFact, ...] = ()
    forgotten: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    attachments: tuple[Quote, ...] = ()
    answers: tuple[Quote, ...] = ()
    later: tuple[LaterWords, ...] = field(default=(), name="revoked")
    values: tuple[ValueFact, ...] = ()
    overcome: tuple[ErrorFact, ...] = ()


EMPTY_LEDGER = Ledger()

Fact = TypeVar("Fact")


def merge(older: Ledger, newer: Ledger) -> Ledger:
    """Return what both ledgers know; the newer one wins if they concern the same thing."""
    answered = newer.latest_request is not None
    requests = _unique((*older.requests, *newer.requests))
    constraints = _unique((*older.constraints, *newer.constraints))
    attachments = _unique((*older.attachments, *newer.attachments))
    answers = _unique((*older.answers, *newer.answers))
    settled = {*newer.settled, *(fact.origin for fact in newer.errors)}
    overcome = (fact for fact in older.errors if fact.origin in newer.settled)
    running = (job for job in older.jobs if not job.id or job.id not in newer.ended)
    return Ledger(
        first_request=older.first_request or newer.first_request,
        latest_request=newer.latest_request or older.latest_request,
        requests=requests[-MOST_QUOTES:],
        constraints=constraints[-MOST_QUOTES:],
        pinned=_unique((*older.pinned, *newer.pinned)),
        files=_merge_facts(older.files, newer.files, lambda fact: fact.path, later_operation)[-MOST_FILES:],
        commands=_merge_facts(older.commands, newer.commands, lambda fact: fact.command, later_run)[-MOST_COMMANDS:],
        errors=(*(fact for fact in older.errors if fact.origin not in settled), *newer.errors)[-MOST_ERRORS:],
        overcome=_unique((*older.overcome, *overcome, *newer.overcome))[-MOST_ERRORS:],
        todos=older.todos if newer.todos is None else newer.todos,
        decisions=_unique((*older.decisions, *newer.decisions))[-MOST_ERRORS:],
        findings=_unique((*older.findings, *newer.findings))[-MOST_COMMANDS:],
        questions=newer.questions if answered else _unique((*older.questions, *newer.questions)),
        reports=_unique((*older.reports, *newer.reports))[-MOST_ERRORS:],
        narratives=_unique((*older.narratives, *newer.narratives))[-MOST_NARRATIVES:],
        jobs=_unique((*running, *newer.jobs))[-MOST_COMMANDS:],
        forgotten=_unique((*_dropped(requests), *_dropped(constraints), *_dropped(attachments), *_dropped(answers))),
        attachments=attachments[-MOST_QUOTES:],
        answers=answers[-MOST_QUOTES:],
        later=_two_for_each((*older.later, *newer.later)),
        values=_merge_facts(older.values, newer.values, lambda fact: fact.call, _later_value)[-MOST_VALUES:],
    )


def _unique(quotes: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(dict.fromkeys(quotes))


def _two_for_each(pairs: Iterable[LaterWords]) -> tuple[LaterWords, ...]:
    """Return the later words that stand next to each sentence, in their order: the newest of them."""
    by_sentence: dict[str, dict[str, LaterWords]] = {}
    for pair in _unique(pairs):
        by_sentence.setdefault(pair.sentence.text, {})[pair.words.text] = pair
    kept: list[LaterWords] = []
    for text, beside in reversed(by_sentence.items()):
        if len(kept) >= MOST_QUOTES:
            break
        kept += (beside[words] for words in reversed(two_to_keep(text, tuple(beside))))
    return tuple(reversed(kept[:MOST_QUOTES]))


def _dropped(quotes: tuple[Quote, ...]) -> tuple[str, ...]:
    """Return the handles of quotes beyond the limit, except those whose words were repeated."""
    if len(quotes) <= MOST_QUOTES:
        return ()
    carried = {quote.text for quote in quotes[-MOST_QUOTES:]}
    return tuple(quote.handle for quote in quotes[:-MOST_QUOTES] if quote.text not in carried)


def note(facts: dict[str, Fact], key: str, fact: Fact, later: Callable[[Fact, Fact], Fact]) -> None:
    """Put a fact last among those seen, combined with what was known of the same thing."""
    before = facts.pop(key, None)
    facts[key] = fact if before is None else later(before, fact)


def later_operation(before: FileFact, fact: FileFact) -> FileFact:
    """Return a later fact about the same file; reading a file again does not undo that it was changed."""
    operation, handle = fact.operation, fact.handle
    if operation == "read" and before.operation != "read":
        operation, handle = before.operation, before.handle
    return FileFact(fact.path, operation, before.edits + fact.edits, handle)


def later_run(before: CommandFact, fact: CommandFact) -> CommandFact:
    """Return a later run of the same command; the newest outcome counts."""
    return CommandFact(fact.command, fact.handle, fact.exit_status, fact.outcome, before.runs + fact.runs)


def _later_value(_: ValueFact, fact: ValueFact) -> ValueFact:
    return fact


def _merge_facts(
    older: tuple[Fact, ...], newer: tuple[Fact, ...], key: Callable[[Fact], str], later: Callable[[Fact, Fact], Fact]
) -> tuple[Fact, ...]:
    merged = {key(fact): fact for fact in older}
    for fact in newer:
        note(merged, key(fact), fact, later)
    return tuple(merged.values())


# Commands: which of them only look something up.

OWN_FOLDER = re.compile(r"^cd \S+ && (?=\S)")
"""The beginning of a command line that changes into a folder."""

_SHELL_QUOTED = re.compile(r"'[^']*(?:'|\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\Z)", re.DOTALL)
"""What is quoted; in a command line that was cut off, up to its end."""

_SHELL_PARTS = re.compile(r"&&|\|\|?|;")

_BEFORE_COMMAND = re.compile(r"\A(?:(?:if|while|until|then|do|else|time|!) +|[A-Za-z_]\w*=\S* +)*")
"""Words of the shell and values of variables in front of a command."""

_LOOKUP = re.compile(
    r"(?:cat|sed -n|nl|head|tail|less|ls|ll|tree|find|fd|rg|[efz]?grep|ag|awk|cut|tr|sort|uniq|wc|pwd|cd|which|type|file|stat|du|"
    r"df|echo|printf|date|env|printenv|whoami|true|ps|pgrep|lsof|uname|hostname|realpath|readlink|basename|dirname|sleep|"
    r"xargs (?:-\S+ )*(?:[efz]?grep|rg|cat|head|tail|wc|ls)|"
    r"done|fi|for \w+ in|command -v|git (?:-C \S+ |--no-pager )*(?:status|log|diff|show|branch|blame|grep|ls-files|fetch|"
    r"rev-parse|remote|worktree list|stash list)|gh (?:pr|issue|run) (?:list|view|diff|checks))"
    r"(?![\w-])(?!.*(?<![0-9&])>(?!&|\s*/dev/null))(?!.* -(?:delete|exec)\b)"
    r"|.* --(?:help|version)\b"
)


def shell_parts(command: str) -> tuple[str, ...]:
    """Return the commands of a command line, without what is quoted in them and what stands before them."""
    parts = _SHELL_PARTS.split(_SHELL_QUOTED.sub("''", OWN_FOLDER.sub("", command)))
    return tuple(rest for part in parts if (rest := _BEFORE_COMMAND.sub("", part.strip(), count=1)))


def is_lookup(command: str) -> bool:
    """Return whether a command line shows something and neither changes nor checks anything."""
    return all(_LOOKUP.match(part) for part in shell_parts(command))


_FILTERS = re.compile(
    r"(?: 2>&1| ?\| ?(?:tail|head|[efz]?grep|rg|tee|cat|sort|uniq|wc|sed -n|awk|cut|tr)\b[^|&;]*+)++\Z"
)


def without_filters(command: str) -> str:
    """Return a command line without the programs at its end that only show a part of its output."""
    found = _FILTERS.search(_SHELL_QUOTED.sub(lambda quoted: "'" * len(quoted[0]), command))
    return command if found is None else command[: found.start()]


_CHECKS = re.compile(
    r"\b(?:ruff|mypy|pyright|flake8|pylint|eslint|tsc|clippy|lint|vet|build|compile|make|cmake|typecheck|benchmark)\b",
    re.IGNORECASE,
)

_PLAIN_OUTCOMES = ("", "ok", "failed")


def is_check(fact: CommandFact) -> bool:
    """Return whether a command checks something: it tests, lints or builds, it failed, or its output has counts."""
    if fact.exit_status or fact.outcome not in _PLAIN_OUTCOMES:
        return True
    parts = (part for part in shell_parts(fact.command) if not part.startswith("git "))
    return any(TESTS.search(part) or _CHECKS.search(part) for part in parts)


# Rules: which of the user's sentences lay down one.

LONGEST_SENTENCE = 1_500
"""A longer line is treated as pasted material instead of a rule."""

_ENGLISH = (
    r"must(?:n['’]t)?|never|always|do not|don['’]t|dont|only|avoid|without|make sure|ensure|should(?: not|n['’]t)|shall|"
    r"may not|can['’]t|cannot|forbidden|prohibited|not allowed|required?|mandatory|no matter what|under no circumstances|"
    r"at all times|stick to|(?:stay|keep) (?:out|away|clear|off)|hands off|"
    r"leave .{1,60} (?:alone|untouched|as (?:it is|is|they are))|"
    r"keep .{1,60} (?:unchanged|intact|as (?:it is|is|they are))|instead of|rather than|prefer|refrain|important"
)

_EUROPEAN = (
    r"niemals|nie|immer|muss|müssen|darf|dürfen|nicht|nur|kein(?:e[nmrs]?)?|ausschließlich|verboten|unterlass\w*|"
    r"finger weg|lass\w* .{1,60} in ruhe|évite[zr]?|interdiction|laisse[zr]? .{1,60} tranquilles?|"
    r"jamais|toujours|doit|doivent|(?:ne |n['’]).{1,40} pas|uniquement|seulement|interdit|"
    r"nunca|siempre|debe[ns]?|solo|sólo|solamente|prohibido|evita|"
    r"no (?:toque|use|cambie|modifique|borre|elimine|añada|agregue|escriba|haga|ponga|cree|ejecute|instale|suba)[ns]?|"
    r"não|sempre|apenas|deve|mai|soltanto|non \w+re|"
    r"никогда|всегда|нельзя|не (?:надо|нужно|\w+(?:й|йте|и|ите|ь|ьте))|только|обязательно|долж(?:ен|на|но|ны)|запрещено"
)

_PREFERENCES = r"should|needs? to|soll(?:en|te[nst]?|st)?|devrait|debería|следует"

_MARKS = re.compile(
    rf"(?<![\w-])(?:{_ENGLISH}|{_EUROPEAN}|{_PREFERENCES})(?![\w-])"
    r"|不要|不能|不可|不得|不准|不许|不应|勿|禁止|必须|必須|务必|一定要|只能|只用|只改|始终|永远|避免|绝不|保持.{1,40}不变"
    r"|(?:^|[，。；：、,;:（(*.-]\s?|[请应须需可]|(?<!主)要)仅(?!仅)|仅(?:限|供|允许|可|需|须)"
    r"|(?<![特分区级类识判性差鉴告个])别(?![的人名处])"
    r"|应该|应当|必ず|絶対|禁止|ないで|ないこと|てはいけ|てはなら|てはダメ|ないように|のみ|(?<!どれ)だけ|常に|避け|控え|手を出さ|触ら|そのまま|べき"
    r"|하지\s?마|하지\s?말|지\s?마세요|지\s?말|말고|말아|반드시|절대|금지|항상|그대로|만\s?사용|꼭|안\s?됩니다|안\s?돼|않도록|해야",
    re.IGNORECASE,
)

_FORBIDS = re.compile(
    r"(?<![\w-])(?:never|do not|don['’]t|dont|must(?: not|n['’]t)|should(?: not|n['’]t)|may not|can['’]t|cannot|forbidden|"
    r"prohibited|not allowed|avoid|refrain|no matter what|under no circumstances|leave .{1,60} (?:alone|untouched)|"
    r"(?:stay|keep) (?:out|away|clear|off)|hands off|unterlass\w*|finger weg|évite[zr]?|interdiction|"
    r"nie(?:mals)?|nicht|kein(?:e[nmrs]?)?|verboten|jamais|(?:ne |n['’]).{1,40} pas|interdit|nunca|prohibido|evita|"
    r"no [a-z]+[ae]s?|não|mai|никогда|нельзя|не|запрещено)(?![\w-])"
    r"|不要|不能|不可|不得|不准|不许|勿|禁止|绝不|避免|(?<![特分区级类识判性差鉴告个])别(?![的人名处])"
    r"|ないで|ないこと|ないように|てはいけ|てはなら|てはダメ|避け|控え|지\s?마|지\s?말|절대|금지|안\s?됩니다|안\s?돼|않도록",
    re.IGNORECASE,
)
"""Words of a rule that forbids something."""

_ONE_TURN = re.compile(
    r"(?<![\w-])(?:this (?:time|once)|for this (?:turn|step|answer|reply|one)|in (?:this|your next) (?:answer|reply|turn|step|"
    r"message)|right now|before you (?:go on|continue)|diesmal|dieses mal|nur jetzt|in dieser antwort|"
    r"cette fois|dans cette réponse|esta vez|en esta respuesta|(?:на|в) этот раз|в этом ответе)(?![\w-])"
    r"|这次|这一次|这回|本次回复|今回|今だけ|この返信|이번",
    re.IGNORECASE,
)
"""Words of an order that ends with the turn it was given in."""

_ASKS_BACK = re.compile(
    r"\W*(?:(?:and|so|but|ok|okay|hm+|also|well|wait|oh|then)\b\W*)*(?:"
    r"(?:is|are|was|were|does|did|has|isn['’]t|aren['’]t|wasn['’]t|weren['’]t|doesn['’]t|didn['’]t|hasn['’]t)|"
    r"(?:do|don['’]t|have|haven['’]t) (?:we|i|you(?! ever| dare)|they)|"
    r"(?:can['’]t|couldn['’]t|should|shouldn['’]t|shall|must|wouldn['’]t|won['’]t) "
    r"(?:we|i|you|they|it|this|that|these|those|there|the)|"
    r"(?:can|could|would|will) (?:i|they|it|this|that|these|those|there|the)|"
    r"(?:can|could|would|will) (?:you|we)(?!.*\b(?:never|always|only|not|don['’]t|avoid|refrain|make sure|ensure|stick to|"
    r"keep|leave|without|instead of|rather than)\b)|"
    r"(?:can|could|would|will) you (?:please )?(?:tell me|explain|find out|show me|(?:check|see) (?:if|whether|why|what))|"
    r"why(?! not| don['’]t (?:we|you))|(?:what|how)(?! about)|who|which|"
    r"(?:when|where) (?:is|are|was|were|do|does|did|can|could|should|must|will|would|shall)"
    r")(?!\w)",
    re.IGNORECASE,
)
"""Beginnings of a question that asks for information; "could you never …?" and "why don't you only …?" ask for a rule.
"""

_QUESTION = re.compile(r"(?<!\bok)(?<!\bokay)(?<!\balright)(?<!\bplease)[?？]\W*$", re.IGNORECASE)

_SEEKS_ASSENT = re.compile(
    r"(?:(?<!\bis )(?<!\bare )(?<!\bbe )(?<!['’]s )(?<!\bit )(?<!\bthis )(?<!\bthe )\b(?:right|correct)"
    r"|[,–—-]\s*(?:oder|verdad|non)|(?<!\w)(?:no|yeah|yes|huh|innit|nicht wahr)|对吧|对吗|是吧|是吗|ですよね)\s*[?？]\W*$",
    re.IGNORECASE,
)

_BIDS = re.compile(
    r"\W*(?:please |pls |just )*(?:never|always|only|don['’]?t|do not|make sure|ensure|avoid|keep|leave|use|stick to|refrain)\b"
    r"|\W*(?:请|不要|别|必须|禁止|务必)",
    re.IGNORECASE,
)
"""Beginnings of a sentence that gives an order, whether or not it then asks for assent."""

_PASTED_LINES = re.compile(
    r"^[^\w\n]{0,3}(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} {1,2}\d{1,2} )?\d\d:\d\d:\d\d\b.*$"
    r'|^[ \t{\[]*"[\w$ .-]+"[ \t]*:[ \t]*(?:["{\[\d-]|true|false|null).*[\]},"][ \t]*$',
    re.MULTILINE,
)
"""Lines that people do not type: log lines with a time in front, and JSON."""

_PASTED_ERROR = re.compile(
    r"\W{0,3}(?:(?:[A-Za-z_]\w*\.)*[A-Z]?\w*(?:Error|Exception)(?: ?\[[^\]]*\])?: |(?:error(?:\[\w+\])?|fatal|panic): "
    r"|\[?(?:ERROR|FATAL|DEBUG|TRACE)\b[\]:| ]|\[(?:INFO|WARN|WARNING)\]|npm ERR! "
    r"|[A-Za-z_]{2,}(?:\.\w+)*\.\d+(?:\.\w+)*: |\S+:\d+(?::\d+)?:? (?:error|warning|note|fatal)\b|at \S+ ?\(|[⎿⏺])"
)
"""How programs begin an error report: its kind, its place in a file or in a request, its severity."""

_ENDS = re.compile(r"[.!?。！？\n](?:(?<![.!?])|(?=\s))")
"""Where a sentence or a line ends; begins with a set of characters, which is what the expression engine finds fast."""

FENCES = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)


def sentences(text: str) -> tuple[str, ...]:
    """Return a text's sentences and lines, trimmed, otherwise unchanged."""
    ends = [0, *(found.end() for found in _ENDS.finditer(text)), len(text)]
    return tuple(piece for start, end in pairwise(ends) if (piece := text[start:end].strip()))


def constraint_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a user's text that state a rule, verbatim, in order; pasted text does not count."""
    return tuple(filter(states_rule, spoken_sentences(text)))


@remember(MOST_TEXTS)
def sentences_with_rules(text: str) -> tuple[tuple[str, bool], ...]:
    """Return the sentences of a user's text without what was pasted, each with whether it states a rule."""
    return tuple((one, states_rule(one)) for one in spoken_sentences(text))


@remember(MOST_TEXTS)
def spoken_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a user's text without what was pasted: code, log lines, error reports."""
    spoken = _PASTED_LINES.sub("", FENCES.sub("\n", text))
    return tuple(one for one in sentences(spoken) if len(one) <= LONGEST_SENTENCE and not _PASTED_ERROR.match(one))


def states_rule(sentence: str) -> bool:
    """Return whether a sentence gives an order, instead of asking a question."""
    if not _MARKS.search(sentence):
        return False
    if _SEEKS_ASSENT.search(sentence):
        return _BIDS.match(sentence) is not None
    return not (_QUESTION.search(sentence) and _ASKS_BACK.match(sentence))


@remember(MOST_REMEMBERED)
def forbids(rule: str) -> bool:
    """Return whether a rule forbids something."""
    return _FORBIDS.search(rule) is not None


@remember(MOST_REMEMBERED)
def is_for_one_turn(rule: str) -> bool:
    """Return whether a rule is an order that ends with the turn it was given in."""
    return _ONE_TURN.search(rule) is not None


# State: what messages of the head set, and what is still in force behind a fold.

TOOL_STATE, DEFINITION = "tool ", " definition"
"""Prefix of the keys of tools, and suffix of those of tools that messages define; a change of tools needs those before
it, so the kept tail does not replace it."""

COMMAND_STATE, SKILL_STATE = "command", "skill"
"""Keys of what a person started; it ends with the person's next message."""

SUMMARY_STATE, ALL_BEFORE = "compaction", "all before"
"""Keys of a provider's summary, and of one that has all state before it, which the provider ignores from then on."""


def carry_state(
    carried: Iterable[Message], head: Iterable[tuple[int, Message]], tail: Iterable[Message]
) -> tuple[Message, ...]:
    """Return what stays in force behind a fold, oldest first: messages with only the parts that do, under ids of their own.

    `carried` are those of the last fold, `head` the messages folded now with their numbers, `tail` the kept ones. A newer
    part replaces an older one that sets nothing else; each text of a system message is in force until its end.
    """
    later = _LaterState(tail)
    older = ((message.id, message) for message in carried)
    numbered = ((MessageId(f"{STATE_ID}{sequence}"), message) for sequence, message in head)
    kept = [later.in_force(state_id, message) for state_id, message in reversed([*older, *numbered])]
    return tuple(message for message in reversed(kept) if message is not None)


def beside_summary(
    state: tuple[Message, ...], summary: Iterable[Message], tail: Iterable[tuple[int, Message]]
) -> tuple[Message, ...]:
    """Return what of the state is shown behind the kept tail, with a new summary of the provider's own at the beginning.

    The summary replaces older ones. If it has the tools of all before it, only those that messages have defined are set
    again, as the tail left them: later messages may refer to a definition that the summary left out.
    """
    known = {message.id for message in state}
    has_tools = any(ALL_BEFORE in _state_keys(message, part) for message in summary for part in message.parts)
    defined = defined_tools(state)
    shown: list[Message] = []
    for message in carry_state(state, tail, ()):
        is_known = message.id in known
        parts = tuple(
            part
            for part in message.parts
            if (is_known and not (has_tools and is_opaque(part))) or not defined.isdisjoint(_state_keys(message, part))
        )
        if isinstance(message, SystemMessage):
            settings = message.settings if is_known else ""
            shown += [replace(message, parts=parts, settings=settings)] if parts or settings else []
        elif isinstance(message, UserMessage) and is_known:
            shown.append(message)
    return tuple(shown)


def defined_tools(messages: Iterable[Message]) -> frozenset[str]:
    """Return the keys of the tools that these messages define."""
    keys = (key for message in messages for part in message.parts for key in _state_keys(message, part))
    return frozenset(key.removesuffix(DEFINITION) for key in keys if key.endswith(DEFINITION))


def sets_any(messages: Iterable[Message], keys: frozenset[str]) -> bool:
    """Return whether one of these messages sets one of these keys."""
    return any(not keys.isdisjoint(_state_keys(message, part)) for message in messages for part in message.parts)


class _LaterState:
    """What later messages set or ended, while messages are read newest first."""

    def __init__(self, tail: Iterable[Message]) -> None:
        self._keys: set[str] = set()
        self._has_user = False
        self._has_settings = False
        self._is_all = False
        for message in tail:
            keys = (key for part in message.parts for key in _state_keys(message, part))
            self._keys.update(key for key in keys if not key.startswith(TOOL_STATE))
            self._pass(message)

    def in_force(self, state_id: MessageId, message: Message) -> Message | None:
        """Return what of a folded message is in force, and take it in; `None` if nothing is."""
        if self._is_all:
            return None
        is_over = self._has_user and isinstance(message, SystemMessage) and message.until_user
        parts = tuple(self._parts_in_force(message, is_over=is_over))
        kept = replace(message, id=state_id, parts=parts)
        if isinstance(kept, SystemMessage):
            settings = "" if self._has_settings else kept.settings
            kept = replace(kept, settings=settings, until_user=kept.until_user and not is_over)
            self._has_settings = self._has_settings or bool(settings)
            return kept if parts or settings else None
        self._pass(message)
        return kept if parts else None

    def _parts_in_force(self, message: Message, *, is_over: bool) -> list[Part]:
        """Return the parts that later ones do not replace; within a message, only blocks replace one another."""
        parts: list[Part] = []
        keys: set[str] = set()
        for part in reversed(message.parts):
            own, is_text = _state_keys(message, part), isinstance(part, TextPart) and not part.opaque
            replaced = self._keys if is_text else self._keys | keys
            if not replaced.issuperset(own) and not (is_over and is_text):
                parts.append(part)
            keys.update(own)
        self._keys |= keys
        self._is_all = ALL_BEFORE in keys
        return parts[::-1]

    def _pass(self, message: Message) -> None:
        is_user = isinstance(message, UserMessage | ToolMessage) and is_from_caller(message)
        self._has_user = self._has_user or is_user
        if is_genuine_user(message):
            self._keys |= {COMMAND_STATE, SKILL_STATE}


def _state_keys(message: Message, part: Part) -> tuple[str, ...]:
    """Return what a part sets; a text of a system message sets itself, for as long as it holds."""
    if isinstance(part, TextPart) and isinstance(message, SystemMessage) and not part.state:
        key = f"until user: {part.text}" if message.until_user else part.text
        return (key,) if part.text.strip() and not part.ignored else ()
    return part.state if isinstance(part, TextPart | ReasoningPart) else ()
