"""What does a view of a folded session still answer about the whole past?

    python benchmarks/probes.py [--corpus DIR] [--view NAME]... [--json] [--write]

A hundred questions about five recorded sessions, twenty for each: decisions, constraints, state and next step, errors, values,
artefacts. A question has a key, a list of regular expressions. It scores 2 points if all of them occur within one stretch of
900 characters of the view, 1 point if at least half of them do. Questions and keys are in `probes/`, a file for each session,
next to a summary of the same history written by hand.

A view is everything that would be sent, the verbatim tail included. All views of a session have 12 % of the tokens of its
history. `--view module:function` scores another one: a function that takes the history and the size and returns messages.

The keys are tested in the same run: the whole history must score all points, the histories of other sessions next to none.
"""

import argparse
import importlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold import Answer, Session, SessionSettings, open_store, preset, tokens
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
    calls_of,
    decode_arguments,
    results_of,
)
from infold.core.tokens import estimate, measure_message
from infold.core.view import view
from infold.replay.facts import without_summaries
from infold.transcripts.registry import read_transcript

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.samples import add_corpus_option

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "benchmarks" / "results"
PROBES = REPOSITORY / "benchmarks" / "probes"

COMMAND = ("python", "benchmarks/probes.py")

STRETCH_CHARACTERS = 900
FULL_POINTS = 2
VIEW_SHARE = 0.12
TAIL_SHARE = 0.6
"""The part of a folded view that its verbatim tail may take, about what the policy gives it; the rest is for the checkpoint."""

LEAST_ROOM = 200
SIZE_TRIALS = 7
"""Halvings of the room for a checkpoint until its view has the size asked for, within one per cent."""

Class: TypeAlias = Literal["decisions", "constraints", "state", "errors", "values", "artefacts"]
CLASSES: tuple[Class, ...] = get_args(Class)


# Questions and their scores.


class Question(Struct, frozen=True, rename={"about": "class"}):
    """A question about the past of a session; `key` are the patterns of its answer."""

    id: str
    about: Class
    question: str
    key: tuple[str, ...]


class Probe(Struct, frozen=True):
    """The questions about one session: its transcript, and the number of messages before the cut."""

    transcript: str
    cut: int
    questions: tuple[Question, ...]


def points(key: Sequence[str], text: str) -> int:
    """Return 2 if all patterns occur within one stretch of the text, 1 if at least half of them do, otherwise 0."""
    found = _most_within(key, text)
    if found == len(key):
        return FULL_POINTS
    return 1 if found and 2 * found >= len(key) else 0


def _most_within(key: Sequence[str], text: str) -> int:
    """Return how many of the patterns occur together, at most, within one stretch of the text."""
    places = sorted(
        (match.start(), match.end(), number)
        for number, pattern in enumerate(key)
        for match in re.finditer(pattern, text, re.IGNORECASE)
    )
    most = 0
    for first, (start, _, _) in enumerate(places):
        until = start + STRETCH_CHARACTERS
        stretch = places[first : bisect_left(places, (until, 0, 0))]
        most = max(most, len({number for _, end, number in stretch if end <= until}))
    return most


# Text and sizes: the same for every view.

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def text_of(messages: Sequence[Message]) -> str:
    """Return what messages say, one after the other: text, arguments of calls by name, results; no reasoning, no colours."""
    return _COLOUR.sub("", "\n\n".join(text for message in messages for text in _texts(message)))


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case TextPart():
                yield part.text
            case ToolCallPart():
                yield f"{part.tool}\n{_arguments(part)}"
            case ToolResultPart():
                yield part.output
            case _:
                pass


def _arguments(call: ToolCallPart) -> str:
    """Return the arguments of a call as lines; as they were written if they are not an object."""
    decoded = decode_arguments(call.arguments)
    if not isinstance(decoded, Mapping):
        return call.arguments
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in decoded.items()
    )


def size_of(messages: Sequence[Message]) -> int:
    """Return the estimated tokens of messages."""
    return sum(sum(measure_message(message, "features")) for message in messages)


# Views: a history and a size in tokens give messages of at most about that size.

ViewMaker: TypeAlias = Callable[[Sequence[Message], int], Sequence[Message]]


def newest(history: Sequence[Message], size: int) -> Sequence[Message]:
    """Return the newest messages of that size: whole ones, and the end of the one before them as text."""
    start = first = tail_start(history, size)
    room, text = size - size_of(history[start:]), ""
    while first and estimate(text, "features") < room:
        first -= 1
        text = text_of(history[first:start])
    while estimate(text, "features") > room:
        text = text[len(text) // 50 + 1 :]
    return (_written("before", text), *history[start:])


def summary_and_newest(history: Sequence[Message], size: int, *, summary: str) -> Sequence[Message]:
    """Return a summary and the newest messages in the rest of the size."""
    first = _written("summary", summary)
    return (first, *newest(history, size - size_of((first,))))


def _written(name: str, text: str) -> Message:
    return UserMessage(MessageId(name), (TextPart(text, synthetic=True),))


def whole(history: Sequence[Message], size: int) -> Sequence[Message]:  # noqa: ARG001 - a view of any size
    """Return the whole history."""
    return history


def fold(history: Sequence[Message], size: int, *, summary: str = "") -> Sequence[Message]:
    """Return the view after one compaction through `Session`: by code alone, or with a summary that a model might have written.

    The tail has at most `TAIL_SHARE` of the size and the checkpoint what is left. Room that the checkpoint does not use
    goes to the tail.
    """
    start = tail_start(history, int(size * TAIL_SHARE))
    found = fill(history, start, size=size, summary=summary)
    spare = size - size_of(found)
    longer = tail_start(history, size_of(history[start:]) + spare)
    return found if longer == start else fill(history, longer, size=size, summary=summary)


def fill(history: Sequence[Message], start: int, *, size: int, summary: str) -> Sequence[Message]:
    """Return the largest view within the size whose tail begins at `start`: a fold uses a little more or less than its room."""
    low, high = LEAST_ROOM, max(LEAST_ROOM, size - size_of(history[start:])) * 2
    best = compacted(history, start, room=low, summary=summary)
    for _ in range(SIZE_TRIALS):
        room = (low + high) // 2
        found = compacted(history, start, room=room, summary=summary)
        if size_of(found) > size:
            high = room
        else:
            low, best = room, found
    return best


def compacted(history: Sequence[Message], start: int, *, room: int, summary: str) -> Sequence[Message]:
    """Give a session the history and compact it before the message at `start`, with that much room for the checkpoint."""
    policy = preset("infold")
    checkpoint = replace(policy.summary, size=tokens(room), minimum_tokens=min(LEAST_ROOM, room), maximum_tokens=room)
    settings = SessionSettings(
        window=10_000_000,
        policy=replace(policy, auto=False, summary=checkpoint),
        format="openai-chat",
        recall=True,
        summariser=(lambda _: Answer(summary, finish="stop")) if summary else None,
        environ={},
        now_ms=lambda: 0,
    )
    with Session(open_store("memory"), "probes", settings) as session:
        numbers = []
        for message in (*history, _written("end", "Go on.")):
            numbers.append(session.log.next_sequence)
            session.add([message])
        session.compact(up_to=numbers[start])
        return view(session.log, checkpoint)


def tail_start(history: Sequence[Message], size: int) -> int:
    """Return the earliest place from which the history has at most that size and no result without its call."""
    start, waits = len(history), set[str]()
    for place in range(len(history) - 1, -1, -1):
        size -= size_of(history[place : place + 1])
        if size < 0:
            break
        waits |= {result.call_id for result in results_of(history[place])}
        waits -= {call.call_id for call in calls_of(history[place])}
        if not waits:
            start = place
    return start


def view_makers(summary: str, names: Sequence[str]) -> dict[str, ViewMaker]:
    """Return the views with these names, all known ones without names; `module:function` names another one."""
    known: dict[str, ViewMaker] = {
        "infold": fold,
        "infold and summary": partial(fold, summary=summary),
        "summary and newest": partial(summary_and_newest, summary=summary),
        "newest": newest,
        "whole history": whole,
    }
    return {name: known[name] if name in known else _load(name) for name in names or known}


def _load(name: str) -> ViewMaker:
    module, _, function = name.partition(":")
    if not function:
        raise SystemExit(f"Unknown view {name!r}. Use a name of the table, such as infold, or module:function.")
    maker: ViewMaker = getattr(importlib.import_module(module), function)
    return maker


# Measuring.


class Case(Struct, frozen=True):
    """A session to ask about: its questions, its history before the cut, and a summary of that history."""

    probe: Probe
    history: tuple[Message, ...]
    summary: str

    @property
    def size(self) -> int:
        return int(size_of(self.history) * VIEW_SHARE)


class Scored(Struct, frozen=True):
    """One view of one session: its tokens, and the points of each question by its id."""

    view: str
    transcript: str
    tokens: int
    points: dict[str, int]


class Stray(Struct, frozen=True):
    """A key that the history of another session satisfies, in part or in full."""

    question: str
    transcript: str
    points: int


class Measured(Struct, frozen=True):
    """All views of all sessions, and what the keys find in the histories of other sessions."""

    scored: tuple[Scored, ...]
    strays: tuple[Stray, ...]


def load_cases(corpus: Path) -> list[Case]:
    """Return the cases whose transcripts are in the corpus, in order of name."""
    cases = []
    for path in sorted(PROBES.glob("*.json")):
        probe = msgspec.json.decode(path.read_bytes(), type=Probe)
        if (corpus / probe.transcript).exists():
            cases.append(Case(probe, read_history(corpus / probe.transcript, probe.cut), read_summary(path)))
    return cases


def read_history(path: Path, cut: int) -> tuple[Message, ...]:
    """Return the messages of a transcript before the cut, without recorded summaries, system prompts and reasoning.

    Reasoning would forbid cuts inside a turn where a signature binds it, and is not sent again by most agents.
    """
    session = read_transcript(path).sessions[0]
    summaries = [compaction.summary for compaction in session.compactions if compaction.summary]
    messages = without_summaries(session.messages, summaries)[:cut]
    return tuple(_without_reasoning(message) for message in messages if not isinstance(message, SystemMessage))


def _without_reasoning(message: Message) -> Message:
    if not isinstance(message, AssistantMessage):
        return message
    return replace(message, parts=tuple(part for part in message.parts if not isinstance(part, ReasoningPart)))


def read_summary(path: Path) -> str:
    """Return the summary that stands next to a file of questions."""
    return path.with_suffix(".md").read_text("utf-8").strip()


def measure(cases: Sequence[Case], names: Sequence[str]) -> Measured:
    """Score every view of every session, and every history by the keys of the other sessions."""
    scored = [
        score(case, name, maker(case.history, case.size))
        for case in cases
        for name, maker in view_makers(case.summary, names).items()
    ]
    return Measured(tuple(scored), tuple(strays(cases)))


def score(case: Case, name: str, messages: Sequence[Message]) -> Scored:
    """Ask all questions about a session of one view."""
    text = text_of(messages)
    found = {question.id: points(question.key, text) for question in case.probe.questions}
    return Scored(name, case.probe.transcript, size_of(messages), found)


def strays(cases: Sequence[Case]) -> Iterator[Stray]:
    """Yield the keys that the whole history of another session satisfies, in part or in full."""
    texts = {case.probe.transcript: text_of(case.history) for case in cases}
    for case in cases:
        for question in case.probe.questions:
            for transcript, text in texts.items():
                found = 0 if transcript == case.probe.transcript else points(question.key, text)
                if found:
                    yield Stray(question.id, transcript, found)


# The table.


def by_class(cases: Sequence[Case], scored: Sequence[Scored]) -> dict[str, dict[str, int]]:
    """Return the points of each view by class and in total."""
    classes = {question.id: question.about for case in cases for question in case.probe.questions}
    sums = defaultdict[str, dict[str, int]](lambda: dict.fromkeys((*CLASSES, "total"), 0))
    for one in scored:
        for question, found in one.points.items():
            sums[one.view][classes[question]] += found
            sums[one.view]["total"] += found
    return dict(sums)


def render(cases: Sequence[Case], measured: Measured) -> str:
    """Return the points as plain-text tables, by class and by session, and what is doubtful about the keys."""
    sums = by_class(cases, measured.scored)
    most = by_class(cases, [Scored("most", "", 0, {question.id: FULL_POINTS}) for question in _questions(cases)])[
        "most"
    ]
    lines = [f"{len(_questions(cases))} questions about {len(cases)} sessions; points by class, in per cent of all", ""]
    lines.append(f"{'':24}" + "".join(f"{name:>16}" for name in most))
    lines += [f"{name:24}" + "".join(_cell(found[one], most[one]) for one in most) for name, found in sums.items()]
    lines += ["", f"points (tokens) by session, views of {VIEW_SHARE:.0%} of the history"]
    for case in cases:
        rows = [one for one in measured.scored if one.transcript == case.probe.transcript]
        shown = ", ".join(f"{one.view} {sum(one.points.values())} ({one.tokens:,})" for one in rows)
        lines.append(f"{case.probe.transcript}: size {case.size:,}: {shown}")
    return "\n".join([*lines, "", *_doubts(cases, measured)]) + "\n"


def _questions(cases: Sequence[Case]) -> list[Question]:
    return [question for case in cases for question in case.probe.questions]


def _cell(found: int, most: int) -> str:
    return f"{f'{found}/{most} {100 * found / max(1, most):.0f}%':>16}"


def _doubts(cases: Sequence[Case], measured: Measured) -> Iterator[str]:
    """Yield what the keys miss in their own history, and what they find in others, per session compared."""
    missed = [
        f"{question}: {found} of {FULL_POINTS}"
        for case in cases
        for question, found in score(case, "whole history", case.history).points.items()
        if found < FULL_POINTS
    ]
    yield f"keys not found whole in their own history: {', '.join(missed) or 'none'}"
    total = sum(stray.points for stray in measured.strays) / max(1, len(cases) - 1)
    found_elsewhere = [f"{stray.question} in {stray.transcript}: {stray.points}" for stray in measured.strays]
    yield f"points in the history of another session, mean: {total:.1f}; {', '.join(found_elsewhere) or 'none'}"


# The command.


def main() -> None:
    """Measure, print, and keep the figures if asked to."""
    parser = argparse.ArgumentParser(description="ask views of folded sessions about the whole past")
    add_corpus_option(parser)
    parser.add_argument("--view", action="append", default=[], help="a view, or module:function; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--write", action="store_true", help="write results/probes.json and .txt")
    options = parser.parse_args()
    cases = load_cases(options.corpus)
    if not cases:
        print(f"no transcripts in {options.corpus}: set INFOLD_CORPUS or pass --corpus", file=sys.stderr)
        return
    measured = measure(cases, options.view)
    text = render(cases, measured)
    figures = {"points": by_class(cases, measured.scored), **msgspec.to_builtins(measured)}
    if options.write:
        write(text, figures, shlex.join([*COMMAND, *(f"--view={name}" for name in options.view), "--write"]))
    print(json.dumps(figures, indent=1) if options.json else text, end="")


def write(text: str, figures: dict[str, object], command: str) -> None:
    """Write the figures with machine, commit and command."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True, cwd=REPOSITORY
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    record = {"command": command, "commit": commit, "machine": machine, **figures}
    (RESULTS / "probes.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    (RESULTS / "probes.txt").write_text(f"{machine}, commit {commit}\n{text}", "utf-8")


if __name__ == "__main__":
    main()
