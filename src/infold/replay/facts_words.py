"""Facts that words hold: what the user laid down, what the agent decided, numbers and references with the words about them."""

import re
from collections.abc import Iterable, Iterator

from infold.replay.facts_events import Event
from infold.replay.facts_match import beginning, normalised
from infold.replay.facts_values import Fact

LONGEST_ANSWER = 100
"""Characters of a decision that are compared."""

SHORTEST, LONGEST = 12, 300
"""Characters of a sentence that is taken for an instruction or a decision rather than a remark or pasted matter."""

NUMBER = re.compile(r"(?<![\w.,:/#-])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+|\d{3,})(?![\w:/-]|[.,]\d)")
REFERENCE = re.compile(
    r"https?://[^\s\"'<>`)\]}]+|(?<![\w#])#\d{2,6}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
)
_GATE = re.compile(
    r"\b(?:must|don'?t|do not|never|only|always|make sure|no need to|should ?n[o']t|instead of|without)\b"
    r"|不要|不能|不需要|必须|只需|只要|只能|禁止|务必|别再|避免"
    r"|必ず|しないで|ないでください|のみ|だけ|禁止|してはいけ|べき"
    r"|하지 ?마|지 ?말|반드시|절대|만 사용|금지|않도록",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    r"\b(?:decided|chose|instead|going with|opted|settled on|i'll use|we'll use)\b|决定|改用|決定|採用|にします|결정",
    re.IGNORECASE,
)
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_WORD = re.compile(r"[぀-ヿ一-鿿가-힣]{2,4}|(?:(?![぀-ヿ一-鿿가-힣])[^\W\d_]){3,}")
_QUOTED = re.compile(r"^\s*(?:[>|$#⏺●│]|at |\d+[→:|]|[-+]{3} )")


def user_facts(events: Iterable[Event]) -> Iterator[Fact]:
    """What the user said, sentence by sentence; rules among it are the gate."""
    for event in events:
        if event.speaker != "user":
            continue
        for sentence in _sentences(event.text):
            gate = _GATE.search(sentence) is not None
            yield Fact(
                "instruction", (), (normalised(sentence),), event.handle, sets=frozenset({"gate"} if gate else ())
            )


def word_facts(events: Iterable[Event]) -> Iterator[Fact]:
    """Decisions, numbers and references in the agent's words; of numbers about the same thing the last one counts."""
    numbers: dict[tuple[str, ...], Fact] = {}
    other: dict[tuple[str, str], Fact] = {}
    for event in events:
        if event.speaker != "agent":
            continue
        for fact in (*_decisions(event), *_references(event)):
            other[fact.kind, fact.answers[0]] = fact
        for fact in _numbers(event):
            numbers[fact.cues] = _superseding(numbers.pop(fact.cues, None), fact)
    yield from (*other.values(), *numbers.values())


def _line_at(text: str, start: int, end: int) -> tuple[str, str]:
    """What stands before and after a place on its line, two hundred characters at most."""
    before = text[max(0, start - 200) : start].rpartition("\n")[2]
    return before, text[end : end + 200].partition("\n")[0]


def number_cues(text: str, start: int, end: int) -> tuple[str, ...]:
    """The nearest words on a number's line: three before it and two after."""
    before, after = _line_at(text, start, end)
    return tuple(dict.fromkeys((*_WORD.findall(normalised(before))[-3:], *_WORD.findall(normalised(after))[:2])))


def _superseding(before: Fact | None, fact: Fact) -> Fact:
    if before is None or before.answers == fact.answers:
        return fact
    stale = tuple(answer for answer in (*before.stale, *before.answers) if answer not in fact.answers)
    return Fact("number", fact.cues, fact.answers, fact.handle, stale=stale)


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(_FENCE.sub("\n", text)):
        told = sentence.strip()
        if len(told.encode()) >= SHORTEST and len(told) <= LONGEST and not _QUOTED.match(sentence):
            yield told


def _decisions(event: Event) -> Iterator[Fact]:
    for sentence in _sentences(event.text):
        if _CHOICE.search(sentence) and len(sentence) >= 2 * SHORTEST:
            yield Fact("decision", (), (beginning(normalised(sentence), LONGEST_ANSWER),), event.handle, told=sentence)


def _numbers(event: Event) -> Iterator[Fact]:
    for match in NUMBER.finditer(event.text):
        cues = number_cues(event.text, *match.span())
        if len(cues) >= 2:
            plain = match.group().replace(",", "")
            yield Fact("number", cues, tuple(dict.fromkeys((match.group(), plain))), event.handle)


def _references(event: Event) -> Iterator[Fact]:
    for match in REFERENCE.finditer(event.text):
        cues = number_cues(event.text, *match.span())
        if cues:
            yield Fact("reference", cues, (normalised(match.group().rstrip(".,;:")),), event.handle)
