"""Carry out the plan without a model: decide, append, repeat, until the view fits or nothing helps.

The session does the same with a summariser and a store between the steps. Both build their checkpoints here, so that a
deterministic compaction and one by a model differ only in their words.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from infold.core.checkpoint_text import CheckpointText, render_checkpoint
from infold.core.cut import Cut, head_size, kept_size, newest_turns_within
from infold.core.entries import (
    NARRATIVE,
    Checkpoint,
    Clipping,
    Entry,
    Handle,
    MessageEntry,
    Pruning,
    Rejection,
    add_narrative,
    handle_of,
    split_handle,
)
from infold.core.events import Clipped, Compacted, Event, Exceeded, InstructionStubbed, Pruned
from infold.core.extract import extract
from infold.core.gauge import PlanInputs, estimated_tokens, open_calls_size
from infold.core.ledger import EMPTY_LEDGER, Ledger, Quote, carry_state, merge
from infold.core.log import Log, size_of_state, size_of_text
from infold.core.logged_message import LoggedMessage
from infold.core.messages import (
    STATE_ID,
    AssistantMessage,
    Message,
    MessageId,
    Part,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
    calls_of,
    chain_fingerprint,
    fingerprint,
    outline_fingerprint,
    text_of,
)
from infold.core.plan import Fits, Fold, NextStep, Prune, Shorten, Stuck, Summarise, next_step
from infold.core.prune import excerpts_of, names_in, plan_prune
from infold.core.tokens import estimate, measure, tokens_in, total_size

MOST_UNANSWERED = 200

LARGEST_STATE_SHARE = 0.125
"""Maximum share of the window for instructions that are carried on word for word: as much as for a summary."""


def caller_messages(log: Log, cut: Cut) -> tuple[Message, ...]:
    """Return the caller's own messages before a cut."""
    return tuple(logged.message for logged in log.live[: cut.index] if not logged.is_own)


def ledger_before(log: Log, cut: Cut) -> Ledger:
    """Return the ledger of everything before a cut, including earlier folds."""
    older = EMPTY_LEDGER
    if log.checkpoint is not None:
        older = log.checkpoint.ledger
        if log.checkpoint.narrative:
            told = Quote(str(log.checkpoint_sequence), log.checkpoint.narrative)
            older = merge(older, Ledger(narratives=(told,)))
    head = ((logged.sequence, logged.message) for logged in log.live[: cut.index])
    return merge(older, extract(head, log.pins, older))


def without_settled(ledger: Ledger, log: Log, cut: Cut) -> Ledger:
    """Return the ledger to show with the kept tail: without what the tail has settled, changed, ended, answered or taken
    back; if the user asks for something in it, no earlier request is the latest."""
    is_asked = bool(ledger.requests) and any(logged.is_persons for logged in log.live[cut.index :])
    if not (is_asked or ledger.todos or ledger.errors or ledger.jobs or ledger.questions):
        return ledger
    tail = ((logged.sequence, logged.message) for logged in log.live[cut.index :])
    later = merge(ledger, extract(tail, log.pins, ledger))
    return replace(
        ledger,
        latest_request=ledger.latest_request if later.latest_request == ledger.latest_request else None,
        revoked=later.revoked,
        todos=ledger.todos if later.todos == ledger.todos else (),
        errors=tuple(error for error in ledger.errors if error in later.errors),
        jobs=tuple(job for job in ledger.jobs if job in later.jobs),
        questions=tuple(question for question in ledger.questions if question in later.questions),
    )


class CarriedState(Struct, frozen=True):
    """What stays in force behind a cut, and the handles of instructions that were left out for their size."""

    messages: tuple[Message, ...]
    left_out: tuple[str, ...]


NO_STATE = CarriedState((), ())


def state_before(log: Log, cut: Cut, inputs: PlanInputs) -> CarriedState:
    """Return what the head before a cut sets; texts as far as they have room, the newest first, and everything else."""
    carried = () if log.checkpoint is None else log.checkpoint.state
    if not carried and not any(logged.has_state for logged in log.live[: cut.index]):
        return NO_STATE
    head = ((logged.sequence, logged.message) for logged in log.live[: cut.index])
    room = int(inputs.budget.limit_tokens * LARGEST_STATE_SHARE)
    kept: list[Message] = []
    left_out: list[str] = []
    for message in reversed(carry_state(carried, head, [logged.message for logged in log.live[cut.index :]])):
        tokens = estimate(text_of(message), log.rendering.estimate) if all(map(_is_written, message.parts)) else 0
        room -= tokens
        if tokens and room < 0 and inputs.budget.bounded:
            left_out.append(handle_of(int(message.id.removeprefix(STATE_ID)), 0))
        else:
            kept.append(message)
    return CarriedState(tuple(reversed(kept)), tuple(reversed(left_out)))


def _is_written(part: Part) -> bool:
    return isinstance(part, TextPart) and not part.opaque


def unanswered_calls(log: Log, cut: Cut) -> dict[str, str]:
    """Return the newest calls without a result in what was or will be folded, at most a fixed number."""
    before = {} if log.checkpoint is None else log.checkpoint.unanswered
    waiting = log.writable_index().unanswered
    calls = [(call_id, before.get(call_id, "")) for call_id in sorted(log.carried)]
    calls += [
        (call.call_id, call.tool)
        for logged in log.live[: cut.index]
        for call in logged.calls
        if call.call_id in waiting
    ]
    return dict(calls[-MOST_UNANSWERED:])


_BROKEN_OFF = ("tool-calls", "length")
"""Finish reasons of a reply that is to be continued."""


def awaits_model(log: Log) -> bool:
    """Return whether the newest message awaits the model: a request, a result, a call, or a reply that was cut off."""
    spoken = (logged.message for logged in reversed(log.live) if not logged.is_business)
    newest = next((message for message in spoken if not isinstance(message, SystemMessage)), None)
    if isinstance(newest, AssistantMessage):
        return bool(calls_of(newest)) or newest.finish in _BROKEN_OFF
    return newest is not None


CONTINUE_TEXT = "Go on with the next step if there is one; otherwise stop and say what you need."
"""The synthetic message after an automatic compaction."""


RATES_PER_TOKEN = 1_000_000
"""Rates are prices per million tokens, as in the catalogue."""


ROOM_GROWTH = 1.2
"""Growth factor of the room for a fold's text until the user's instructions fit in it verbatim."""


LARGEST_ROOM_SHARE = 0.9
"""Maximum share of a folded head that its text may take when it grows."""


class AppliedStep(Struct, frozen=True):
    """The result of one step: the log after it, the appended entries, and the events for observers."""

    log: Log
    entries: tuple[Entry, ...]
    events: tuple[Event, ...]


class CompactionResult(Struct, frozen=True):
    """A log whose next request fits, or `final` is `Stuck`; and everything done on the way."""

    log: Log
    final: Fits | Stuck
    steps: tuple[NextStep, ...] = ()
    entries: tuple[Entry, ...] = ()
    events: tuple[Event, ...] = ()


def compact(log: Log, inputs: PlanInputs, *, now_ms: int | None = None) -> CompactionResult:
    """Compact by code alone until the next request fits; do nothing if it already does."""
    steps: list[NextStep] = []
    entries: list[Entry] = []
    events: list[Event] = []
    while True:
        step = next_step(log, inputs)
        if isinstance(step, Stuck):
            events.append(Exceeded(log.session_id, step.floor_tokens, step.usable_tokens))
        if isinstance(step, Fits | Stuck):
            return CompactionResult(log, step, tuple(steps), tuple(entries), tuple(events))
        carried = apply_step(log, step, inputs, now_ms=now_ms)
        log = carried.log
        steps.append(step)
        entries += carried.entries
        events += carried.events
        if step.reason == "manual":  # one compaction is enough for a manual request
            inputs = replace(inputs, manual=False)


def apply_step(
    log: Log, step: Prune | Shorten | Summarise | Fold, inputs: PlanInputs, *, now_ms: int | None = None
) -> AppliedStep:
    """Append what a step decided; without a model's summary, use the deterministic fold."""
    if isinstance(step, Summarise | Fold):
        checkpoint, stubbed = checkpoint_for(log, step, inputs, now_ms=now_ms)
        entries = tuple(entries_for(checkpoint, log, inputs))
        return AppliedStep(log.extend(entries), entries, (compacted_event(log, checkpoint, inputs), *stubbed))
    entry: Pruning | Clipping
    if isinstance(step, Prune):
        targets = step.plan.targets
        entry = Pruning(targets, step.plan.freed_tokens, now_ms, excerpts_of(log, step.plan))
    else:
        targets, entry = tuple(clip.handle for clip in step.clips), Clipping(step.clips, now_ms)
    after = log.append(entry)
    tokens = (estimated_tokens(log, inputs), estimated_tokens(after, inputs))
    uncached = _uncached_tokens(after, targets)
    outdated = log.shown_thinking - after.shown_thinking if after.binds_thinking else 0
    if isinstance(entry, Pruning):
        pruned = Pruned(log.session_id, targets, entry.freed_tokens, *tokens, step.reason, uncached, outdated)
        return AppliedStep(after, (entry,), (pruned,))
    clipped = Clipped(log.session_id, targets, *tokens, step.reason, uncached, outdated)
    return AppliedStep(after, (entry,), (clipped,))


def prune_now(log: Log, inputs: PlanInputs, *, now_ms: int | None = None) -> AppliedStep:
    """Prune what the policy lets go, however full the window is; a step without entries if that is nothing."""
    plan = plan_prune(log, inputs.policy.prune, usable_tokens=inputs.budget.usable_tokens)
    return apply_step(log, Prune(plan, "manual"), inputs, now_ms=now_ms) if plan.targets else AppliedStep(log, (), ())


class NativeSummary(Struct, frozen=True):
    """The messages by which a provider itself compacted a head, and their tokens."""

    messages: tuple[Message, ...] = ()
    tokens: int = 0


NO_NATIVE = NativeSummary()


def checkpoint_for(
    log: Log,
    step: Summarise | Fold,
    inputs: PlanInputs,
    *,
    narrative: str = "",
    native: NativeSummary = NO_NATIVE,
    now_ms: int | None = None,
) -> tuple[Checkpoint, tuple[Event, ...]]:
    """Return the checkpoint that folds a step's head, with or without a narrative, and events for what was shortened."""
    summary = inputs.policy.summary
    cleaned = not narrative and not native.messages and summary.fallback == "clean"
    ledger = EMPTY_LEDGER if cleaned else ledger_before(log, step.cut)
    now = without_settled(ledger, log, step.cut)
    if narrative:
        ledger, now = replace(ledger, narratives=()), replace(now, narratives=())
    folded = CheckpointText("") if cleaned else _text(now, step, inputs, log, narrative)
    cut = _recut(log, step.cut, folded.text, inputs, cleaned=cleaned)
    callers = caller_messages(log, cut)
    state = state_before(log, cut, inputs)
    checkpoint = Checkpoint(
        text=folded.text,
        narrative=narrative,
        first_kept=cut.first_kept,
        reason=step.reason,
        ledger=ledger,
        request=log.pending,
        cleaned=cleaned,
        attempt=log.attempts + 1,
        calls=log.calls,
        tokens_before=estimated_tokens(log, inputs),
        tokens_after=_tokens_after(log, cut, folded.text, state.messages, inputs),
        native=native.messages,
        native_tokens=native.tokens,
        thinking_from=_thinking_from(log, cut) if native.messages else 0,
        created_ms=now_ms,
        calibration=log.calibration,
        limits=log.limits,
        folded=log.folded + len(callers),
        budget_tokens=folded.budget_tokens or step.budget_tokens,
        fingerprint=chain_fingerprint("" if log.checkpoint is None else log.checkpoint.fingerprint, callers),
        outline=outline_fingerprint("" if log.checkpoint is None else log.checkpoint.outline, callers),
        unanswered=unanswered_calls(log, cut),
        saving=step.saving / RATES_PER_TOKEN,
        state=state.messages,
    )
    if native.messages:
        checkpoint = replace(checkpoint, tokens_after=estimated_tokens(log.append(checkpoint), inputs))
    short = (*folded.stubbed, *state.left_out)
    return checkpoint, (InstructionStubbed(log.session_id, short),) if short else ()


USED = "Used again while the summary was being written, each with a line from before it:"


MOST_USED, LONGEST_USED, USED_SHARE, LEAST_USED_TOKENS = 100, 160, 0.1, 256
"""Names looked up in the head, characters of a line that is added for one, and how much room they have in all."""


def add_used(checkpoint: Checkpoint, log: Log, step: Summarise) -> Checkpoint:
    """Return a checkpoint of a summary that was begun earlier with what the agent has used of the head since."""
    used = () if step.seen is None else _used_lines(log, step, step.seen, checkpoint.text)
    if not used:
        return checkpoint
    block, narrative = "\n".join((USED, *used)), checkpoint.narrative
    written = checkpoint.text.removesuffix(narrative) if narrative else checkpoint.text
    is_last = written != checkpoint.text
    text = f"{written.rstrip()}\n\n{block}\n\n{narrative}" if is_last else f"{checkpoint.text}\n\n{block}"
    added = log.calibration.apply(size_of_text(block, log.rendering))
    return replace(checkpoint, text=text, used=used, tokens_after=checkpoint.tokens_after + added)


def _used_lines(log: Log, step: Summarise, seen: int, text: str) -> tuple[str, ...]:
    """Return lines of the head with the names and values that the agent used since the summary was begun.

    Only of those that the text does not have; a value that was changed has its newest line.
    """
    since = [logged.message for logged in log.live if logged.sequence >= seen]
    names = dict.fromkeys(
        name for message in since if isinstance(message, AssistantMessage) for name in names_in(_spoken(message))
    )
    known = set(names_in(text))
    missing = [name for name in names if name not in known and "/".join(name.split("/")[-2:]) not in text]
    head = [logged for logged in log.live[: step.cut.index] if logged.sequence < seen]
    room = max(LEAST_USED_TOKENS, int(step.budget_tokens * USED_SHARE))
    lines: list[str] = []
    for name in missing[:MOST_USED]:
        line = "" if any(name in other for other in lines) else _line_with(name, head, recall=log.rendering.recall)
        room -= estimate(line, log.rendering.estimate) + 1 if line else 0
        if room < 0:
            break
        lines += [line] if line else []
    return tuple(lines)


def _spoken(message: AssistantMessage) -> str:
    return "\n".join((text_of(message), *(call.arguments for call in calls_of(message))))


def _line_with(name: str, head: Sequence[LoggedMessage], *, recall: bool) -> str:
    """Return the part around a name of the newest line that has it; empty if none has it as a whole word."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    for logged in reversed(head):
        for position, part in enumerate(logged.message.parts):
            said = _content(part)
            found = word.search(said) if name in said else None
            if found is None:
                continue
            start = max(said.rfind("\n", 0, found.start()) + 1, found.start() - LONGEST_USED // 2)
            piece = " ".join(said[start : start + LONGEST_USED].split("\n", 1)[0].split())
            return f"- {piece}{f' [{handle_of(logged.sequence, position)}]' if recall else ''}"
    return ""


def _content(part: Part) -> str:
    match part:
        case TextPart(opaque=False):
            return part.text
        case ToolCallPart():
            return part.arguments
        case ToolResultPart():
            return part.output
        case _:
            return ""


def entries_for_summary(log: Log, summary: Message, *, now_ms: int | None = None) -> tuple[Entry, ...]:
    """Return what records that the caller replaced its list by a provider's summary, which its next list begins with.

    Nothing if the log begins with this summary already.
    """
    if log.live and fingerprint(log.live[0].message) == fingerprint(summary):
        return ()
    everything = Cut(log.length, None)
    checkpoint = Checkpoint(
        text="",
        reason="import",
        ledger=ledger_before(log, everything),
        attempt=log.attempts + 1,
        calls=log.calls,
        created_ms=now_ms,
        calibration=log.calibration,
        limits=log.limits,
        unanswered=unanswered_calls(log, everything),
    )
    return (checkpoint, MessageEntry(replace(summary, id=MessageId("m0"))))


def _thinking_from(log: Log, cut: Cut) -> int:
    """Return below which number thinking is outdated behind a provider's own summary: as before it.

    A changed view leaves out blank messages and shows late results as text; if the view was unchanged so far, thinking
    behind those is outdated.
    """
    is_unchanged = log.checkpoint is None and not log.altered
    shown = (logged for logged in log.live[cut.index :] if logged.is_sent)
    changes = is_unchanged and any(logged.late or logged.is_blank for logged in shown)
    return log.next_sequence if changes else log.thinking_from


def compacted_event(log: Log, checkpoint: Checkpoint, inputs: PlanInputs) -> Compacted:
    """Return the event for a checkpoint that was appended to this log."""
    kept = None if checkpoint.first_kept is None else log.index_of(checkpoint.first_kept)
    folded = log.length if kept is None else kept
    kept_from = checkpoint.thinking_from if checkpoint.native else log.next_sequence
    tail = (logged for logged in log.live[folded:] if logged.has_thinking and not log.is_outdated(logged))
    lost = (logged for logged in tail if logged.sequence < kept_from)
    verdict = checkpoint.verdict
    return Compacted(
        log.session_id,
        folded,
        checkpoint.tokens_before,
        checkpoint.tokens_after,
        checkpoint.reason,
        checkpoint.summariser,
        checkpoint.cost,
        checkpoint.duration_ms,
        uncached_tokens=checkpoint.tokens_after - inputs.overhead_tokens,
        ahead=checkpoint.ahead,
        faults=() if verdict is None else verdict.faults,
        outdated_thinking=sum(1 for _ in lost) if log.binds_thinking else 0,
        saving=checkpoint.saving,
        is_price_assumed=checkpoint.reason == "price" and inputs.rates is not None and inputs.rates.is_assumed,
        error="" if verdict is None else verdict.error,
        safety=checkpoint.safety,
        native=bool(checkpoint.native),
        marked=0 if verdict is None else len(verdict.marked),
        corrected=0 if verdict is None else len(verdict.corrected),
        removed=0 if verdict is None else len(verdict.removed),
        used=len(checkpoint.used),
    )


def entries_for(checkpoint: Checkpoint, log: Log, inputs: PlanInputs) -> Iterator[Entry]:
    """Yield what a finished compaction appends: the checkpoint, and a continue message if the policy asks for one.

    The `infold` preset adds one only if work was in progress and nothing was kept; otherwise the tail shows how to
    continue.
    """
    yield checkpoint
    # Without a message of the caller the previous fold would be folded again, for ever.
    has_work = bool(caller_messages(log, Cut(log.length, None)))
    is_adrift = checkpoint.first_kept is None and awaits_model(log)
    if has_work and checkpoint.reason != "manual" and (inputs.policy.continue_always or is_adrift):
        yield MessageEntry(_continue_message(checkpoint, log))


def _continue_message(checkpoint: Checkpoint, log: Log) -> UserMessage:
    """Return a message to continue, addressed like the last user message, which may be folded by now."""
    asked = (
        logged.message
        for logged in reversed(log.live)
        if logged.is_users and not (logged.results or logged.is_business)
    )
    newest = next((message for message in asked if isinstance(message, UserMessage)), UserMessage(MessageId(""), ()))
    return replace(
        newest,
        id=MessageId(f"continue-{log.next_sequence}"),
        parts=(TextPart(CONTINUE_TEXT, synthetic=True),),
        created_ms=checkpoint.created_ms,
    )


def _uncached_tokens(log: Log, targets: Iterable[Handle]) -> int:
    """Return the tokens from the oldest changed message on, which the provider's cache no longer serves."""
    oldest = min((split_handle(handle)[0] for handle in targets), default=log.next_sequence)
    changed = takewhile(lambda logged: logged.sequence >= oldest, reversed(log.live))
    return log.calibration.apply(total_size(map(log.size_of, changed)))


def _text(ledger: Ledger, step: Summarise | Fold, inputs: PlanInputs, log: Log, narrative: str) -> CheckpointText:
    summary = inputs.policy.summary
    if narrative and not summary.ledger:
        return _with_prefix(CheckpointText(narrative), summary.prefix)
    rule = log.rendering.estimate
    taken = estimate(f"{NARRATIVE}\n{narrative}", rule) if narrative else 0
    for room in _rooms(step, inputs, log):
        folded = render_checkpoint(
            ledger,
            budget_tokens=max(summary.minimum_tokens, room - taken),
            must_keep_tokens=summary.must_keep_tokens(room),
            rule=rule,
            recall=log.rendering.recall,
        )
        if not folded.stubbed:
            break
    body = add_narrative(folded.text, narrative) if narrative else folded.text
    stubbed = tuple(dict.fromkeys((*folded.stubbed, *ledger.forgotten)))
    return _with_prefix(CheckpointText(body, stubbed, room), summary.prefix)


def _rooms(step: Summarise | Fold, inputs: PlanInputs, log: Log) -> Iterator[int]:
    """Yield the room a fold's text may have: as planned; for a manual request, more while the window allows it and it
    helps."""
    yield step.budget_tokens
    if step.reason != "manual":
        return
    head = head_size(log, step.cut).measure
    allowed = inputs.policy.summary.budget_tokens(inputs.budget.usable_tokens)
    room, most = step.budget_tokens, min(allowed, int(head * LARGEST_ROOM_SHARE))
    while room < most:
        room = min(most, int(room * ROOM_GROWTH) + 1)
        yield room


def _with_prefix(folded: CheckpointText, prefix: str) -> CheckpointText:
    return folded if folded.text.startswith(prefix) else replace(folded, text=f"{prefix}\n{folded.text}")


def _recut(log: Log, cut: Cut, text: str, inputs: PlanInputs, *, cleaned: bool) -> Cut:
    """Return where `turn-window` cuts once the summary is known: fewer turns if the target is not met."""
    if not inputs.policy.tail.recut:
        return cut
    rule = log.rendering.estimate
    measured_of = log.cleaned_measure_of if cleaned else log.measured_of
    said = measure(text, rule)
    kept = sum(measured_of(logged) for logged in log.live[cut.index :])
    target = inputs.budget.target_tokens
    if tokens_in(said + kept, rule) <= target:
        return cut
    return newest_turns_within(log, cut, tail_tokens=target - tokens_in(said, rule), measured_of=measured_of)


def _tokens_after(log: Log, cut: Cut, text: str, state: Iterable[Message], inputs: PlanInputs) -> int:
    written = size_of_text(text, log.rendering).plus(size_of_state(state, log.rendering))
    shown = kept_size(log, cut).plus(written)
    if cut.index < log.length:
        shown = shown.plus(open_calls_size(log))
    return inputs.overhead_tokens + log.calibration.apply(shown)


class Simulation(Struct, frozen=True):
    """A simulated history: the log, its events, and the number each message got in the log."""

    log: Log
    events: tuple[Event, ...] = ()
    sequences: tuple[int, ...] = ()


def advance(rehearsal: Simulation, messages: Iterable[Message], inputs: PlanInputs) -> Simulation:
    """Simulate further messages; a request sent after them needs one more compaction.

    Only the first message can be the reply to a request made from this simulation. Any other reply was created after an
    unknown view, so once this view was changed, bound thinking leaves it.
    """
    log, events, sequences = rehearsal.log, list(rehearsal.events), list(rehearsal.sequences)
    was_sent, is_certain = bool(sequences), True
    for message in messages:
        if _is_reply(message) and log.next_sequence:
            compaction = compact(log, inputs)
            events += compaction.events
            log = compaction.log
            is_certain = is_certain and (was_sent or (log.checkpoint is None and not log.altered))
        was_sent = False
        sequences.append(log.next_sequence)
        log = log.append(MessageEntry(message))
    if not is_certain and log.binds_thinking and log.shown_thinking:
        log = log.append(Rejection(0, bound_thinking=True))
    return Simulation(log, tuple(events), tuple(sequences))


def simulate(log: Log, messages: Iterable[Message], inputs: PlanInputs) -> Iterator[CompactionResult]:
    """Yield what was done before each request that these messages were sent in or answer, the next request last.

    A request precedes each reply and follows the last message. Each result carries the log on which the next begins.
    """
    for message in messages:
        if _is_reply(message) and log.next_sequence:
            compaction = compact(log, inputs)
            yield compaction
            log = compaction.log
        log = log.append(MessageEntry(message))
    yield compact(log, inputs)


def _is_reply(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and not message.summary
