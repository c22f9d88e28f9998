"""Accept, annotate or reject a summary before it is used.

A summary is checked by code. As a whole: complete, not cut off, without tool calls, about this session, in a language that
was used, smaller than what it replaces. Then sentence by sentence, against everything the summariser was shown. Claims are
paths, names in code formatting, hashes and exact numbers; a claim that occurs nowhere is marked. What the log knows better
(a value replaced since, a failing test run, later words of the user, a file that was not changed) is added behind the sentence in
brackets. Only an instruction that stands in tool output alone is removed. What is proposed for later is not a claim. A
summary that is mostly about other things is rejected, and the deterministic fold is used. A provider that reports why a
summary ended is believed; where the reason is unknown, a summary that seems to end within a sentence says so. An English
summary of a session in another language gets a sentence that says so too, since agents answer in the language of what they
read. The must-keep set is not required of the summary: the ledger carries it.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from infold.core import phrases
from infold.core.entries import Fault, Verdict
from infold.core.extract import (
    arguments_of,
    command_of,
    file_operations,
    is_failure,
)
from infold.core.later_words import Sentence, SentenceIndex
from infold.core.ledger import constraint_sentences, sentences, states_rule
from infold.core.messages import (
    AssistantMessage,
    Finish,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    decode_arguments,
    is_genuine_user,
    text_of,
)

SMALLEST_SUMMARY = 20
"""Minimum characters of a summary."""

LONGEST_ANSWER = 1_000_000
"""Maximum characters of a model's answer that are read; a longer answer is not a summary."""

LARGEST_SHARE = 0.8
"""A summary must be smaller than this share of what it replaces, or it is not worth the cut."""

LONGEST_REFUSAL = 400
"""Characters; models decline briefly."""

LARGEST_INVENTED = 0.5
"""If more than this share of a summary's claims occur nowhere, at least two or its only one, it is about something else."""

FEWEST_ALIKE, ALIKE_SHARE, SHORTEST_PROSE = 5, 0.9, 15
"""How many list items show how items end, which share of them must end alike, and the characters of a line that is prose."""

LEAST_RATE, FOREIGN_SHARE = 0.08, 0.2
"""The share of common words by which a language is recognised, and how much of it a conversation in that language has."""

REVOKED_SHARE, OVERRULED_SHARE, INJECTED_SHARE, REPEATED_SHARE = 0.6, 0.5, 0.4, 0.7
"""The shares of words by which a sentence is about a rule with later words, a rule, or an injected instruction, which it
repeats from the last share on."""

FEWEST_SUBJECTS, LEAST_SHARED = 50, 0.1
"""Minimum share of the words of a summary without names and figures that the record has too, if that has enough of them."""

LEAST_KANA = 0.1
"""Minimum share of kana by which a text with Chinese characters is Japanese."""

LEAST_OTHER = 0.2
"""Minimum share of letters in another script before that counts as a text's own."""

FEWEST_LETTERS = 5
"""Letters of a script that count as its use."""

FEWEST_WORDS, LEAST_VARIED = 100, 0.03
"""From this many words on, a text with a smaller share of different words is stuck in a loop."""


class Answer(Struct, frozen=True):
    """A summariser's answer; `finish` is why it ended as the provider reports it, `other` if that is not known."""

    text: str
    finish: Finish = "other"
    calls_tools: bool = False


class ModelAnswer(Struct, frozen=True):
    """A summariser's answer with its model, usage, cost and duration.

    `reply` is a provider's whole reply to a request that it compacts itself, `native` the messages in it by which it did.
    """

    answer: Answer
    model: str = ""
    usage: Usage | None = None
    cost: float = 0.0
    duration_ms: int = 0
    reply: Any = None
    native: tuple[Message, ...] = ()


def judge(
    answer: Answer,
    head: Sequence[Message],
    *,
    tail: Sequence[Message] = (),
    known: str = "",
    replaced_tokens: int,
    answer_tokens: int,
) -> Verdict:
    """Check an answer against the messages it is to replace and whatever else its writer was shown.

    `tail` are the messages that stay, `known` is all other text: older summaries, the system prompt, the instruction.
    `replaced_tokens` and `answer_tokens` are in the session's own measure.
    """
    text = phrases.SCRATCHPAD.sub("", answer.text).strip()
    words, shown = text.split(), (*head, *tail)
    is_stuck = len(words) >= FEWEST_WORDS and len(set(words)) < LEAST_VARIED * len(words)
    fault: Fault | None = (
        plain_fault(answer)
        or ("too-large" if answer_tokens > LARGEST_SHARE * replaced_tokens else None)
        or ("repetitive" if is_stuck else None)
        or _language_fault(text, shown, known)
        or _vague_fault(text, shown, known)
    )
    if fault is not None:
        return Verdict("", (fault,))
    verdict = _check_sentences(text, shown, known)
    if verdict.text and answer.finish == "other" and _may_end_early(text):
        verdict = replace(verdict, text=f"{verdict.text}\n\n{phrases.ENDS_EARLY}", faults=(*verdict.faults, "cut-off"))
    said = "\n".join(text_of(message) for message in shown if is_genuine_user(message))
    is_english = _language(text) == "english" and _rates(text)["english"] >= LEAST_RATE
    if not verdict.text or not is_english or _language(said) == "english" or phrases.NOT_ENGLISH in text:
        return verdict
    return replace(verdict, text=f"{verdict.text}\n\n{phrases.NOT_ENGLISH}", faults=(*verdict.faults, "language"))


def record_text(messages: Iterable[Message]) -> str:
    """Return all text, calls and results of messages, with call arguments as their values, not as JSON."""
    pieces: list[str] = []
    for part in (part for message in messages for part in message.parts):
        match part:
            case TextPart():
                pieces.append(part.text)
            case ToolResultPart():
                pieces += (part.tool, part.output)
            case ToolCallPart():
                pieces += (part.tool, part.arguments, *_strings(decode_arguments(part.arguments)))
            case _:
                pass
    return "\n".join(pieces)


def without_marks(text: str) -> str:
    """Return a judged text without the notes that name what was not found."""
    return phrases.MARK.sub("", text)


def clean_text(text: str) -> str:
    """Return a model's text as a store can hold it: without NUL bytes and half surrogate pairs, of bounded length."""
    text = text[: LONGEST_ANSWER + 1].replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:  # the two halves of one character may have come in two pieces
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def hard_fault(answer: Answer) -> Fault | None:
    """Return the fault of an answer that is not a summary, whatever its words are: empty, cut off, a tool call, a
    refusal."""
    if answer.calls_tools:
        return "tool-calls"
    if answer.finish == "length":
        return "cut-off"
    if answer.finish in ("content-filter", "error", "abort"):
        return "refused"
    if len(answer.text) > LONGEST_ANSWER:
        return "too-large"
    return None if answer.text.strip() else "empty"


def plain_fault(answer: Answer) -> Fault | None:
    """Return the fault of an answer that is unusable whatever it is about: a hard fault, words of refusal, a tool call
    written as text, the next step of the work, too few words."""
    fault = hard_fault(answer)
    if fault is not None:
        return fault
    text = phrases.SCRATCHPAD.sub("", answer.text).strip()
    if len(text) <= LONGEST_REFUSAL and phrases.REFUSAL.match(text):  # a longer summary may quote a refusal
        return "refused"
    if phrases.CALL_AS_TEXT.match(text):
        return "tool-calls"
    told = len(" ".join(phrases.NOTHING.sub("", text).split()))
    if told < SMALLEST_SUMMARY:
        return "too-short" if told else "empty"
    lines = [line for line in text.splitlines() if line.strip()]
    if phrases.CONTINUES.match(text) and not any(line.startswith("#") or phrases.ITEM.match(line) for line in lines):
        return "continues"
    return None


def _may_end_early(text: str) -> bool:
    """Return whether a text ends within a sentence: unlike its other lines, in code, or after a word that needs another."""
    lines = [line for line in text.splitlines() if line.strip()]
    last = lines[-1].strip()
    if sum(line.lstrip().startswith("```") for line in lines) % 2:
        return True
    if not last.startswith("```") and last.count("`") % 2:
        return True
    if last[-1] in phrases.ENDS or phrases.HEADING.match(last):
        return False
    if phrases.DANGLING.search(last):
        return True
    is_item = phrases.ITEM.match(lines[-1]) is not None
    alike = [
        line.rstrip()[-1] in ".!?。！？" for line in lines[:-1] if (phrases.ITEM.match(line) is not None) == is_item
    ]
    if is_item:
        return len(alike) >= FEWEST_ALIKE and sum(alike) >= ALIKE_SHARE * len(alike)
    *whole, rest = phrases.BREAK.split(last)
    return len(rest) >= SHORTEST_PROSE and (bool(whole) or (len(alike) > 1 and all(alike)))


def _language_fault(text: str, shown: Sequence[Message], known: str) -> Fault | None:
    """Reject a summary in a language that does not occur in the conversation, unless it is English."""
    language, told = _language(text), "".join((known, *(text_of(message) for message in shown)))
    if language == "english":
        return None
    if language in phrases.FUNCTION_WORDS:
        is_used = _rates(told)[language] >= FOREIGN_SHARE * _rates(text)[language]
    else:
        is_used = _letters(told)[language] >= FEWEST_LETTERS
    return None if is_used else "language"


def _language(text: str) -> str:
    """Return the script a text is in if a fair share of its letters is not Latin, else the language that its common words show:
    English unless another stands out."""
    letters = _letters(text)
    script = max((name for name in letters if name != "latin"), key=lambda name: letters[name])
    if letters[script] >= max(FEWEST_LETTERS, LEAST_OTHER * sum(letters.values())):
        return script
    rates = _rates(text)
    language = max(rates, key=lambda name: rates[name])
    return language if rates[language] >= max(2 * rates["english"], LEAST_RATE) else "english"


def _rates(text: str) -> dict[str, float]:
    """Return the share of common words of each language in a text."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    return {
        name: sum(word in common for word in words) / max(len(words), 1)
        for name, common in phrases.FUNCTION_WORDS.items()
    }


def _letters(text: str) -> dict[str, int]:
    """Return how many letters of each script a text has; Chinese characters count as Japanese where there are kana."""
    letters = {name: len(pattern.findall(text)) for name, pattern in phrases.WRITINGS.items()}
    kana, han = letters.pop("kana"), letters.pop("han")
    is_japanese = kana >= LEAST_KANA * (kana + han)
    return {**letters, "japanese": kana + han if is_japanese else 0, "chinese": 0 if is_japanese else han}


def _vague_fault(text: str, shown: Sequence[Message], known: str) -> Fault | None:
    """Reject a text without any name or figure that is polite, or shares hardly a word with the conversation."""
    if re.search(r"\d|`|[A-Za-z]_[A-Za-z]|[a-z][A-Z]", text) or phrases.FILE.search(text):
        return None
    if phrases.POLITE.search(text):
        return "vague"
    if _language(text) not in phrases.FUNCTION_WORDS:  # a few sentences share few pairs of characters
        return None
    words, told = _subjects(text), _subjects(f"{record_text(shown)}\n{known}")
    return "vague" if len(told) >= FEWEST_SUBJECTS and len(words & told) < LEAST_SHARED * len(words) else None


def _subjects(text: str) -> frozenset[str]:
    """Return what a text is about, as stems: words without endings, pairs of Chinese characters, katakana words."""
    found: set[str] = set()
    for token in phrases.TOKEN.findall(text.lower()):
        if "\u3400" <= token[0] <= "\u9fff":
            found.update(token[at : at + 2] for at in range(max(1, len(token) - 1)))
        elif token not in phrases.COMMON:
            found.add(token if token[0] > "\u3000" else phrases.ENDING.sub("", token)[:7] if len(token) > 4 else token)
    return frozenset(found)


# Sentence by sentence.


class _Evidence:
    """What the messages show, read once: words, numbers, values that were replaced, rules, runs, changed files."""

    def __init__(self, shown: Sequence[Message], known: str) -> None:
        self.known = known
        self.text = f"{record_text(shown)}\n{known}"
        self.lower = self.text.lower()
        self.words = {part for word in phrases.WORD.findall(self.lower) for part in (word, *word.split("."))}
        self.users = [sentences(text_of(message)) for message in shown if is_genuine_user(message)]
        self.asked = frozenset[str]().union(*(_subjects(one) for said in self.users for one in said))
        self.injected: list[frozenset[str]] = []
        self.changed: set[str] = set()
        self.commands: list[str] = []
        self.delegates = False
        self.restored: set[str] = set()
        self.values: dict[tuple[str, str], list[float]] = {}
        self.failed_run = self.failed_output = ""
        self.passed: set[float] = set()
        calls: dict[str, ToolCallPart] = {}
        for message in shown:
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    calls[part.call_id] = part
                elif isinstance(part, ToolResultPart):
                    self._settle(calls.get(part.call_id), part)
                elif isinstance(part, TextPart) and isinstance(message, AssistantMessage):
                    self.injected += (
                        _subjects(one)
                        for one in sentences(part.text)
                        if phrases.INJECTED.search(one) or phrases.DECLINES.search(one)
                    )
        self.numbers = sorted({*_numbers(self.text), *_derived(self.text)})
        self.rules, self.later = _rules(self.users)
        self.aliases = self._find_aliases(shown)

    def _settle(self, call: ToolCallPart | None, result: ToolResultPart) -> None:
        """Take in what a call did: files, replaced values, test runs, and instructions in its output."""
        if call is None or not phrases.INSTRUCTION_FILE.search(call.arguments):
            self.injected += [_subjects(line) for line in result.output.splitlines() if phrases.INJECTED.search(line)]
        if call is None:
            return
        arguments = arguments_of(call)
        command = command_of(call, arguments)
        self.delegates |= phrases.DELEGATES.search(call.tool) is not None
        self.commands.append(call.arguments if command else "")
        failed = is_failure(result, command)
        if command:
            self._take_run(command, result.output, failed)
        if phrases.RESTORES.search(command):
            named = {
                path.rsplit("/", 1)[-1].lower()
                for path in phrases.FILE.findall(command)
                if phrases.EXTENSION.search(path)
            }
            self.restored |= named or {""}
            self.values = {
                key: values
                for key, values in self.values.items()
                if named and key[0].rsplit("/", 1)[-1].lower() not in named
            }
        if failed:
            return
        for path, operation in file_operations(call, arguments, result.output):
            if operation in ("deleted", "moved"):
                self.commands.append(f"rm {path}")
            if operation == "written":
                self.values = {key: values for key, values in self.values.items() if key[0] != path}
            if operation != "read":
                self.changed.add(f"/{path.lower()}")
            for name, before, after in _changed_numbers(arguments):
                self.values.setdefault((path, name), [before]).append(after)

    def _take_run(self, command: str, output: str, failed: bool) -> None:
        lines = phrases.RUN_COUNTS.findall(output[-4_000:])
        if not lines and not phrases.TESTS.search(command):
            return
        counts = ", ".join(phrases.RUN_COUNT.findall(lines[-1])) if lines else ""
        if failed or phrases.RUN_FAILS.search(counts):
            told = (line for line in output.splitlines() if phrases.NAMES_FAILURE.search(line))
            self.failed_run, self.failed_output = counts or "no counts given", "\n".join((command, *told))
        elif lines:
            self.failed_run = ""
            self.passed.update(_numbers(counts))

    def _find_aliases(self, shown: Sequence[Message]) -> dict[str, list[list[float]]]:
        """Return the replaced values by the words for them: parts of their name, and words before both an old number and the
        newest one in what was said."""
        near: dict[str, set[float]] = {}
        for message in shown if self.values else ():
            for word, number in phrases.PAIR.findall(text_of(message)):
                near.setdefault(_noun(word), set()).add(float(number))
        found: dict[str, list[list[float]]] = {}
        for (_, name), values in self.values.items():
            said = (word for word, numbers in near.items() if values[-1] in numbers and numbers & set(values[:-1]))
            humps = (hump.lower() for hump in phrases.HUMPS.findall(name))
            for word in {*said, *humps, name.lower()} - phrases.TYPES - phrases.COMMON:
                if len(word) > 3 or word[0] > "\u3000":
                    found.setdefault(word, []).append(values)
        return found

    def holds_path(self, path: str) -> bool:
        """Return whether a path occurs as it is, by its last two segments, or segment by segment."""
        segments = [segment for segment in path.lower().split("/") if segment.strip(".~")]
        return "/".join(segments[-2:]) in self.lower or all(segment in self.words for segment in segments)

    def holds_number(self, stated: "_Number") -> bool:
        """Return whether a number occurs: as it is, rounded to its decimal places, or in another unit of time or size."""
        scales = (1, 1_000, 0.001, 60, 1 / 60, 3_600, 1 / 3_600, 1_024, 1 / 1_024) if stated.has_unit else (1,)
        for value in _readings(stated.raw):
            for scale in scales:
                at, margin = value * scale, 0.5 * scale * 10.0**-stated.places if stated.places else 1e-6
                found = bisect_left(self.numbers, at - margin)
                if found < len(self.numbers) and self.numbers[found] <= at + margin:
                    return True
        return False


class _Number(Struct, frozen=True):
    """An exact number in a sentence, as written."""

    raw: str
    places: int
    has_unit: bool


class _Finding(Struct, frozen=True):
    """What is known of a sentence: how many claims it makes, those that occur nowhere, and what the log knows better."""

    sentence: str
    claims: int
    invented: tuple[str, ...]
    facts: tuple[str, ...]

    @property
    def annotated(self) -> str:
        """The sentence with a note in brackets behind it, in the last cell if it is the row of a table."""
        unknown = (f"{phrases.UNKNOWN}: {', '.join(self.invented)}",) if self.invented else ()
        note = "; ".join((*unknown, *self.facts))
        if not note:
            return self.sentence
        bare = self.sentence.rstrip()
        end = " |" if bare.endswith("|") else ""
        return f"{bare.removesuffix('|').rstrip()} ({note}){end}{self.sentence[len(bare) :]}"


def _check_sentences(text: str, shown: Sequence[Message], known: str) -> Verdict:
    """Return the text with its doubtful sentences marked, its outdated ones corrected, and injected ones removed."""
    evidence = _Evidence(shown, known)
    kept: list[str] = []
    removed: list[str] = []
    found: list[_Finding] = []
    section, in_code = "", False
    for line in text.splitlines():
        is_fence = line.lstrip().startswith("```")
        in_code ^= is_fence
        is_heading = not in_code and phrases.HEADING.match(line) is not None
        section = line if is_heading else section
        if is_fence or in_code or is_heading or not line.strip():
            kept.append(line)
            continue
        label = phrases.LABEL.match(line)
        place = f"{section} {label.group(1)}" if label else section
        left = ""
        for sentence in phrases.BREAK.sub("\\g<0>\0", line).split("\0"):
            injected = _injected_share(sentence, evidence)
            if injected >= REPEATED_SHARE:
                removed.append(sentence.strip())
                continue
            claims = _claims(sentence, place, evidence)
            unknown = tuple(name for name, occurs in claims.items() if not occurs)
            facts = tuple(_corrections(sentence, place, evidence))
            if injected >= INJECTED_SHARE:
                facts = (*facts, phrases.ONLY_OUTPUT)
            found.append(_Finding(sentence, len(claims), unknown, facts))
            left += found[-1].annotated
        if left.strip(" \t-*+•–"):
            kept.append(left)
    invented = tuple(name for finding in found for name in finding.invented)
    marked = tuple(finding.sentence.strip() for finding in found if finding.invented)
    corrected = tuple(f"{one.sentence.strip()} ({'; '.join(one.facts)})" for one in found if one.facts)
    named: tuple[tuple[Fault, object], ...] = (("invented", marked), ("outdated", corrected), ("injected", removed))
    is_other = len(invented) > LARGEST_INVENTED * sum(finding.claims for finding in found)
    is_other = is_other and (len(set(invented)) > 1 or len(found) == 1)
    return Verdict(
        "" if is_other else "\n".join(kept).strip(),
        tuple(fault for fault, concerned in named if concerned),
        tuple(removed),
        invented,
        marked=marked,
        corrected=corrected,
    )


def _claims(sentence: str, place: str, evidence: _Evidence) -> dict[str, bool]:
    """Return the claims of a sentence and whether each occurs; a proposal and what stands in a place for later has none."""
    if phrases.LATER.search(place) or phrases.PROPOSED.search(sentence):
        return {}
    claims: dict[str, bool] = {}
    for found in phrases.FILE.finditer(sentence):
        path = found.group().rstrip(".")
        is_open = phrases.OPEN_NAME.match(sentence[found.end() :]) or sentence[: found.start()].endswith(
            ("*", "}", ">", "$")
        )
        if not is_open and _is_path(path, evidence):
            claims[path] = evidence.holds_path(path)
    for code in phrases.CODE.findall(sentence):
        names = [name.lower() for name in phrases.IDENTIFIER.findall(code) if len(name) > 2]
        if names and not phrases.OPEN_NAME.search(code) and not phrases.FILE.search(code):
            claims[code] = code in evidence.text or all(name in evidence.words for name in names)
    for commit in phrases.HASH.findall(sentence):
        claims[commit] = commit[:7] in evidence.text
    for number in _stated_numbers(sentence):
        claims[number.raw] = evidence.holds_number(number)
    return claims


def _is_path(path: str, evidence: _Evidence) -> bool:
    """Return whether this is a path or a file name: it is rooted, has a known ending, or begins with a known folder."""
    segments = [segment for segment in path.split("/") if segment]
    if not segments or all(re.fullmatch(r"[\d.,+-]+", segment) for segment in segments):
        return False
    if phrases.EXTENSION.search(path):
        return re.fullmatch(r"[A-Z][A-Za-z]+\.js", path) is None  # Node.js, Vue.js
    is_rooted = path.startswith(("/", "~/", "./", "../")) and len(segments) > 1
    return is_rooted or (len(segments) > 1 and f"{segments[0].lower()}/" in evidence.lower)


def _stated_numbers(sentence: str) -> Iterator[_Number]:
    """Yield exact numbers with a unit, or of three digits before a word, or of four; no dates, versions, estimates."""
    for found in phrases.NUMERAL.finditer(sentence):
        raw = found.group().rstrip(".,")
        after = sentence[found.start() + len(raw) :][:24]
        unit, digits = phrases.UNIT.match(after), re.sub(r"\D", "", raw)
        if phrases.ABOUT.search(sentence[max(0, found.start() - 24) : found.start()]) or raw.count(".") > 1:
            continue
        if unit is None and (phrases.NOT_COUNTED.match(after) or re.fullmatch(r"(?:19|20)\d\d", raw)):
            continue
        if unit or len(digits) >= 4 or (len(digits) == 3 and re.match(r"\s[^\W\d]{3}", after)):
            decimals = re.search(r"[.,](\d{1,2}|\d{4,})$", raw)
            is_measured = unit is not None and unit.group().strip()[0] not in "件個行条个次"
            yield _Number(raw, len(decimals.group(1)) if decimals else 0, is_measured)


def _readings(raw: str) -> set[float]:
    """Return the values a number may have: separators of thousands and decimal marks differ by language."""
    plain = {raw.replace(",", ""), raw.replace(".", "").replace(",", ".")}
    return {float(one) for one in plain if one.count(".") <= 1}


def _numbers(text: str) -> set[float]:
    return {value for raw in set(phrases.ANY_NUMBER.findall(text)) if len(raw) < 40 for value in _readings(raw)}


def _derived(text: str) -> Iterator[float]:
    """Yield sums and differences of the counts in the result lines of test runs."""
    for line in set(phrases.RUN_COUNTS.findall(text)):
        counts = [float(number) for number in re.findall(r"\d+(?![\d.]*s\b)", line)][:6]
        yield from (abs(one + sign * other) for one in counts for other in counts for sign in (1, -1))


# Corrections.


def _corrections(sentence: str, place: str, evidence: _Evidence) -> Iterator[str]:
    """Yield what the log knows better than a sentence."""
    is_past = phrases.FORMER.search(sentence) is not None or phrases.DROPPED.search(place) is not None
    if not is_past:
        yield from _newer_values(sentence, evidence)
    if evidence.failed_run and phrases.PASSES.search(sentence) and not phrases.FAILS.search(sentence):
        files = [path.rsplit("/", 1)[-1] for path in phrases.FILE.findall(sentence)]
        if not evidence.passed & _numbers(sentence) and all(name in evidence.failed_output for name in files):
            yield f"the last test run in the record failed: {evidence.failed_run}"
    if not phrases.RELEASED.search(sentence):
        yield from _later_words(sentence, evidence)
    if phrases.PERMITS.search(sentence) and not phrases.LIMITS.search(sentence):
        yield from _overruled(sentence, evidence)
    if not phrases.LATER.search(place):
        yield from _undone(sentence, evidence)


def _newer_values(sentence: str, evidence: _Evidence) -> Iterator[str]:
    stated = _numbers(sentence)
    for word, number in phrases.PAIR.findall(sentence) if evidence.aliases else ():
        chains = evidence.aliases.get(word.lower()) or evidence.aliases.get(_noun(word), [])
        newest = {values[-1] for values in chains}
        if len(newest) == 1 and not newest & stated and any(float(number) in values for values in chains):
            yield f"the record has {word} {newest.pop():g} since"


def _noun(word: str) -> str:
    """Return the word for a value: without what a name adds to it, and of Chinese characters the last two before a verb."""
    word = phrases.SETS.sub("", word.lower().split("_")[0])
    return word[-2:] if "\u3400" <= word[:1] <= "\u9fff" else word


def _later_words(sentence: str, evidence: _Evidence) -> Iterator[str]:
    for rule, words in evidence.later:
        for clause in re.split(r"[;；]", sentence):
            if len(_subjects(clause) & rule) >= REVOKED_SHARE * len(rule) and phrases.BINDS.search(clause):
                yield f'later by the user: "{words}"'
                return


def _overruled(sentence: str, evidence: _Evidence) -> Iterator[str]:
    subjects = _subjects(sentence)
    for rule in evidence.rules:
        shared = subjects & _subjects(rule)
        if len(shared) > 1 and len(shared) >= OVERRULED_SHARE * len(subjects) and rule not in sentence:
            yield f'the user: "{rule}"'
            return


def _undone(sentence: str, evidence: _Evidence) -> Iterator[str]:
    """Yield that a file which a sentence calls changed, deleted or unchanged is not, as far as the calls show."""
    files = [found for found in phrases.FILE.finditer(sentence) if phrases.EXTENSION.search(found.group().rstrip("."))]
    if len(files) != 1 or evidence.delegates or phrases.PROPOSED.search(sentence):
        return
    path, after = files[0].group().rstrip(".").lower(), sentence[files[0].end() :]
    name = path.rsplit("/", 1)[-1]
    if name in evidence.known.lower() or name not in evidence.lower:
        return
    if phrases.UNCHANGED_FILE.match(after):
        if not evidence.restored & {"", name} and any(
            one.endswith(f"/{path.lstrip('./')}") for one in evidence.changed
        ):
            yield "the record shows a change of it"
        return
    if phrases.DELETED.match(after) and not phrases.UNCHANGED.search(re.split("[,;，；]", after)[0]):
        evident, what = phrases.REMOVES, "deletion"
    elif phrases.UNCHANGED.search(sentence) or any(one.endswith(f"/{name}") for one in evidence.changed):
        return
    elif phrases.CHANGED.search(sentence):
        evident, what = phrases.WRITES, "change"
    else:
        return
    if not any(evident.search(command) for command in evidence.commands if name in command.lower()):
        yield f"the record shows no {what} of it"


def _injected_share(sentence: str, evidence: _Evidence) -> float:
    """Return how much of a sentence repeats, as if it held, an instruction that stands in tool output alone."""
    if not evidence.injected or phrases.REPORTS.search(sentence):
        return 0.0
    subjects = _subjects(sentence)
    alien = [len((subjects & block) - evidence.asked) for block in evidence.injected]
    together = subjects & frozenset[str]().union(*evidence.injected)
    return len(together) / len(subjects) if max(alien) > 1 else 0.0


def _rules(said: Sequence[Sequence[str]]) -> tuple[list[str], list[tuple[frozenset[str], str]]]:
    """Return the user's rules about which nothing was said that may take them back, and what the others are about, with
    those words."""
    later: list[tuple[frozenset[str], str]] = []
    doubtful: set[str] = set()
    index = SentenceIndex()
    for turn, pieces in enumerate(said):
        for at, piece in enumerate(pieces):
            index.take(Sentence(str(turn), piece, states_rule(piece)))
            if not phrases.REVOKES.search(piece):
                continue
            around = " ".join(pieces[max(0, at - 1) : at + 2])
            scope = _subjects(around)
            earlier = [(one.text, _subjects(one.text)) for one in index.earlier(around)]
            rule, about = max(earlier, key=lambda one: len(one[1] & scope) / max(1, len(one[1])), default=("", scope))
            if rule and len(about & scope) >= REVOKED_SHARE * len(about):
                later.append((about, piece))
                doubtful.add(rule)
    rules = [rule for pieces in said for piece in pieces for rule in constraint_sentences(piece)]
    return [rule for rule in rules if rule not in doubtful], later


def _changed_numbers(arguments: object) -> Iterator[tuple[str, float, float]]:
    """Yield the name, the old and the new number wherever an edit changes nothing but numbers in a line."""
    for old, new in _replaced(arguments):
        after = {phrases.ANY_NUMBER.sub("#", line).strip(): line for line in new.splitlines()}
        for line in old.splitlines():
            form = phrases.ANY_NUMBER.sub("#", line).strip()
            other = phrases.ANY_NUMBER.finditer(after.get(form, line))
            for before, now in zip(phrases.ANY_NUMBER.finditer(line), other, strict=False):
                names = phrases.IDENTIFIER.findall(line[: before.start()])
                name = next((name for name in reversed(names) if name.lower() not in phrases.TYPES), form)
                one, two = (found.group().replace(",", "") for found in (before, now))
                if one != two and one.count(".") < 2 and two.count(".") < 2:
                    yield name, float(one), float(two)


def _replaced(arguments: object) -> Iterator[tuple[str, str]]:
    """Yield the old and the new text of each replacement that a call's arguments describe; a patch is one."""
    if isinstance(arguments, list):
        for one in arguments:
            yield from _replaced(one)
    elif isinstance(arguments, Mapping):
        for key, value in arguments.items():
            new = arguments.get(key.replace("old", "new").replace("Old", "New"))
            if isinstance(value, list):
                yield from _replaced(value)
            elif isinstance(value, str) and isinstance(new, str) and new != value:
                yield value, new
            elif isinstance(value, str) and "\n-" in value and "\n+" in value:
                before, after = ("\n".join(re.findall(rf"^[{sign}](.*)", value, re.MULTILINE)) for sign in "-+")
                yield before, after


def _strings(value: object) -> Iterable[str]:
    match value:
        case str():
            return (value,)
        case dict():
            return tuple(text for inner in value.values() for text in _strings(inner))
        case list():
            return tuple(text for inner in value for text in _strings(inner))
        case _:
            return ()
