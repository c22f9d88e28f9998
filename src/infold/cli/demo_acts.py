"""What the demo does once its session has been played: open it again from the file, recall, go on, compact by hand, undo.

Each act says what it did and what did not hold, judged like the requests from the outside: by what would be sent, not by what
the engine says of itself.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from infold.cli.demo_checks import read
from infold.cli.demo_play import FAREWELL, Request, Stage
from infold.cli.demo_verdicts import judged
from infold.cli.render import counted, one_line, thousands
from infold.core.events import Clipped, Compacted, Pruned
from infold.core.messages import Message, results_of, text_of
from infold.errors import InfoldError
from infold.testing.builders import numbered, user

LATER = numbered((user("Good. Then put that into docs/feed.md, too."),), prefix="later")

FOCUS = "what the others have to know of the feed"
WORDS = "make lint unused"
FOUND = "ferry/cache.py:41: error: Name 'tide' is unused"
"""What a question in words must bring back: it was seen once, a few hundred messages ago."""

RECALL_TOKENS = 300
MOST_LINES, LONGEST_LINE = 3, 78
_STUB = re.compile(r"\[(?:pruned|clipped): ([\d,]+) characters[^\]\n]*; recall (\d+\.\d+)\]")
_COMMAND = re.compile(r"^- `.+`.* \[(\d+\.\d+)\]$", re.MULTILINE)


class Act(Struct, frozen=True):
    """One thing that was done, in lines under a name, and what did not hold."""

    name: str
    lines: tuple[str, ...]
    faults: tuple[str, ...] = ()


class Named(Struct, frozen=True):
    """A handle, and the words that named it."""

    handle: str
    words: str


def acts_on(stage: Stage, requests: Sequence[Request]) -> Iterator[Act]:
    """The acts in their order; an error ends them and is a fault."""
    try:
        yield _open_again(stage, requests[-1])
        named = _named(requests)
        if named is not None:
            yield _recall_by_handle(stage, named)
        yield _recall_by_words(stage)
        request = stage.go_on(FAREWELL[-1], requests[-1], LATER)
        yield Act("went on", (f"request {request.number} has {_size(stage, request.sent)}",), request.faults)
        yield from _compact_and_undo(stage, request)
    except InfoldError as error:
        yield Act("ended", (str(error),), (f"after the session: {error}",))


def _open_again(stage: Stage, last: Request) -> Act:
    stage.reopen()
    same = read(stage.ready().messages) == read(last.sent)
    size = stage.path.stat().st_size / 1e6
    told = f"{stage.session.log.next_sequence:,} entries in a file of {size:.1f} MB"
    return Act(
        "opened again",
        (f"{told}; the next request is {'the same' if same else 'another'}",),
        () if same else ("the session sends another request after it was opened again",),
    )


# Recall.


def _named(requests: Sequence[Request]) -> Named | None:
    """The handle of the largest stub in the newest request that got one; without any, a command that the checkpoint names."""
    for request in reversed(requests):
        if any(isinstance(event, Pruned | Clipped) for event in request.events):
            sent = "\n".join(text for message in read(request.sent) for text in _texts(message))
            stubs = sorted(_STUB.finditer(sent), key=lambda stub: int(stub.group(1).replace(",", "")))
            if stubs:
                return Named(stubs[-1].group(2), stubs[-1].group())
    command = _COMMAND.search(requests[-1].checkpoint)
    return None if command is None else Named(command.group(1), command.group())


def _recall_by_handle(stage: Stage, named: Named) -> Act:
    found = stage.session.recall(named.handle, budget_tokens=RECALL_TOKENS)
    lines = (f"named by {one_line(named.words, LONGEST_LINE)}", *_shown(found))
    wrong = f"recall {named.handle} brought back what was never said"
    return Act(f"recall {named.handle}", lines, () if _was_said(stage, found) else (wrong,))


def _recall_by_words(stage: Stage) -> Act:
    found = stage.session.recall(WORDS, budget_tokens=RECALL_TOKENS)
    fault = f"recall of {WORDS!r} did not find {FOUND!r}"
    return Act("recall", (f"by words: {WORDS}", *_shown(found)), () if FOUND in found else (fault,))


def _shown(found: str) -> tuple[str, ...]:
    lines = [f"  {one_line(line, LONGEST_LINE)}" for line in found.splitlines() if line.strip()]
    more = [f"  ({len(lines) - MOST_LINES} more lines)"] if len(lines) > MOST_LINES else []
    return (*lines[:MOST_LINES], *more)


def _was_said(stage: Stage, found: str) -> bool:
    """Whether what stands under the heading is the session's own text."""
    _, _, body = found.partition("\n")
    first = next((line for line in body.splitlines() if line.strip()), "")
    return bool(first) and any(first in text for message in stage.scene.history for text in _texts(message))


def _texts(message: Message) -> Iterator[str]:
    yield text_of(message)
    yield from (result.output for result in results_of(message))


# Compacting by hand, and back.


def _compact_and_undo(stage: Stage, before: Request) -> Iterator[Act]:
    """Fold all but the newest message, with a word on what matters; then take it back."""
    session = stage.session
    newest = session.log.live[-1].sequence
    foreseen = session.preview(up_to=newest)
    ready = session.compact(FOCUS, up_to=newest)
    folds = [event for event in ready.events if isinstance(event, Compacted)]
    change = f"{thousands(foreseen.tokens_before)} -> {thousands(foreseen.tokens_after)} tokens"
    lines = (
        f"foreseen: {counted(foreseen.folded_messages, 'message')} folded, {change}",
        f"done: {_size(stage, before.sent)} -> {_size(stage, ready.messages)}",
        *(judged(fold, stage.verdict) for fold in folds),
    )
    yield Act("by hand", lines, () if folds else ("a compaction by hand folded nothing",))
    session.undo()
    shown = stage.ready().messages
    same = read(shown) == read(before.sent)
    told = f"{_size(stage, ready.messages)} -> {_size(stage, shown)}"
    yield Act(
        "undone",
        (f"{told}, {'word for word as before' if same else 'not as before'}",),
        () if same else ("after an undo the request is not what it was",),
    )


def _size(stage: Stage, sent: Sequence[object]) -> str:
    return f"{counted(len(sent), 'message')}, {thousands(stage.tokens_of(sent))} tokens"
