"""Carry out the plan without a model: decide, append, repeat, until the view fits or nothing helps.

The session does the same with a summariser and a store between the steps. Both build their checkpoints here, so that a
deterministic compaction and one by a model differ only in their words.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple, assert_never

from msgspec import Struct
from msgspec.structs import replace

from infold.core.checkpoint_text import CheckpointText, TextRoom, render_checkpoint
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
from infold.core.extract import extract, index_of
from infold.core.gauge import PlanInputs, Rates, estimated_tokens, open_calls_size, preset_tokens
from infold.core.kept_steps import NO_STEPS, KeptSteps, OldSteps
from infold.core.later_words import SentenceIndex
from infold.core.ledger import EMPTY_LEDGER, EXCERPTS, Ledger, Quote, carry_state, merge
from infold.core.log import Log, size_of_state, size_of_text
from infold.core.messages import (
    STATE_ID,
    AssistantMessage,
    HistoryFingerprints,
    Message,
    MessageId,
    Part,
    SystemMessage,
    TextPart,
    UserMessage,
    calls_of,
    fingerprint,
    history_fingerprints,
    is_provider_summary,
    text_of,
)
from infold.core.plan import Fits, Fold, NextStep, Prune, Shorten, Stuck, Summarise, ends_with_reply, next_step
from infold.core.policy import ContinueRule, SummaryPolicy
from infold.core.prune import excerpts_of, plan_prune
from infold.core.tokens import NO_SIZE, Size, estimate, measure, tokens_in, total_size

MOST_UNANSWERED = 200

LARGEST_STATE_SHARE = 0.125
"""Maximum share of the window for instructions that are carried on word for word: as much as for a summary."""


def caller_messages(log: Log, cut: Cut) -> tuple[Message, ...]:
    """Return the caller's own messages before a cut."""
    return tuple(logged.message for logged in log.live[: cut.index] if not logged.is_own)


def ledger_before(log: Log, cut: Cut) -> Ledger:
    """Return the ledger of everything before a cut, including earlier folds."""
    older = _older_ledger(log)
    return _ledger_before(log, cut, older, index_of(older))


def ledgers_at(log: Log, cut: Cut) -> tuple[Ledger, Ledger]:
    """Return the ledger of everything before a cut, and the one to show with the kept tail: without what the tail has settled,
    changed, ended, answered or taken back; if the user asks for something in it, no earlier request is the latest."""
    older = _older_ledger(log)
    said = index_of(older)
    ledger = _ledger_before(log, cut, older, said)
    is_asked = bool(ledger.requests) and any(logged.is_persons for logged in log.live[cut.index :])
    if not (is_asked or ledger.todos or ledger.errors or ledger.jobs or ledger.questions):
        return ledger, ledger
    tail = ((logged.sequence, logged.message) for logged in log.live[cut.index :])
    later = merge(ledger, extract(tail, log.pins, ledger, said))
    return ledger, replace(
        ledger,
        latest_request=ledger.latest_request if later.latest_request == ledger.latest_request else None,
        later=later.later,
        todos=ledger.todos if later.todos == ledger.todos else (),
        errors=tuple(error for error in ledger.errors if error in later.errors),
        jobs=tuple(job for job in ledger.jobs if job in later.jobs),
        questions=tuple(question for question in ledger.questions if question in later.questions),
    )


def _older_ledger(log: Log) -> Ledger:
    """Return the ledger of earlier folds."""
    if log.checkpoint is None:
        return EMPTY_LEDGER
    if not log.checkpoint.narrative:
        return log.checkpoint.ledger
    told = Quote(str(log.checkpoint_sequence), log.checkpoint.narrative)
    return merge(log.checkpoint.ledger, Ledger(narratives=(told,)))


def _ledger_before(log: Log, cut: Cut, older: Ledger, said: SentenceIndex) -> Ledger:
    head = ((logged.sequence, logged.message) for logged in log.live[: cut.index])
    return merge(older, extract(head, log.pins, older, said))


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
    entry = _hiding_entry(log, step, now_ms)
    after = log.append(entry)
    targets = step.plan.targets if isinstance(step, Prune) else tuple(clip.handle for clip in step.clips)
    tokens = (estimated_tokens(log, inputs), estimated_tokens(after, inputs))
    uncached = _uncached_tokens(after, targets)
    outdated = log.shown_thinking - after.shown_thinking if after.binds_thinking else 0
    if isinstance(step, Shorten):
        clipped = Clipped(log.session_id, targets, *tokens, step.reason, uncached, outdated)
        return AppliedStep(after, (entry,), (clipped,))
    saving = _stated_saving(step.saving, inputs.rates)
    pruned = Pruned(
        log.session_id,
        targets,
        step.plan.freed_tokens,
        *tokens,
        step.reason,
        uncached,
        outdated,
        preset_tokens(log, inputs.policy),
        saving=saving.dollars,
        saving_tokens=saving.tokens,
        is_price_assumed=step.reason == "price" and saving.is_assumed,
    )
    return AppliedStep(after, (entry,), (pruned,))


def _hiding_entry(log: Log, step: Prune | Shorten, now_ms: int | None) -> Pruning | Clipping:
    if isinstance(step, Shorten):
        return Clipping(step.clips, now_ms)
    return Pruning(step.plan.targets, step.plan.freed_tokens, now_ms, excerpts_of(log, step.plan))


class _StatedSaving(NamedTuple):
    """A saving in US dollars, 0.0 if only the usual ratios of prices are known, and in tokens of uncached input."""

    dollars: float
    tokens: int
    is_assumed: bool


def _stated_saving(saving: float, rates: Rates | None) -> _StatedSaving:
    is_assumed = rates is not None and rates.is_assumed
    tokens = int(saving / rates.fresh) if rates is not None and rates.fresh else 0
    return _StatedSaving(0.0 if is_assumed else saving / RATES_PER_TOKEN, tokens, is_assumed)


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
    cleaned = not narrative and not native.messages and summary.fallback == "clean" and _begins_turn(log, step.cut)
    ledger, now = (EMPTY_LEDGER, EMPTY_LEDGER) if cleaned else ledgers_at(log, step.cut)
    if narrative:
        ledger, now = replace(ledger, narratives=()), replace(now, narratives=())
    state = state_before(log, step.cut, inputs)
    old = OldSteps(log, step.cut) if _may_keep_steps(log, step, inputs, state) else None
    folded = CheckpointText("") if cleaned else _text(now, step, inputs, log, narrative, old)
    cut = _recut(log, step.cut, folded.text, inputs, cleaned=cleaned)
    state = state if cut == step.cut else state_before(log, cut, inputs)
    kept = NO_STEPS if old is None or native.messages or cleaned else _steps(log, step, folded, inputs, old)
    if kept.steps:
        folded = replace(folded, text=f"{folded.text}\n\n{EXCERPTS}")
    callers = caller_messages(log, cut)
    known = _known_by(log, callers)
    saving = _stated_saving(step.saving, inputs.rates)
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
        tokens_after=_tokens_after(log, cut, folded.text, kept.size.plus(_size_of(state, log)), inputs),
        native=native.messages,
        native_tokens=native.tokens,
        thinking_from=_thinking_from(log, cut) if native.messages else 0,
        created_ms=now_ms,
        calibration=log.calibration,
        limits=log.limits,
        folded=log.folded + len(callers),
        budget_tokens=folded.budget_tokens or step.budget_tokens,
        fingerprint=known.exact,
        outline=known.outline,
        unanswered=unanswered_calls(log, cut),
        saving=saving.dollars,
        saving_tokens=saving.tokens,
        state=state.messages,
        steps=kept.steps,
    )
    if native.messages:
        checkpoint = replace(checkpoint, tokens_after=estimated_tokens(log.append(checkpoint), inputs))
    short = (*folded.stubbed, *state.left_out)
    return checkpoint, (InstructionStubbed(log.session_id, short),) if short else ()


def _known_by(log: Log, callers: Iterable[Message]) -> HistoryFingerprints:
    """Return the fingerprints of everything that a fold replaces: what the last one did, and these messages of the caller."""
    before = ("", "") if log.checkpoint is None else (log.checkpoint.fingerprint, log.checkpoint.outline)
    return history_fingerprints(*before, callers)


def _size_of(state: CarriedState, log: Log) -> Size:
    return size_of_state(state.messages, log.rendering)


def checkpoint_without_steps(log: Log, inputs: PlanInputs, *, now_ms: int | None = None) -> Checkpoint | None:
    """Return the newest checkpoint again without its steps, for a request that offers no tools; `None` if it has none."""
    checkpoint, first = log.checkpoint, log.live[0] if log.live else None
    if checkpoint is None or not log.steps or (first is not None and not first.cuttable):
        return None
    first_kept = None if first is None else first.sequence
    bare = replace(
        checkpoint,
        text=checkpoint.text_alone,
        steps=(),
        first_kept=first_kept,
        attempt=log.attempts,
        calls=log.calls,
        tokens_before=estimated_tokens(log, inputs),
        created_ms=now_ms,
        calibration=log.calibration,
        limits=log.limits,
        unanswered=unanswered_calls(log, Cut(0, first_kept)),
        cost=0.0,
        duration_ms=0,
        saving=0.0,
        saving_tokens=0,
    )
    return replace(bare, tokens_after=estimated_tokens(log.append(bare), inputs))


def _begins_turn(log: Log, cut: Cut) -> bool:
    """Return whether the tail begins with a user's message; without a summary, one that does not would lose its prompt."""
    return cut.index == log.length or log.live[cut.index].is_users


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
        counted_tokens=preset_tokens(log, inputs.policy),
        ahead=checkpoint.ahead,
        faults=() if verdict is None else verdict.faults,
        outdated_thinking=sum(1 for _ in lost) if log.binds_thinking else 0,
        saving=checkpoint.saving,
        saving_tokens=checkpoint.saving_tokens,
        is_price_assumed=checkpoint.reason == "price" and inputs.rates is not None and inputs.rates.is_assumed,
        error="" if verdict is None else verdict.error,
        safety=checkpoint.safety,
        native=bool(checkpoint.native),
        marked=0 if verdict is None else len(verdict.marked),
        corrected=0 if verdict is None else len(verdict.corrected),
        removed=0 if verdict is None else len(verdict.removed),
        kept_steps=len(checkpoint.steps),
    )


def entries_for(checkpoint: Checkpoint, log: Log, inputs: PlanInputs) -> Iterator[Entry]:
    """Yield what a finished compaction appends: the checkpoint, and a continue message if the policy asks for one."""
    yield checkpoint
    # Without a message of the caller the previous fold would be folded again, for ever.
    has_work = bool(caller_messages(log, Cut(log.length, None)))
    if has_work and checkpoint.reason != "manual" and _asks_to_continue(checkpoint, log, inputs.policy.continues):
        yield MessageEntry(_continue_message(checkpoint, log))


def _asks_to_continue(checkpoint: Checkpoint, log: Log, rule: ContinueRule) -> bool:
    keeps_nothing = checkpoint.first_kept is None
    match rule:
        case "always":
            return True
        case "after-reply":
            return keeps_nothing or (ends_with_reply(log) and not log.open_calls)
        case "adrift":  # otherwise the tail shows how to continue
            return keeps_nothing and awaits_model(log)
        case _:
            assert_never(rule)


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


def _may_keep_steps(log: Log, step: Summarise | Fold, inputs: PlanInputs, state: CarriedState) -> bool:
    """Return whether a fold may keep old steps: not without tools, nor behind a summary that the provider wrote for the client.

    Nor if nothing follows them and thinking is bound: where even calls without their thinking are refused, no call may stay.
    """
    if not (inputs.policy.summary.steps_share and inputs.offers_tools):
        return False
    if log.binds_thinking and step.cut.index == log.length:
        return False
    return not any(is_provider_summary(part) for message in state.messages for part in message.parts)


def _text(
    ledger: Ledger, step: Summarise | Fold, inputs: PlanInputs, log: Log, narrative: str, old: OldSteps | None
) -> CheckpointText:
    summary = inputs.policy.summary
    if narrative and not summary.ledger:
        return _with_prefix(CheckpointText(narrative), summary.prefix)
    rule = log.rendering.estimate
    taken = estimate(f"{NARRATIVE}\n{narrative}", rule) if narrative else 0
    for room in _rooms(step, inputs, log):
        allowed = TextRoom(max(summary.minimum_tokens, room - taken), summary.must_keep_tokens(room))
        wanted = old.wanted_tokens(room) if old is not None and room >= LEAST_ROOM_TOKENS else 0
        if wanted:
            allowed = _beside_steps(allowed, room, wanted, summary, has_narrative=bool(narrative))
        folded = render_checkpoint(ledger, allowed, rule=rule, recall=log.rendering.recall)
        if not folded.stubbed:
            break
    body = add_narrative(folded.text, narrative) if narrative else folded.text
    stubbed = tuple(dict.fromkeys((*folded.stubbed, *ledger.forgotten)))
    return _with_prefix(CheckpointText(body, stubbed, room), summary.prefix)


LEAST_ROOM_TOKENS = 800
"""In a smaller room only a text stands: the user's words and what is open take it."""

ASKED_SHARE = 0.28
"""Share of the room for the user's words other than rules where kept steps want the rest; the first and the latest request may
take more."""

STATE_SHARE = 0.15
"""Share of the room for changed files, todos, open errors, questions and jobs, whatever else wants it."""

UNLISTED_TOKENS = 1_000
"""The first tokens of a room, of which lists have none: a few steps say more than a few lines of lists."""


def _beside_steps(
    allowed: TextRoom, room: int, wanted: int, summary: SummaryPolicy, *, has_narrative: bool
) -> TextRoom:
    """Return what a text may take next to steps that want that many tokens; with a model's narrative lists take half."""
    unwanted = room - wanted
    lists = max(0, int((room - UNLISTED_TOKENS) * (1 - summary.steps_share)))
    asked = max(int(room * ASKED_SHARE), unwanted)
    return replace(
        allowed,
        asked_tokens=asked,
        list_tokens=max(lists // 2 if has_narrative else lists, unwanted),
        shared_tokens=asked + lists,
        state_tokens=int(room * STATE_SHARE),
    )


def _steps(log: Log, step: Summarise | Fold, folded: CheckpointText, inputs: PlanInputs, old: OldSteps) -> KeptSteps:
    """Return the old steps that fit into the room next to the text, and below the target of an automatic fold."""
    room = folded.budget_tokens or step.budget_tokens
    if room < LEAST_ROOM_TOKENS:
        return NO_STEPS
    rule = log.rendering.estimate
    if step.reason != "manual" and inputs.budget.bounded:
        without = _tokens_after(log, step.cut, folded.text, NO_SIZE, inputs)
        room = min(room, estimate(folded.text, rule) + max(0, inputs.budget.target_tokens - without))
    return old.keep(room - estimate(folded.text, rule) - estimate(EXCERPTS, rule))


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


def _tokens_after(log: Log, cut: Cut, text: str, carried: Size, inputs: PlanInputs) -> int:
    written = size_of_text(text, log.rendering).plus(carried)
    shown = kept_size(log, cut).plus(written)
    if cut.index < log.length:
        shown = shown.plus(open_calls_size(log))
    return inputs.overhead_tokens + log.calibration.apply(shown)


class Simulation(Struct, frozen=True):
    """A simulated history: the log, its events, and the number each message got in the log.

    `next` is the compaction before the request that is sent now, if it was made already.
    """

    log: Log
    events: tuple[Event, ...] = ()
    sequences: tuple[int, ...] = ()
    next: CompactionResult | None = None


def advance(rehearsal: Simulation, messages: Iterable[Message], inputs: PlanInputs) -> Simulation:
    """Simulate further messages; a request sent after them needs one more compaction.

    Only the first message can be the reply to a request made from this simulation. Any other reply was created after an
    unknown view, so once this view was changed, bound thinking leaves it.
    """
    log, events, sequences = rehearsal.log, list(rehearsal.events), list(rehearsal.sequences)
    was_sent, is_certain = bool(sequences), True
    for message in messages:
        if _is_reply(message) and log.next_sequence:
            known = rehearsal.next if log is rehearsal.log else None
            compaction = known or compact(log, inputs)
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
