"""The provider's own compaction: when it is preferred, where it cuts, and what a view shows of it."""

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.compact import NativeSummary, checkpoint_for, compacted_event
from infold.core.cut import Cut, native_cut
from infold.core.entries import NARRATIVE, Checkpoint, MessageEntry, Rejection, Restoration, Verdict, add_narrative
from infold.core.gauge import NativeUse, PlanInputs, Rates, estimated_tokens
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    ReasoningPart,
    SessionId,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    text_of,
)
from infold.core.plan import Fold, Prune, Summarise, fold_at, next_step, prefers_native
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.testing.builders import numbered, replies, requests_compaction, result, user

SHOWN = Rendering(binds_thinking=True, shows_native=True)
SEAL = '{"type":"thinking","thinking":"hm","signature":"s"}'
BLOCK = AssistantMessage(MessageId("native-0"), (TextPart('{"type":"compaction"}', opaque=True),))
NATIVE = NativeSummary((BLOCK,), 40)


def thinks() -> AssistantMessage:
    """A reply that begins with sealed thinking and calls a tool."""
    return AssistantMessage(MessageId(""), (ReasoningPart("hm", SEAL), ToolCallPart("", "bash", "{}")), finish="stop")


def log_of(*drafts: Message, rendering: Rendering = SHOWN) -> Log:
    """A log of these messages."""
    return Log(SessionId("s"), rendering).extend(MessageEntry(message) for message in numbered(drafts))


def working(steps: int = 6, tokens: int = 400) -> Log:
    """A request and so many steps, each with a result of that size."""
    return log_of(user("Build it."), *(draft for _ in range(steps) for draft in (thinks(), result(tokens))))


def later(log: Log, *drafts: Message) -> Log:
    """The log with more messages."""
    return log.extend(MessageEntry(message) for message in numbered(drafts, prefix=f"x{log.next_sequence}-"))


def inputs_with(native: NativeUse = "always", *, window: int = 3_000, **given: object) -> PlanInputs:
    """Inputs of a session whose provider compacts."""
    inputs = PlanInputs(INFOLD, budget_for(Window(window), INFOLD), bound=1.0, summariser=True, native=native)
    return replace(inputs, **given)


def folded(log: Log, at: int, *, inputs: PlanInputs | None = None, native: NativeSummary = NATIVE) -> Log:
    """The log with everything before that message compacted by the provider."""
    step = Summarise(Cut.at(log, at), 300, "trigger", native=True)
    checkpoint, _ = checkpoint_for(log, step, inputs or inputs_with(), narrative="All is well.", native=native)
    return log.append(checkpoint)


def names(log: Log) -> list[str]:
    """The ids of the messages in the view."""
    return [message.id for message in view(log, INFOLD.summary)]


# Where it cuts.


def test_a_native_cut_falls_before_a_reply() -> None:
    """B42: the head is what an earlier request held, so it ends before a reply; the nearest one before the cut, else after it."""
    log = log_of(user("a"), replies(), user("b"), replies(), replies(), user("c"))
    assert native_cut(log, Cut.at(log, 2)) == Cut.at(log, 1)
    assert native_cut(log, Cut.at(log, 6)) == Cut.at(log, 3)
    assert native_cut(log_of(user("a"), user("b"), replies()), Cut(1, 1)) == Cut(2, 2)
    assert native_cut(log_of(user("a"), user("b")), Cut(1, 1)) is None


def test_a_native_cut_falls_behind_the_note_of_the_one_before() -> None:
    """B42: kept messages before an earlier note would not follow the new block unchanged."""
    log = folded(working(), 5)
    assert native_cut(log, Cut.at(log, 4)) is None
    grown = later(log, thinks(), result())
    first = next(index for index, logged in enumerate(grown.live) if logged.sequence > log.checkpoint_sequence)
    assert native_cut(grown, Cut.at(grown, 2)) == Cut.at(grown, first)


def test_no_native_cut_behind_a_request_for_a_compaction() -> None:
    """B42: such a message is never sent, so what stands before the reply is another one."""
    log = log_of(user("a"), requests_compaction(), replies())
    assert native_cut(log, Cut.at(log, 2)) is None


# When it is preferred.


@pytest.mark.parametrize(("native", "preferred"), [("always", True), ("never", False)])
def test_the_setting_decides(native: NativeUse, preferred: bool) -> None:
    """B42: `always` and `never` need no reason."""
    log = log_of(user("a"), replies("word " * 400), user("b"), replies())
    assert prefers_native(log, inputs_with(native), Cut.at(log, 2)) is preferred


def test_bound_thinking_in_the_tail_is_a_reason() -> None:
    """B42: only behind the provider's own summary it stays valid; one that was outdated before is none."""
    log, cut = working(), Cut.at(working(), 7)
    assert prefers_native(log, inputs_with("auto"), cut)
    outdated = log.append(Rejection(0, bound_thinking=True))
    assert not prefers_native(outdated, inputs_with("auto"), cut)
    unbound = working()
    unbound = replace(unbound, rendering=Rendering(shows_native=True))
    assert not prefers_native(unbound, inputs_with("auto"), cut)


def test_sealed_reasoning_in_the_head_is_a_reason() -> None:
    """B42: where only the provider can read its summary, it must carry what only it can read."""
    log = replace(working(), rendering=Rendering(shows_native=True))
    inputs = inputs_with("auto", native_is_sealed=True)
    assert prefers_native(log, inputs, Cut.at(log, 7))
    plain = log_of(user("a"), replies(), user("b"), replies(), rendering=Rendering(shows_native=True))
    assert not prefers_native(plain, inputs, Cut.at(plain, 2))


def test_a_cached_head_is_a_reason() -> None:
    """B42: reading the whole request from the cache may cost less than reading the head without it; not once it is cold."""
    reply = replies("word " * 900, usage=Usage(input=1_500, output=900))
    log = log_of(user("a " * 900), reply, user("b"), replies(), rendering=Rendering(shows_native=True))
    cheap, dear = Rates(10.0, 1.0), Rates(10.0, 10.0)
    cut = Cut.at(log, 3)
    assert prefers_native(log, inputs_with("auto", rates=cheap), cut)
    assert not prefers_native(log, inputs_with("auto", rates=dear), cut)
    assert not prefers_native(log, inputs_with("auto", rates=cheap, is_cold=True), cut)
    assert not prefers_native(log, inputs_with("auto"), cut)


def test_a_provider_that_refused_its_block_is_not_asked_again() -> None:
    """B42: the session remembers."""
    log = working().append(Rejection(0, native=True))
    assert not prefers_native(log, inputs_with("always"), Cut.at(log, 7))
    assert not prefers_native(log, inputs_with("auto"), Cut.at(log, 7))


def test_the_ladder_folds_natively_in_place_of_pruning() -> None:
    """B32, B42: pruning would outdate the thinking behind it, which the provider's own compaction keeps."""
    log = working(steps=12, tokens=3_000)
    step = next_step(log, inputs_with("auto", window=12_000))
    assert isinstance(step, Summarise)
    assert step.native
    assert isinstance(log.live[step.cut.index].message, AssistantMessage)
    other = next_step(log, inputs_with("never", window=12_000))
    assert isinstance(other, Prune)
    refused = log.append(Rejection(0, native=True))
    assert isinstance(next_step(refused, inputs_with("auto", window=12_000)), Prune)


def test_only_an_ordinary_cut_is_native() -> None:
    """B42: code rewrites a checkpoint, and folds all there is; and nothing is native without a model."""
    log = working()
    inputs = inputs_with("always")
    whole = fold_at(log, Cut.at(log, log.length), inputs, "overflow")
    assert isinstance(whole, Summarise)
    assert not whole.native
    assert isinstance(fold_at(log, Cut.at(log, 7), replace(inputs, summariser=False), "trigger"), Fold)


# What a view shows.


def test_the_block_stands_first_and_the_note_where_it_was_made() -> None:
    """B42: nothing comes between the block and the first kept message, and the note never moves."""
    log = folded(working(), 7)
    kept = [logged.message.id for logged in log.live]
    note = f"note-{log.checkpoint_sequence}"
    assert names(log) == ["native-0", *kept, note]
    assert names(later(log, thinks(), result()))[: len(kept) + 2] == ["native-0", *kept, note]
    shown = view(log, INFOLD.summary)
    assert "Build it." in text_of(shown[-1])
    assert "All is well." not in text_of(shown[-1])


def test_a_note_does_not_separate_a_call_from_its_result() -> None:
    """B42: results that arrive after the compaction stay with their calls."""
    log = folded(later(working(), AssistantMessage(MessageId(""), (ToolCallPart("c", "bash", "{}"),))), 7)
    answered = log.append(MessageEntry(ToolMessage(MessageId("r"), (ToolResultPart("c", "bash", "ok"),))))
    assert names(answered)[-2:] == ["r", f"note-{log.checkpoint_sequence}"]


def test_thinking_in_the_tail_stays() -> None:
    """B32, B42: and it is counted; a fold by code would leave it out."""
    log = folded(working(), 7)
    assert log.shown_thinking == 3
    checkpoint = log.checkpoint
    assert checkpoint is not None
    assert compacted_event(working(), checkpoint, inputs_with()).outdated_thinking == 0
    assert checkpoint.tokens_after == estimated_tokens(log, inputs_with())
    assert log.checkpoint_size.measure >= 40


def test_thinking_behind_what_a_changed_view_leaves_out_is_outdated() -> None:
    """B32: a blank reply in the tail was sent while the view was unchanged, and is left out of a changed one."""
    blank = AssistantMessage(MessageId(""), (), finish="stop")
    log = log_of(user("Build it."), thinks(), result(), thinks(), result(), blank, thinks(), result())
    after = folded(log, 3)
    assert after.shown_thinking == 0
    assert after.checkpoint is not None
    assert compacted_event(log, after.checkpoint, inputs_with()).outdated_thinking == 2


def test_a_session_without_the_provider_shows_text() -> None:
    """B42: another model or setting sees the whole text, and no thinking from before it."""
    log = folded(working(), 7)
    entries = [*((n, MessageEntry(logged.message)) for n, logged in enumerate(working().live)), (13, log.checkpoint)]
    plain = load(SessionId("s"), reversed(entries), replace(SHOWN, shows_native=False))  # type: ignore[arg-type]
    assert names(plain)[0] == "checkpoint-13"
    assert "All is well." in text_of(view(plain, INFOLD.summary)[0])
    assert plain.shown_thinking == 0
    again = load(SessionId("s"), reversed(entries), SHOWN)  # type: ignore[arg-type]
    assert view(again, INFOLD.summary) == view(log, INFOLD.summary)


def test_a_refused_block_gives_way_to_text() -> None:
    """B42: text takes its place at once, with its own size, and a restoration shows everything."""
    log = folded(working(), 7).append(Rejection(100, native=True))
    assert names(log)[0] == f"checkpoint-{log.checkpoint_sequence}"
    assert log.shown_thinking == 0
    assert f"\n\n{NARRATIVE}\nAll is well.\n\n" in log.checkpoint_text
    assert working().append(Rejection(100, native=True)).checkpoint_text == ""
    with pytest.raises(Exception, match="checkpoint"):
        log.append(Restoration(log.checkpoint_sequence))


def test_an_empty_note_is_not_sent() -> None:
    """B42: a checkpoint without text of its own shows the block alone."""
    log = working()
    bare = log.append(Checkpoint("", first_kept=log.live[7].sequence, native=(BLOCK,)))
    assert names(bare) == ["native-0", *(logged.message.id for logged in bare.live)]


def test_a_note_names_what_the_provider_invented() -> None:
    """B42: a block cannot be edited; the reader is told which of its claims to check."""
    checkpoint = Checkpoint("Facts.\n\nStory.", narrative="Story.", verdict=Verdict("Story.", invented=("a/b.py",)))
    assert checkpoint.note == "Facts."
    text = add_narrative("Opening.\n\nFacts. Story.", "Story.")
    assert text == f"Opening.\n\n{NARRATIVE}\nStory.\n\nFacts. Story."
    assert Checkpoint(text, narrative="Story.").note == "Opening.\n\nFacts. Story."
    assert replace(checkpoint, native=(BLOCK,)).note.endswith("check it before you rely on it: a/b.py")
    assert Checkpoint("Facts.").note == "Facts."
