"""A session as an immutable value: the newest checkpoint, the messages after it, and how entries are appended.

The log is the truth and only grows. `Log` holds as much of it as a view needs: the newest checkpoint and the messages
it did not fold. Each part is measured once, when its message is appended, and sums are kept, so that a step never walks
messages it does not change. Appending checks the entry first and raises a `LogError` with the log unchanged. `Log`
values may be kept and branched; the newest value of a line shares its storage with the earlier ones.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import TypeGuard, assert_never

from msgspec import Struct
from msgspec.structs import replace

from infold.core.budget import NOTHING_LEARNED, LearnedLimits, is_plausible_count, is_plausible_usage
from infold.core.entries import (
    Amendment,
    Checkpoint,
    Clip,
    Clipping,
    Entry,
    Handle,
    KeptStep,
    MessageEntry,
    Pin,
    Pruning,
    Rejection,
    Restoration,
    Title,
    messages_of,
    split_handle,
)
from infold.core.ledger import beside_summary, carry_state
from infold.core.logged_message import (
    LoggedMessage,
    Rendering,
    ShownMessage,
    StepState,
    hidden_parts,
    hide_in_message,
    is_loose_reasoning,
    is_sealed_reasoning,
    measure_for_log,
    measures_of,
    media_bytes,
    show_in_message,
    show_part,
    size_of_chosen,
    state_after,
)
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    SessionId,
    Usage,
    UserMessage,
    is_compaction_request,
    text_of,
)
from infold.core.tokens import (
    MESSAGE_OVERHEAD_TOKENS,
    NO_SIZE,
    UNCALIBRATED,
    Calibration,
    Size,
    measure,
    measure_message,
    size_of_all,
    token_ruler,
    total_size,
)
from infold.errors import DuplicateId, IllegalCut, UnknownReference

FARTHEST_PARTNER = 16
"""Maximum distance in messages between partners, such as a provider-side tool call and its result, or an approval
request and its answer. An id that returns later than that is a reference and must not keep a long session from being
folded."""


class MessageIndex:
    """Logged messages in order, with indices into them and the calls that have no result yet.

    `links` maps each call id, and each id that opaque parts share with their partners, to where it was last seen.
    """

    def __init__(self, items: Iterable[LoggedMessage] = ()) -> None:
        self.items: list[LoggedMessage] = []
        self.ids: dict[str, int] = {}
        self.unanswered: set[str] = set()
        self.user_turns: list[int] = []
        self.persons_turns: list[int] = []
        self.prunable: list[int] = []
        self.summaries: list[int] = []
        self.media: list[int] = []
        self.linked: list[int] = []
        self.own: list[int] = []
        self.links: dict[str, int] = {}
        self.version = 0
        for logged in items:
            self.add(logged)

    def add(self, logged: LoggedMessage) -> None:
        """Append one message."""
        index = len(self.items)
        self.items.append(logged)
        self.ids[logged.message.id] = index
        self.unanswered.difference_update(result.call_id for result in logged.results)
        self.unanswered.update(call.call_id for call in logged.calls)
        if logged.is_users:
            self.user_turns.append(index)
        if logged.is_persons:
            self.persons_turns.append(index)
        if logged.prunable:
            self.prunable.append(index)
        if logged.is_summary:
            self.summaries.append(index)
        if logged.is_own:
            self.own.append(index)
        if logged.has_media:
            self.media.append(index)
        if logged.late or logged.links:
            self.linked.append(index)
        if logged.is_boundary:  # the provider ignores what is before it, so a cut is after it
            self._forbid_cuts(range(index + 1))
        self._link(logged, index)
        self.version += 1

    def _link(self, logged: LoggedMessage, index: int) -> None:
        """Forbid a cut between an opaque part and an earlier part that shares an id with it."""
        for link in logged.links:
            partner = self.links.get(link, index)
            if index - partner <= FARTHEST_PARTNER:
                self._forbid_cuts(range(partner + 1, index + 1))
        self.links.update(dict.fromkeys((*logged.links, *(call.call_id for call in logged.calls)), index))

    def _forbid_cuts(self, indices: Iterable[int]) -> None:
        for index in indices:
            if self.items[index].cuttable:
                self.items[index] = replace(self.items[index], cuttable=False)


def indices_within(indices: list[int], length: int) -> Sequence[int]:
    """Return the indices that lie within a log's own part of the shared storage."""
    return indices if not indices or indices[-1] < length else indices[: bisect_left(indices, length)]


def is_finished_summary(message: Message) -> TypeGuard[AssistantMessage]:
    """Return whether a message is a completed summary; a failed or unfinished one is not a boundary."""
    return (
        isinstance(message, AssistantMessage)
        and message.summary
        and message.finish not in (None, "error")
        and not message.error
    )


def request_answered_by(message: Message, message_index: MessageIndex) -> UserMessage | None:
    """Return the request that a finished summary answers, or `None` if the session does not hold it."""
    if not is_finished_summary(message) or message.parent_id is None:
        return None
    index = message_index.ids.get(message.parent_id)
    parent = None if index is None else message_index.items[index].message
    return parent if isinstance(parent, UserMessage) and is_compaction_request(parent) else None


def checkpoint_from_foreign(request: UserMessage, summary: Message, message_index: MessageIndex) -> Checkpoint:
    """Return the checkpoint that a foreign compaction request and its summary amount to."""
    assert isinstance(summary, AssistantMessage)
    # The tail begins as the request says, or at the next legal cut; without a tail, with what followed the request.
    index = message_index.ids.get(tail_start_id(request) or request.id)
    cuttable = (logged.sequence for logged in message_index.items[index:] if logged.cuttable)
    return Checkpoint(
        text=text_of(summary),
        narrative=text_of(summary),
        first_kept=None if index is None else next(cuttable, None),
        reason="import",
        request=request,
        summary=summary,
        created_ms=summary.created_ms,
        state=() if index is None else _state_before(message_index, index),
    )


def _state_before(message_index: MessageIndex, index: int) -> tuple[Message, ...]:
    head, tail = message_index.items[:index], message_index.items[index:]
    numbered = ((logged.sequence, logged.message) for logged in head)
    return carry_state((), numbered, [logged.message for logged in tail])


def tail_start_id(request: UserMessage) -> MessageId | None:
    """Return where the tail begins that a request asked to keep, if it asked for one."""
    return next((part.first_kept_id for part in request.parts if isinstance(part, CompactionPart)), None)


class UsageBaseline(Struct, frozen=True):
    """The newest reported usage, its reply, and the size of the live messages at that moment.

    `is_plausible`: the report is plausible for what was sent.
    """

    usage: Usage
    sequence: int
    size: Size
    reply_size: Size
    is_plausible: bool = True


def append_message(log: "Log", message: Message) -> "Log":
    """Return the log with one more message, measured and matched with the calls before it."""
    message_index = log.writable_index()
    if message.id in message_index.ids:
        raise DuplicateId("message", message.id)
    placing = measure_for_log(
        message,
        log.next_sequence,
        log.run,
        lambda call_id: call_id in message_index.unanswered or call_id in log.carried,
        log.rendering.estimate,
    )
    logged = placing.logged
    request = request_answered_by(message, message_index)
    if request is not None:
        return fold_head(log, checkpoint_from_foreign(request, message, message_index))
    message_index.add(logged)
    grown = replace(
        log,
        next_sequence=log.next_sequence + 1,
        measured=log.measured + logged.measured,
        size=log.size.plus(logged.size),
        attempts=0 if logged.is_persons else log.attempts,
        is_rejected=False,
        has_news=log.has_news or bool(logged.results) or not logged.is_users or logged.is_persons,
        pending=message if logged.is_business and isinstance(message, UserMessage) else log.pending,
        run=placing.run,
        carried=log.carried.difference(result.call_id for result in logged.results) if log.carried else log.carried,
        length=log.length + 1,
        message_index=message_index,
        version=message_index.version,
    )
    if isinstance(message, AssistantMessage) and not message.summary:
        return _record_reply(grown, message, logged, before=log)
    return grown


def _record_reply(log: "Log", reply: AssistantMessage, logged: LoggedMessage, *, before: "Log") -> "Log":
    # A reply that arrived with a history was not answered here; only a recorded one shows how it ended.
    heard = int(reply.finish is not None)
    sent = before.calibration.apply(before.size.plus(before.checkpoint_size)) * heard
    taken = 0 if reply.usage is None else reply.usage.context
    log = replace(
        log,
        limits=log.limits if reply.error or reply.finish == "error" else log.limits.after_reply(taken),
        cut_off=reply.finish == "length" if reply.finish is not None else log.cut_off,
        calls=log.calls + heard,
        calls_since=log.calls_since + heard,
        sent_since=log.sent_since + sent,
        is_rejected=False,
    )
    if reply.usage is None or reply.usage.context == 0 or reply.finish is None:
        return log
    system = Size(prose=0 if reply.overhead is None else reply.overhead.system)
    shown = before.size.plus(before.checkpoint_size).plus(system)
    believed = is_plausible_usage(reply.usage, shown, logged.size, log.rendering.least)
    report = UsageBaseline(reply.usage, logged.sequence, log.size, logged.size, believed)
    return replace(log, report=report, calibration=_learn(before, reply.usage) if believed else log.calibration)


def _learn(log: "Log", usage: Usage) -> Calibration:
    """Return the calibration after this report, learned from the growth since the report before it.

    Nothing is learned if the view was altered in between, or if the count grew less than the added text can explain.
    """
    baseline = log.baseline
    if baseline is None or log.altered_at > baseline.sequence:
        return log.calibration
    added = log.size.minus(baseline.size).plus(baseline.reply_size)
    grown = usage.prompt + usage.cleared - baseline.usage.prompt - baseline.usage.cleared
    is_plausible = is_plausible_count(grown, added, log.rendering.least)
    return log.calibration.learn(added, grown) if is_plausible else log.calibration


def fold_head(log: "Log", checkpoint: Checkpoint) -> "Log":
    """Return the log from a checkpoint on; the checkpoint carries what reports and rejections had taught by then."""
    kept = _kept_by(log, checkpoint)
    message_index = MessageIndex(kept)
    sequences = {logged.sequence for logged in kept}
    folded = replace(
        log,
        next_sequence=log.next_sequence + 1,
        checkpoint=checkpoint,
        checkpoint_sequence=log.next_sequence,
        altered={sequence: hidden for sequence, hidden in log.altered.items() if sequence in sequences},
        freed={},
        attempts=max(log.attempts + 1, checkpoint.attempt),
        calls=max(log.calls, checkpoint.calls),
        calls_since=0,
        sent_since=0,
        cut_off=False,
        has_news=False,
        is_rejected=False,
        calibration=log.calibration if checkpoint.calibration is None else checkpoint.calibration,
        limits=log.limits if checkpoint.limits is None else checkpoint.limits,
        pending=None,
        run=StepState(log.run.step & message_index.unanswered, log.run.sealed and bool(kept)),
        carried=log.carried | (log.writable_index().unanswered - message_index.unanswered),
        length=len(kept),
        message_index=message_index,
        version=message_index.version,
    )
    thinking_from = checkpoint.thinking_from if folded.native else log.next_sequence
    return recompute_sums(_with_checkpoint_size(replace(folded, thinking_from=thinking_from), before=log))


def _with_checkpoint_size(log: "Log", before: "Log") -> "Log":
    """Return the log with the size of its checkpoint as the view shows it; steps that stay have the sizes of before."""
    if log.checkpoint is None:
        return log
    rule, steps, state = log.rendering.estimate, log.steps, log.state
    sized = {id(step): size for step, size in zip(before.steps, before.step_sizes, strict=True)}
    sizes = tuple(sized.get(id(step)) or size_of_state(step.messages, log.rendering) for step in steps)
    carried = total_size((*sizes, size_of_state(state, log.rendering)))
    messages = (*state, *(message for step in steps for message in step.messages))
    if token_ruler(rule) == rule:
        measured = carried.measure - MESSAGE_OVERHEAD_TOKENS * len(messages)
    else:
        measured = sum(sum(measure_message(message, rule)) for message in messages)
    measured += measure(log.checkpoint_text, rule)
    size = size_of_text(log.checkpoint_text, log.rendering).plus(carried)
    if log.native:
        tokens = log.checkpoint.native_tokens
        measured, size = measured + tokens, size.plus(Size(prose=tokens))
    return replace(log, checkpoint_measured=measured, checkpoint_size=size, step_sizes=sizes, kept=messages_of(steps))


def size_of_text(text: str, rendering: Rendering) -> Size:
    """Return the size of a checkpoint's text in the view, including the frame of its message."""
    if not text:
        return NO_SIZE
    said = measure(text, token_ruler(rendering.estimate))
    return Size(prose=said + MESSAGE_OVERHEAD_TOKENS, loose=MESSAGE_OVERHEAD_TOKENS)


def size_of_state(state: Sequence[Message], rendering: Rendering) -> Size:
    """Return the size in the view of the messages that a checkpoint carries on."""
    return size_of_all(state, token_ruler(rendering.estimate)) if state else NO_SIZE


def _kept_by(log: "Log", checkpoint: Checkpoint) -> list[LoggedMessage]:
    """Return the live messages a checkpoint keeps; older requests and summaries go, so that only the newest one counts."""
    if checkpoint.first_kept is None:
        return []
    index = log.index_of(checkpoint.first_kept)
    if index is None:
        remedy = "name the first kept message by its entry's number"
        raise UnknownReference("message numbered", str(checkpoint.first_kept), remedy=remedy)
    if not log.live[index].cuttable:
        raise IllegalCut(checkpoint.first_kept, log.live[index].message.id)
    first, *others = log.live[index:]
    if first.added_size != NO_SIZE:  # the unanswered calls before it are folded
        first = replace(first, size=first.size.minus(first.added_size), added_size=NO_SIZE)
    return [first, *(logged for logged in others if not logged.is_business)]


def recompute_sums(log: "Log") -> "Log":
    """Return the log with the sums over its live messages recomputed."""
    measured = sum(map(log.measured_of, log.live))
    return replace(log, measured=measured, size=total_size(map(log.size_of, log.live)))


def hide_parts(log: "Log", entry: Pruning | Clipping) -> "Log":
    """Return the log with these parts hidden."""
    wanted: dict[int, dict[int, Clip | str]] = {}
    messages: dict[int, Message] = {}
    for handle, kept in hidden_parts(entry):
        logged = log.find(handle)
        if logged is None:
            raise UnknownReference("part", handle, remedy="name parts by the handle of a message not yet folded")
        sequence, position = split_handle(handle)
        wanted.setdefault(sequence, {})[position] = kept
        messages[sequence] = logged.message
    changed = dict(log.altered)
    for sequence, visible in wanted.items():
        before = changed.get(sequence)
        changed[sequence] = hide_in_message(
            messages[sequence], sequence, visible, by=log.next_sequence, before=before, rendering=log.rendering
        )
    hidden = replace(skip_entry(log), altered=changed, altered_at=log.next_sequence, is_rejected=False)
    if isinstance(entry, Pruning):
        freed = {**log.freed, log.next_sequence: entry.freed_tokens}
        hidden = replace(hidden, freed=freed, calls_since=0, sent_since=0)
    return recompute_sums(replace(hidden, thinking_from=_thinking_from(log, wanted, untouched=not log.altered)))


def restore(log: "Log", sequence: int) -> "Log":
    """Return the log with everything visible again that the entry of that number hid."""
    touched = [number for number, altered in log.altered.items() if altered.is_hidden_by(sequence)]
    if not touched:
        raise UnknownReference(
            "pruning or clipping numbered",
            str(sequence),
            remedy="name one that still hides something; a checkpoint is undone by appending the restoration "
            "to the store and loading the session again",
        )
    changed = dict(log.altered)
    for number in touched:
        logged = log.at(number)
        assert logged is not None
        left = show_in_message(logged.message, number, changed.pop(number), by=sequence, rendering=log.rendering)
        if left is not None:
            changed[number] = left
    freed = {number: tokens for number, tokens in log.freed.items() if number != sequence}
    shown = replace(skip_entry(log), altered=changed, freed=freed, altered_at=log.next_sequence)
    return recompute_sums(replace(shown, thinking_from=_thinking_from(log, touched, untouched=not changed)))


def pin(log: "Log", entry: Pin) -> "Log":
    """Return the log with a part pinned or released; a part that was pruned is shown again once it is pinned."""
    if log.find(entry.handle) is None and entry.handle not in log.pins:
        raise UnknownReference("part", entry.handle, remedy="pin a part that is in the view, by its handle")
    pins = log.pins | {entry.handle} if entry.pinned else log.pins - {entry.handle}
    pinned = replace(skip_entry(log), pins=pins)
    sequence, position = split_handle(entry.handle)
    hidden = log.altered.get(sequence)
    if not entry.pinned or hidden is None or position not in hidden.hidden_by:
        return pinned
    logged, changed = log.at(sequence), dict(log.altered)
    assert logged is not None
    left = show_part(logged.message, sequence, changed.pop(sequence), position=position, rendering=log.rendering)
    if left is not None:
        changed[sequence] = left
    shown = replace(pinned, altered=changed, altered_at=log.next_sequence)
    return recompute_sums(replace(shown, thinking_from=_thinking_from(log, [sequence], untouched=not changed)))


def reject(log: "Log", entry: Rejection) -> "Log":
    """Return the log after a provider refused its view: limits are learned, what it refused leaves the view."""
    if entry.native:
        limits, now = replace(log.limits, refuses_native=True), log.next_sequence
        shown = replace(skip_entry(log), limits=limits, thinking_from=now, altered_at=now)
        return recompute_sums(_with_checkpoint_size(shown, before=log))
    if entry.bound_thinking:
        limits, now = replace(log.limits, binds_thinking=True), log.next_sequence
        shown = replace(skip_entry(log), limits=limits, thinking_from=now, altered_at=now)
        return recompute_sums(_with_checkpoint_size(shown, before=log))
    if entry.over_bytes is not None:
        limits = log.limits.after_bytes(entry.over_bytes)
    else:
        limits = log.limits.after_tokens(
            estimated_tokens=entry.estimated_tokens,
            reported_tokens=entry.reported_tokens,
            limit_tokens=entry.limit_tokens,
            reports=log.calibration.reports,
            believed_tokens=entry.believed_tokens,
        )
    return replace(skip_entry(log), limits=limits, is_rejected=not entry.for_output)


def amend(log: "Log", first: int) -> "Log":
    """Return the log without the message numbered `first` and all later ones; a report that covers them is void."""
    index = log.index_of(first)
    if index is None:
        remedy = "name the first message taken back by its entry's number; what is folded cannot be taken back"
        raise UnknownReference("message numbered", str(first), remedy=remedy)
    kept, gone = log.live[:index], log.live[index:]
    message_index = MessageIndex(kept)
    answered = {result.call_id for logged in gone for result in logged.results}
    made = {call.call_id for logged in log.live for call in logged.calls}
    shorter = replace(
        log,
        next_sequence=log.next_sequence + 1,
        altered={sequence: hidden for sequence, hidden in log.altered.items() if sequence < first},
        pins=frozenset(handle for handle in log.pins if split_handle(handle)[0] < first),
        report=log.report if log.report is not None and log.report.sequence < first else None,
        cut_off=False,
        has_news=True,
        pending=log.pending if log.pending is not None and log.pending.id in message_index.ids else None,
        run=state_after(kept),
        carried=log.carried | (answered - made),
        length=len(kept),
        message_index=message_index,
        version=message_index.version,
    )
    return recompute_sums(shorter)


def skip_entry(log: "Log") -> "Log":
    """Return the log after an entry that does not affect the view."""
    message_index = log.writable_index()
    message_index.version += 1
    return replace(log, next_sequence=log.next_sequence + 1, message_index=message_index, version=message_index.version)


def _thinking_from(log: "Log", changed: Iterable[int], *, untouched: bool) -> int:
    """Return the number below which thinking is outdated once these messages look different.

    Unchanged if no thinking follows them. `untouched`: nothing else changes the view before or after; then blank
    messages and late results look different too.
    """
    oldest = max(log.thinking_from, min(changed, default=log.next_sequence))
    if untouched and log.checkpoint is None and any(logged.late or logged.is_blank for logged in log.live):
        oldest = log.thinking_from
    behind = takewhile(lambda logged: logged.sequence >= oldest, reversed(log.live))
    return log.next_sequence if any(logged.has_thinking for logged in behind) else log.thinking_from


class Log(Struct, frozen=True, eq=False):
    """One session from its newest checkpoint on.

    `step_sizes` are those of `steps`, `kept` is their messages as they are sent.
    `measured` and `size` cover the live messages as the view shows them. `freed` maps each pruning in force to its
    gross tokens; `altered_at` is the number of the newest entry that hid or showed anything. `pending` is a requested
    compaction that was not carried out yet. `attempts` counts checkpoints since a person last spoke. `calls` counts
    recorded replies, without those that arrived with a history; `calls_since` and `sent_since` count replies and sent
    tokens since the newest checkpoint or pruning. `cut_off`: the newest reply ended for length and nothing was compacted since.
    `has_news`: something was added since the newest checkpoint. `is_rejected`: a provider refused the request and
    nothing was hidden or folded since. `limits` are learned from rejections. `carried` are calls of the folded head
    that may still be answered. `thinking_from`: sealed reasoning of messages numbered below it was created after other
    messages than the view has now. `message_index`, `length` and `version` implement storage shared between logs of one line;
    read `live` instead.
    """

    session_id: SessionId
    rendering: Rendering = Rendering()
    next_sequence: int = 0
    checkpoint: Checkpoint | None = None
    checkpoint_sequence: int = -1
    checkpoint_measured: int = 0
    checkpoint_size: Size = NO_SIZE
    step_sizes: tuple[Size, ...] = ()
    kept: tuple[Message, ...] = ()
    measured: int = 0
    size: Size = NO_SIZE
    altered: Mapping[int, ShownMessage] = {}
    freed: Mapping[int, int] = {}
    altered_at: int = -1
    pins: frozenset[Handle] = frozenset()
    report: UsageBaseline | None = None
    calibration: Calibration = UNCALIBRATED
    attempts: int = 0
    calls: int = 0
    calls_since: int = 0
    sent_since: int = 0
    cut_off: bool = False
    has_news: bool = False
    is_rejected: bool = False
    limits: LearnedLimits = NOTHING_LEARNED
    pending: UserMessage | None = None
    run: StepState = StepState()
    carried: frozenset[str] = frozenset()
    thinking_from: int = 0
    length: int = 0
    message_index: MessageIndex = MessageIndex()
    version: int = -1

    @property
    def folded(self) -> int:
        """How many of the caller's messages the newest checkpoint and those before it folded."""
        return 0 if self.checkpoint is None else self.checkpoint.folded

    @property
    def native(self) -> tuple[Message, ...]:
        """The provider's own summary of the folded head, if the view shows it."""
        is_shown = self.rendering.shows_native and not self.limits.refuses_native
        return self.checkpoint.native if self.checkpoint is not None and is_shown else ()

    @property
    def checkpoint_text(self) -> str:
        """The text of the newest checkpoint that the view shows; empty if there is none."""
        if self.checkpoint is None:
            return ""
        return self.checkpoint.note if self.native else self.checkpoint.text

    @property
    def state(self) -> tuple[Message, ...]:
        """What the newest checkpoint carries on, as far as the view shows it."""
        state = () if self.checkpoint is None else self.checkpoint.state
        if not state or not self.native:
            return state
        kept = takewhile(lambda logged: logged.sequence < self.checkpoint_sequence, self.live)
        return beside_summary(state, self.native, [(logged.sequence, logged.message) for logged in kept])

    @property
    def steps(self) -> tuple[KeptStep, ...]:
        """The old steps that the view shows behind the checkpoint's text; none behind the provider's own summary.

        What they thought is shown unless it is bound: its surroundings are gone.
        """
        if self.checkpoint is None or self.native:
            return ()
        steps = self.checkpoint.steps
        return tuple(map(_without_thinking, steps)) if self.binds_thinking else steps

    @property
    def reported(self) -> UsageBaseline | None:
        """Return the newest report if it covers the current view; reports from before a checkpoint do not."""
        report = self.report
        return report if report is not None and report.sequence > self.checkpoint_sequence else None

    @property
    def baseline(self) -> UsageBaseline | None:
        """Return `reported` if it is plausible."""
        reported = self.reported
        return reported if reported is not None and reported.is_plausible else None

    @property
    def live(self) -> Sequence[LoggedMessage]:
        """The messages that the newest checkpoint did not fold, oldest first. Read it now; do not keep it."""
        items = self.message_index.items
        return items if len(items) == self.length else items[: self.length]

    @property
    def open_calls(self) -> frozenset[str]:
        """The calls of the newest step that have no result yet."""
        waiting = set(self.run.step)
        for index in range(self.length - 1, -1, -1) if waiting else ():
            logged = self.message_index.items[index]
            waiting.difference_update(result.call_id for result in logged.results)
            if logged.calls:
                break
        return frozenset(waiting)

    def append(self, entry: Entry) -> "Log":  # noqa: PLR0911 - one return for each kind of entry
        """Return the session with one more entry; raise a `LogError`, changing nothing, if the entry cannot follow."""
        match entry:
            case MessageEntry():
                return append_message(self, entry.message)
            case Pruning() | Clipping():
                return hide_parts(self, entry)
            case Checkpoint():
                return fold_head(self, entry)
            case Restoration():
                return restore(self, entry.sequence)
            case Pin():
                return pin(self, entry)
            case Rejection():
                return reject(self, entry)
            case Amendment():
                return amend(self, entry.first)
            case Title():
                return skip_entry(self)
            case _:
                assert_never(entry)

    def extend(self, entries: Iterable[Entry]) -> "Log":
        """Return the session with these entries, one after the other."""
        log = self
        for entry in entries:
            log = log.append(entry)
        return log

    def find(self, handle: str) -> LoggedMessage | None:
        """Return the live message that holds a handle's part, or `None`."""
        sequence, position = split_handle(handle)
        logged = self.at(sequence)
        return logged if logged and 0 <= position < len(logged.message.parts) else None

    def at(self, sequence: int) -> LoggedMessage | None:
        """Return the live message of that number, or `None`."""
        index = self.index_of(sequence)
        return None if index is None else self.message_index.items[index]

    def index_of(self, sequence: int) -> int | None:
        """Return the index in `live` of the message of that number, or `None`."""
        items = self.message_index.items
        index = bisect_left(items, sequence, hi=self.length, key=lambda logged: logged.sequence)
        return index if index < self.length and items[index].sequence == sequence else None

    @property
    def has_media(self) -> bool:
        """Whether a live message has media."""
        return bool(indices_within(self.message_index.media, self.length))

    @property
    def linked(self) -> list[LoggedMessage]:
        """The live messages with late results, or with parts that name others."""
        return [self.message_index.items[index] for index in indices_within(self.message_index.linked, self.length)]

    @property
    def media_bytes(self) -> int:
        """The bytes of the media that the view shows."""
        indices = indices_within(self.message_index.media, self.length)
        return sum(media_bytes(self.shown(self.message_index.items[index])) for index in indices)

    def freed_since(self, sequence: int) -> int:
        """Return the gross tokens freed by prunings after that entry."""
        return sum(tokens for number, tokens in self.freed.items() if number > sequence)

    def shown(self, logged: LoggedMessage) -> Message:
        """Return a live message as the view shows it."""
        altered = self.altered.get(logged.sequence)
        return logged.message if altered is None else altered.message

    def measured_of(self, logged: LoggedMessage) -> int:
        """Return the measure of a live message as shown, in the unit of the session's estimate rule."""
        left_out, measured = self.left_out_of(logged), self._measured(logged)
        return measured if left_out is None else measured - measures_of(logged, left_out)

    def cleaned_measure_of(self, logged: LoggedMessage) -> int:
        """Return the measure of a live message without its reasoning."""
        return self._measured(logged) - measures_of(logged, is_loose_reasoning)

    def size_of(self, logged: LoggedMessage) -> Size:
        """Return the size of a live message as shown."""
        left_out, size = self.left_out_of(logged), self._size(logged)
        return size if left_out is None else size.minus(size_of_chosen(logged, left_out, self.rendering.estimate))

    def size_after_fold(self, logged: LoggedMessage) -> Size:
        """Return the size a live message would have after a new checkpoint, which outdates its thinking."""
        if not (self.binds_thinking and logged.has_thinking) or self.is_outdated(logged):
            return self.size_of(logged)
        return self.size_of(logged).minus(size_of_chosen(logged, is_sealed_reasoning, self.rendering.estimate))

    def left_out_of(self, logged: LoggedMessage) -> Callable[[Part], bool] | None:
        """Return a predicate for the parts of a live message that the view leaves out; `None` if it shows all of them."""
        is_cleaned, is_outdated = self.is_cleaned(logged), self.is_outdated(logged)
        if is_cleaned and is_outdated:
            return _is_reasoning
        if is_outdated:
            return is_sealed_reasoning
        return is_loose_reasoning if is_cleaned else None

    def is_cleaned(self, logged: LoggedMessage) -> bool:
        """Return whether the newest checkpoint left out the reasoning of this message."""
        checkpoint = self.checkpoint
        return checkpoint is not None and checkpoint.cleaned and logged.sequence < self.checkpoint_sequence

    @property
    def binds_thinking(self) -> bool:
        """Whether the model accepts its thinking only after the messages it was created after."""
        return self.rendering.binds_thinking or self.limits.binds_thinking

    def is_outdated(self, logged: LoggedMessage) -> bool:
        """Return whether a live message holds thinking that its model would refuse now.

        All thinking from before the newest change is outdated: a missing block invalidates every later one.
        """
        return logged.has_thinking and logged.sequence < self.thinking_from and self.binds_thinking

    @property
    def shown_thinking(self) -> int:
        """Return how many messages of the view hold sealed thinking."""
        in_steps = sum(_without_thinking(step) is not step for step in self.steps)
        return in_steps + sum(logged.has_thinking and not self.is_outdated(logged) for logged in self.live)

    def _measured(self, logged: LoggedMessage) -> int:
        altered = self.altered.get(logged.sequence)
        return logged.measured if altered is None else altered.measured

    def _size(self, logged: LoggedMessage) -> Size:
        altered = self.altered.get(logged.sequence)
        return logged.size if altered is None else altered.size.plus(logged.added_size)

    def writable_index(self) -> MessageIndex:
        """Return the storage if this log is the newest of its line, else a copy of its own part of it."""
        return self.message_index if self.version == self.message_index.version else MessageIndex(self.live)


def _without_thinking(step: KeptStep) -> KeptStep:
    """Return a kept step without sealed reasoning; the same object if it has none."""
    reply, *results = step.messages
    parts = tuple(part for part in reply.parts if not is_sealed_reasoning(part))
    return step if len(parts) == len(reply.parts) else replace(step, messages=(replace(reply, parts=parts), *results))


def _is_reasoning(part: Part) -> bool:
    return isinstance(part, ReasoningPart) and not part.state
