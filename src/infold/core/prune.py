"""Choose the old tool results, and the large old call arguments, that become stubs, and which lines the stubs keep.

A pure choice over the live messages: `log.py` hides them, `plan.py` decides when it is worth it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from infold.core.entries import Handle, handle_of, split_handle
from infold.core.log import Log, indices_within
from infold.core.logged_message import LONGEST_EXCERPT, LONGEST_KEPT_VALUE, LoggedMessage
from infold.core.messages import AssistantMessage, ToolCallPart, ToolResultPart, text_of
from infold.core.policy import PrunePolicy
from infold.core.recall import search_tokens
from infold.core.tokens import estimate, measure_part, tokens_in


class PrunePlan(Struct, frozen=True):
    """The parts to hide, newest first, and the tokens that frees before stubs are subtracted.

    `kept_tokens`: how much of that the stubs may keep in all; 0 if the preset has a stub of its own.
    """

    targets: tuple[Handle, ...] = ()
    freed_tokens: int = 0
    kept_tokens: int = 0


NOTHING_TO_PRUNE = PrunePlan()


def plan_prune(
    log: Log,
    policy: PrunePolicy,
    *,
    usable_tokens: int,
    minimum_tokens: int | None = None,
    least_kept_tokens: int = 0,
) -> PrunePlan:
    """Choose what lies beyond the newest `keep` tokens of tool output, if hiding it frees more than the minimum.

    Walks from newest to oldest and spares the last user turns, pinned parts and protected tools, and under a policy that spares
    no turn what the model has not seen yet; ends at a summary and at the first part that is hidden already.
    """
    if not policy.enabled:
        return NOTHING_TO_PRUNE
    keep = max(policy.keep.of(usable_tokens), least_kept_tokens)
    least = policy.minimum.of(usable_tokens) if minimum_tokens is None else minimum_tokens
    walked = freed = 0
    targets: list[Handle] = []
    rule = log.rendering.estimate
    unseen = log.next_sequence if policy.spare_turns else _newest_reply(log)
    for logged, position in _candidates(log, policy):
        tokens = tokens_in(_shown_measure(log, logged, position), rule)
        walked += tokens
        if walked > keep and logged.sequence < unseen:
            freed += tokens
            targets.append(handle_of(logged.sequence, position))
    kept = 0 if log.rendering.stub else freed // EXCERPT_PART
    return PrunePlan(tuple(targets), freed, kept) if freed > least else NOTHING_TO_PRUNE


def _newest_reply(log: Log) -> int:
    """Return the number of the newest reply with content: the model has not seen what stands behind it.

    The beginning of a reply, which a caller puts at the end for the model to go on with, has seen nothing.
    """
    for logged in reversed(log.live):
        message = logged.message
        if not isinstance(message, AssistantMessage) or logged.is_blank:
            continue
        if message.finish is not None or logged is not log.live[-1]:
            return logged.sequence
    return 0


def _candidates(log: Log, policy: PrunePolicy) -> Iterator[tuple[LoggedMessage, int]]:
    """Yield what may be hidden, newest first: a message and the position of a part in it."""
    known = log.message_index
    newest = log.length - 1
    if policy.spare_turns:  # up to the message that begins the oldest spared turn
        turns = indices_within(known.persons_turns if policy.genuine_turns else known.user_turns, log.length)
        newest = turns[-policy.spare_turns] if len(turns) >= policy.spare_turns else -1
    summaries = indices_within(known.summaries, log.length)
    oldest = summaries[-1] + 1 if summaries else 0  # finished or not
    for index in reversed(indices_within(known.prunable, newest + 1)):
        logged = known.items[index]
        if index < oldest or logged.sequence < log.checkpoint_sequence:
            return
        hidden = log.altered.get(logged.sequence)
        for position in logged.prunable:
            part = logged.message.parts[position]
            if not isinstance(part, ToolCallPart | ToolResultPart) or part.tool in policy.protected_tools:
                continue
            if isinstance(part, ToolCallPart) and not policy.arguments:
                continue
            if isinstance(part, ToolResultPart) and not (log.rendering.stub or is_worth_stub(part)):
                continue
            if isinstance(part, ToolResultPart) and part.cleared:
                return
            if hidden is not None and any(
                isinstance(hiding.kept, str) for hiding in hidden.hidden_by.get(position, ())
            ):
                return
            if not log.pins or handle_of(logged.sequence, position) not in log.pins:
                yield logged, position


def is_worth_stub(result: ToolResultPart) -> bool:
    """Return whether a result is so long that infold's own stub, which has its length and its tool, says less than it."""
    return len(result.output) >= LONGEST_KEPT_VALUE or bool(result.files) or result.cleared


def _shown_measure(log: Log, logged: LoggedMessage, position: int) -> int:
    """Return the measure of a part as the view shows it: hiding a clipped part frees only what is left of it."""
    altered = log.altered.get(logged.sequence)
    if altered is None or position not in altered.hidden_by:
        return logged.measures[position]
    return measure_part(altered.message.parts[position], log.rendering.estimate)


# The lines of a result that stay in its stub.

EXCERPT_PART = 6
"""A stub keeps at most this part of its result, and at most `LONGEST_EXCERPT` characters."""

LONGEST_KEPT_LINE = 120

MOST_SEARCHED = 12_000
"""Characters that one pruning searches for lines to keep, in the newest of its results: 2 ms."""

SHORTEST_WORD = 4
"""Characters of a word that distinguishes a line, in scripts with spaces."""

NEWER_CALLS = 5
"""After so many calls a word that one of them used counts half of what the newest one's words count."""

NAME_WEIGHT = 0.3
"""What a name, a path or a number that no later call has used counts, next to a word of the newest call that stands in no
other line. When every result was searched, stubs kept 58 of 279 facts of recorded sessions that stood only in results; 36 with
the two ends of each result in as many tokens."""

_MARK = re.compile(r"[\d_/]|[a-z][A-Z]")
"""What a name, a path or a value has: a digit, an underscore, a slash or camel case."""

_JOINTS = "./\\:@#+-"

_JOINED, _PIECE = re.compile(rf"\w[\w{re.escape(_JOINTS)}]{{2,}}"), re.compile(r"[^\W_]{4,}")
"""What may be a word, a name or a path of a line, and the words in one."""

_OUTCOME = re.compile(r"\b(?:exit|error|fail|pass|warning|exception|done|success)|\bok\b", re.IGNORECASE)


def excerpts_of(log: Log, plan: PrunePlan) -> dict[Handle, str]:
    """Return the lines that the stubs of a plan keep; if there is little room, those of the newest results.

    A line is kept if it shares rare words with the newest request and the calls after it, or names what may be needed.
    """
    if plan.kept_tokens <= 0:
        return {}
    wanted = {split_handle(handle) for handle in plan.targets}
    oldest = min(sequence for sequence, _ in wanted)
    asked = indices_within(log.message_index.persons_turns, log.length)
    request = text_of(log.message_index.items[asked[-1]].message) if asked else ""
    weights = dict.fromkeys(_words(request), 1.0)
    excerpts: dict[Handle, str] = {}
    calls, room, left = 0, plan.kept_tokens, MOST_SEARCHED
    for logged in reversed(log.live):
        if logged.sequence < oldest or room <= 0 or left < LONGEST_KEPT_VALUE:
            break
        for position, part in enumerate(logged.message.parts):
            if (logged.sequence, position) not in wanted or not isinstance(part, ToolResultPart):
                continue
            kept = _excerpt(part.output, weights, left) if len(part.output) >= LONGEST_KEPT_VALUE else ""
            left -= len(part.output)
            tokens = estimate(kept, log.rendering.estimate)
            if 0 < tokens <= room:
                excerpts[handle_of(logged.sequence, position)] = kept
                room -= tokens
        for call in logged.calls:
            calls += 1
            weight = NEWER_CALLS / (NEWER_CALLS + calls)
            weights.update({word: weight for word in _words(call.arguments) if word not in weights})
    return excerpts


def _words(text: str) -> set[str]:
    return {word for word in search_tokens(text) if len(word) >= SHORTEST_WORD or not word.isascii()}


class _Run(NamedTuple):
    """What matters of a run of letters, digits and joints: the wanted words in it, and the run if it is a name that is not
    wanted."""

    words: tuple[str, ...]
    name: str


_TELLS_NOTHING = _Run((), "")


def _excerpt(output: str, weights: Mapping[str, float], most: int) -> str:
    """Return the lines most worth keeping, in their order; the first and the last before others if they have the outcome.

    Of a longer result that many characters are searched, half of them at either end.
    """
    ends = (output,) if len(output) <= most else (output[: most // 2], output[-most // 2 :])
    lines = [line.strip()[:LONGEST_KEPT_LINE] for text in ends for line in text.splitlines() if line.strip()]
    lines = list(dict.fromkeys(lines))
    known: dict[str, _Run] = {}
    telling = [_telling_runs(line, weights, known) for line in lines]
    places = Counter(word for runs in telling for word in {word for run in runs for word in run.words})

    def worth(index: int) -> float:
        if index in (0, len(lines) - 1) and _OUTCOME.search(lines[index]):
            return float(len(lines) + len(weights))
        words = {word for run in telling[index] for word in run.words}
        names = {run.name for run in telling[index] if run.name}
        return sum(weights[word] / places[word] for word in sorted(words)) + NAME_WEIGHT * len(names)

    room = min(LONGEST_EXCERPT, len(output) // EXCERPT_PART)
    kept: list[int] = []
    for value, index in sorted(((worth(index), -index) for index in range(len(lines))), reverse=True):
        length = len(lines[-index]) + 1
        if value > 0 and length <= room:
            kept.append(-index)
            room -= length
    return "\n".join(lines[index] for index in sorted(kept))


def _telling_runs(line: str, weights: Mapping[str, float], known: dict[str, _Run]) -> list[_Run]:
    """Return the runs of a line that have wanted words or are names; each run is read once for all lines."""
    runs = _JOINED.findall(line) if line.isascii() else (*_JOINED.findall(line), line)
    found: list[_Run] = []
    for run in runs:
        told = known.get(run)
        if told is None:
            told = known[run] = _read_run(run, weights)
        if told is not _TELLS_NOTHING:
            found.append(told)
    return found


def _read_run(run: str, weights: Mapping[str, float]) -> _Run:
    if not run.isascii():  # a whole line in a script without spaces
        words = tuple(sorted(_words(run) & weights.keys()))
        return _Run(words, "") if words else _TELLS_NOTHING
    run = run.rstrip(_JOINTS)
    low = run.lower()
    words = tuple(word for word in dict.fromkeys((low, *_PIECE.findall(low))) if word in weights)
    is_name = len(run) > 2 and low not in weights and _MARK.search(run) is not None
    name = low if is_name else ""
    return _Run(words, name) if words or name else _TELLS_NOTHING
