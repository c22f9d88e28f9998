"""A session as a caller keeps it, alone."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from infold.core.entries import Amendment, Checkpoint, Pruning, Rejection, Restoration
from infold.core.events import Compacted, Pruned, Rejected, Restored
from infold.core.messages import text_of
from infold.core.policy import INFOLD
from infold.engine.call import Flow
from infold.engine.circumstances import Beside
from infold.engine.keeper import Keeper
from infold.engine.kept import MOST_TRIES
from infold.errors import HistoryChanged, StoreConflict, UnknownReference, UsageError, WindowExceeded
from infold.formats.overflow import Overflow

from .keeping import RULE, Kept
from .scenes import reply, said, tool_step

TOLD = Overflow("openai", 9_000, 8_192)
UNTOLD = Overflow("openai")
BYTES = Overflow("anthropic", bytes_limit=True)


def turns(kept: Kept, number: int, *, tokens: int = 2_500) -> list[dict[str, Any]]:
    """Several turns of a person with a tool result each, by what is new; the last message, not yet brought."""
    new = [said(RULE)]
    for turn in range(number):
        kept.new(new)
        kept.record(reply(turn))
        kept.new([{"role": "tool", "tool_call_id": f"c{turn}", "content": "word " * tokens}])
        kept.record({"choices": [{"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}]})
        new = [said(f"and then {turn}")]
    return new


# Preparing.


def test_a_long_list_is_folded_and_goes_on() -> None:
    """B8, B25: each request fits, and what was folded is in the log while the caller's list stays whole."""
    kept = Kept(window=8_192)
    messages = kept.grown(30)
    ready = kept.whole(messages)

    assert ready.gauge.upper_tokens <= 8_192
    assert RULE in str(ready.messages[0])
    assert sum(isinstance(entry, Checkpoint) for entry in kept.scripted.entries) >= 2
    assert len(kept.messages) == 61


def test_system_messages_are_always_sent_and_counted() -> None:
    """B8: those that open a whole list take their room in every request, and are in every request."""
    system = {"role": "system", "content": "Mind the style guide. " * 200}
    kept, bare = Kept(window=8_192), Kept(window=8_192)
    messages: list[dict[str, Any]] = [system, said(RULE)]
    for number in range(20):
        ready = kept.whole(messages)
        assert ready.messages[0] == system
        assert ready.gauge.upper_tokens <= 8_192
        kept.record(reply(number))
        messages = [*messages, *tool_step(number)]
    alone = bare.whole([said(RULE)])

    assert Kept().whole([system, said(RULE)]).gauge.count_tokens > alone.gauge.count_tokens + 800
    assert not any("style guide" in text_of(message) for message in kept.messages)


def test_what_is_beside_the_messages_is_counted() -> None:
    """B8: the system prompt, the tools and the answer that a request asks for take their part of the window."""
    kept = Kept()
    beside = Beside("Be brief. " * 300, [{"name": "bash", "description": "word " * 900}])
    ready = kept.drive(kept.keeper.prepare([said(RULE)], beside))

    assert ready.gauge.upper_tokens > Kept().whole([said(RULE)]).gauge.upper_tokens + 1_400
    with pytest.raises(WindowExceeded):
        kept.drive(kept.keeper.prepare([said(RULE)], Beside(beside.system, beside.tools, output_tokens=15_000)))


def test_an_edited_tail_is_amended() -> None:
    """B1: what the caller changed is taken back and replaced, and the view has what the list has."""
    kept = Kept()
    messages = kept.grown(3)
    ready = kept.whole([*messages[:-2], said("rather the lexer")])

    assert ready.messages == [*messages[:-2], said("rather the lexer")]
    assert any(isinstance(entry, Amendment) for entry in kept.scripted.entries)
    assert kept.again().whole(ready.messages).messages == ready.messages


def test_an_edited_head_is_refused() -> None:
    """B1: another first message is another session; nothing is stored, and the right list is still welcome."""
    kept = Kept()
    messages = kept.grown(3)
    entries = kept.scripted.entries
    with pytest.raises(HistoryChanged, match="begin a new session"):
        kept.whole([said("something else"), *messages[1:]])

    assert kept.scripted.entries == entries
    assert kept.whole(messages).messages == messages


def test_a_list_is_matched_without_being_taken() -> None:
    """B28: how a list goes with a session can be asked; another's does not go with it at all."""
    kept = Kept()
    messages = kept.grown(2)
    followed = kept.again().keeper.match(messages)

    assert followed is not None
    assert (followed.known, len(followed.new)) == (4, 1)
    assert kept.again().keeper.match([said("something else")]) is None


def test_a_view_can_be_encoded_apart() -> None:
    """B25: messages of the view are given in the caller's shape without a request."""
    kept = Kept()
    with pytest.raises(UsageError, match="before encoding"):
        kept.keeper.encode(())
    messages = kept.grown(1)
    kept.whole(messages)

    assert kept.keeper.encode([placed.message for placed in kept.log.live]) == messages


# Recording.


def test_a_reply_is_recorded_with_what_it_tells() -> None:
    """S1.3, B15: usage anchors the gauge, the reason it ended is kept, and so is when it came."""
    kept = Kept()
    kept.whole([said(RULE)])
    kept.record(reply(0, prompt_tokens=900))
    newest = kept.messages[-1]

    assert kept.log.anchor is not None
    assert (kept.log.anchor.usage.prompt, newest.created_ms) == (900, 7)
    with pytest.raises(UsageError, match="call prepare"):
        Kept().record(reply(0))


def test_a_reply_of_nothing_is_refused() -> None:
    """B13: a body in which the session's format finds no reply is a mistake, and the error says what to pass."""
    kept = Kept()
    kept.whole([said(RULE)])
    with pytest.raises(UsageError, match="pass it as the provider gave it"):
        kept.record({"choices": []})

    assert len(kept.messages) == 1


def test_a_reply_the_list_brought_is_not_recorded_twice() -> None:
    """B13: a caller whose list has the reply already may record it all the same; the same call under another id is another."""
    kept = Kept()
    kept.whole([said(RULE), tool_step(0)[0]])
    kept.record(reply(0))
    assert len(kept.messages) == 2
    kept.record(reply(1))

    assert len(kept.messages) == 3
    assert kept.new(tool_step(1)[1:]).messages[-1] == tool_step(1)[1]


# A provider that refuses.


@pytest.mark.parametrize("overflow", [TOLD, UNTOLD, BYTES], ids=["told", "untold", "bytes"])
def test_a_refused_request_becomes_smaller(overflow: Overflow) -> None:
    """B7, B8: whatever the provider tells, the next request is smaller, the refusal is an event, and no step is lost."""
    kept = Kept(window=64_000)
    messages = kept.grown(24)
    before = kept.whole(messages)
    ready = kept.drive(kept.keeper.recover(overflow))

    assert ready.gauge.upper_tokens < before.gauge.upper_tokens
    assert any(isinstance(event, Compacted) and event.reason == "overflow" for event in ready.events)
    assert any(isinstance(event, Rejected) for event in kept.scripted.events)
    assert len(kept.messages) == 49
    assert kept.whole(messages).messages == ready.messages


def test_what_was_told_is_learned() -> None:
    """B11: the limit and the factor hold for every request from now on, in every process."""
    kept = Kept(window=64_000)
    messages = kept.grown(24)
    kept.whole(messages)
    kept.drive(kept.keeper.recover(TOLD))
    again = kept.again()

    assert (again.log.limits.tokens, again.log.limits.is_told) == (8_192, True)
    assert any(isinstance(entry, Rejection) and entry.limit_tokens == 8_192 for entry in kept.scripted.entries)
    for number in range(24, 60):
        ready = again.whole(messages)
        assert ready.gauge.upper_tokens <= 8_192
        again.record(reply(number))
        messages = [*messages, *tool_step(number)]


def test_a_second_refusal_in_a_row_is_told() -> None:
    """B8: one more try is made, not two; a reply between makes the next refusal the first again."""
    kept = Kept(window=64_000)
    messages = kept.grown(24)
    kept.whole(messages)
    kept.drive(kept.keeper.recover(UNTOLD))
    entries = kept.scripted.entries
    with pytest.raises(WindowExceeded) as caught:
        kept.drive(kept.keeper.recover(UNTOLD))

    assert kept.scripted.entries == entries
    assert caught.value.floor_tokens > 0
    kept.record(reply(24))
    kept.whole([*messages, *tool_step(24)])
    assert kept.drive(kept.keeper.recover(UNTOLD)).events


@pytest.mark.parametrize("overflow", [TOLD, UNTOLD, BYTES, Overflow("openai", 9, 5)])
def test_what_cannot_become_smaller_is_told(overflow: Overflow) -> None:
    """B9, B13: one short message that is refused cannot be helped; the session goes on, in this process and the next."""
    kept = Kept()
    kept.whole([said(RULE)])
    with pytest.raises(WindowExceeded, match="usable window"):
        kept.drive(kept.keeper.recover(overflow))

    for one in (kept, kept.again()):
        assert one.whole([said(RULE)]).messages == [said(RULE)]
    with pytest.raises(UsageError, match="before recovering"):
        Kept().drive(Kept().keeper.recover(TOLD))


def test_a_reserve_gives_way_to_a_learned_window() -> None:
    """B11, B13: a provider's limit below the reserve a policy names is kept to all the same."""
    kept = Kept(window=64_000)
    kept.terms = replace(kept.terms, policy=replace(INFOLD, reserve_tokens=20_000))
    kept.keeper = Keeper(kept.log, kept.terms, lambda: 7)
    messages = kept.grown(24)
    kept.whole(messages)
    ready = kept.drive(kept.keeper.recover(TOLD))

    assert ready.gauge.upper_tokens <= 8_192
    assert kept.whole(messages).messages == ready.messages


def test_bytes_refused_without_media_are_not_the_medias() -> None:
    """B8: a request of text alone that is refused for its bytes says nothing of pictures that come later."""
    kept = Kept(window=64_000)
    kept.whole(kept.grown(24))
    kept.drive(kept.keeper.recover(BYTES))
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 20}}
    looked = {"role": "user", "content": [{"type": "text", "text": "look"}, picture]}

    assert kept.new([looked]).messages[-1] == looked


# By hand.


def test_a_person_compacts_up_to_a_message() -> None:
    """B20: the number in a handle is the first message kept; one before which nothing is, is refused."""
    kept = Kept(window=64_000)
    messages = kept.grown(8)
    kept.whole(messages)
    ready = kept.drive(kept.keeper.compact("the parser", up_to=9))

    assert kept.log.checkpoint is not None
    assert kept.log.checkpoint.first_kept == 9
    assert ready.messages[1:] == messages[9:]
    with pytest.raises(UsageError, match="nothing can be folded before message 9"):
        kept.drive(kept.keeper.compact(up_to=9))


def test_a_preview_is_what_compacting_does() -> None:
    """B20: numbers and text of the fold by code, with nothing stored and no model asked."""
    kept = Kept(window=64_000)
    kept.whole(kept.grown(8))
    entries, preview = kept.scripted.entries, kept.keeper.preview()
    up_to = kept.keeper.preview(up_to=9)
    assert kept.scripted.entries == entries
    kept.drive(kept.keeper.compact())
    checkpoint = kept.log.checkpoint

    assert checkpoint is not None
    assert (preview.text, preview.first_kept) == (checkpoint.text, checkpoint.first_kept)
    assert (preview.tokens_before, preview.tokens_after) == (checkpoint.tokens_before, checkpoint.tokens_after)
    assert (up_to.folded_messages, up_to.first_kept) == (9, 9)


def test_a_preview_tells_of_a_pruning_too() -> None:
    """B20: where pruning is enough for what a person asks, nothing would be folded, and the tokens say what it frees."""
    kept = Kept(window=32_000)
    kept.new(turns(kept, 6, tokens=3_000))
    preview = kept.keeper.preview()
    ready = kept.drive(kept.keeper.compact())

    assert (preview.folded_messages, preview.first_kept, preview.text) == (0, None, "")
    assert preview.tokens_after < preview.tokens_before
    assert [type(event) for event in ready.events] == [Pruned]


@pytest.mark.parametrize("up_to", [None, 0])
def test_a_preview_of_nothing_is_refused(up_to: int | None) -> None:
    """B20: where there is nothing to fold the error says so."""
    with pytest.raises(UsageError, match="nothing to fold"):
        Kept().keeper.preview(up_to)


def test_a_compaction_is_undone() -> None:
    """B1, B20: everything is in the view again, observers hear of it, and there is no second to undo."""
    kept = Kept(window=64_000)
    messages = kept.grown(8)
    before = kept.whole(messages)
    kept.drive(kept.keeper.compact())
    number = kept.log.checkpoint_sequence
    kept.drive(kept.keeper.undo())

    assert kept.whole(messages).messages == before.messages
    assert kept.scripted.events[-1] == Restored("s", number, before.gauge.count_tokens)
    with pytest.raises(UsageError, match="no compaction to undo"):
        kept.drive(kept.keeper.undo())


def test_a_pruning_is_undone_by_its_number() -> None:
    """B1, B20: the results it hid are shown again; a number that hides nothing is refused."""
    kept = Kept(window=32_000)
    kept.new(turns(kept, 6, tokens=3_000))
    kept.drive(kept.keeper.compact())
    number = next(n for n, entry in enumerate(kept.scripted.entries) if isinstance(entry, Pruning))
    assert any(isinstance(event, Pruned) for event in kept.scripted.events)
    kept.drive(kept.keeper.undo(number))

    assert kept.log.altered == {}
    assert isinstance(kept.scripted.entries[-1], Restoration)
    assert kept.again().log.size == kept.log.size
    with pytest.raises(UsageError, match="hides nothing now"):
        kept.drive(kept.keeper.undo(number))


@pytest.mark.parametrize("pinned", [True, False])
def test_a_pin_is_kept_and_released(pinned: bool) -> None:
    """B20: a pinned part is carried word for word into the checkpoint; a released one is not."""
    kept = Kept(window=64_000)
    answer = {"role": "tool", "tool_call_id": "c0", "content": "all parts went well, the key is quay-4711"}
    kept.whole([said(RULE), tool_step(0)[0], answer, *(item for n in range(1, 30) for item in tool_step(n))])
    kept.drive(kept.keeper.pin("2.0"))
    if not pinned:
        kept.drive(kept.keeper.pin("2.0", pinned=False))
    ready = kept.drive(kept.keeper.compact())

    assert ("quay-4711" in str(ready.messages[0])) is pinned
    with pytest.raises(UnknownReference):
        kept.drive(kept.keeper.pin("999.0"))


FLOWS: dict[str, Callable[[Keeper], Flow[Any]]] = {
    "prepare": lambda keeper: keeper.prepare([said(RULE)]),
    "prepare_new": lambda keeper: keeper.prepare_new([said("go on")]),
    "record": lambda keeper: keeper.record(reply(9)),
    "pin": lambda keeper: keeper.pin(f"{keeper.log.live[0].sequence}.0"),
    "undo": lambda keeper: keeper.undo(),
    "compact": lambda keeper: keeper.compact(),
}


@pytest.mark.parametrize("name", FLOWS)
def test_a_writer_who_is_always_outrun_is_told(name: str) -> None:
    """B14: beginning anew ends, with a conflict that can be tried again; the pauses before it are short."""
    kept = Kept(window=64_000)
    if name != "prepare":
        kept.whole(kept.grown(8))
        kept.drive(kept.keeper.compact())

    def refuse(_: object) -> None:
        raise StoreConflict("s", expected=0, actual=1)

    kept.before = refuse
    with pytest.raises(StoreConflict, match="load it again"):
        kept.drive(FLOWS[name](kept.keeper))

    assert len(kept.scripted.waits) == MOST_TRIES - 1
    assert all(0 < seconds < 1 for seconds in kept.scripted.waits)
