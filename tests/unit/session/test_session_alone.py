"""One session and its caller, without other writers."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold.core.entries import Amendment, Checkpoint, Pruning, Rejection, Restoration
from infold.core.events import Pruned, Rejected, Restored
from infold.core.messages import text_of
from infold.core.policy import INFOLD
from infold.errors import HistoryChanged, StoreConflict, UnknownReference, UsageError, WindowExceeded
from infold.formats.overflow import Overflow
from infold.session.session import Session
from infold.session.writer import MOST_ATTEMPTS

from .session_fixture import RULE, DrivenSession, reply, said, tool_step

TOLD = Overflow("openai", 9_000, 8_192)
UNTOLD = Overflow("openai")
BYTES = Overflow("anthropic", bytes_limit=True)


def turns(session: DrivenSession, number: int, *, tokens: int = 2_500) -> list[dict[str, Any]]:
    """Several turns of a person with a tool result each, by what is new; the last message, not yet brought."""
    new = [said(RULE)]
    for turn in range(number):
        session.prepare_new(new)
        session.record(reply(turn))
        session.prepare_new([{"role": "tool", "tool_call_id": f"c{turn}", "content": "word " * tokens}])
        session.record({"choices": [{"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}]})
        new = [said(f"and then {turn}")]
    return new


# Preparing.


def test_a_long_list_is_folded_and_goes_on() -> None:
    """B8, B25: each request fits, and what was folded is in the log while the caller's list stays whole."""
    session = DrivenSession(window=8_192, policy=FOLDS)
    messages = session.grow(30)
    ready = session.prepare(messages)

    assert ready.gauge.upper_tokens <= 8_192
    assert RULE in str(ready.messages[0])
    assert sum(isinstance(entry, Checkpoint) for entry in session.store.entries) >= 2
    assert len(session.kept) == 61


def test_system_messages_are_always_sent_and_counted() -> None:
    """B8: those that open a whole list take their room in every request, and are in every request."""
    system = {"role": "system", "content": "Mind the style guide. " * 200}
    session, bare = DrivenSession(window=8_192, policy=FOLDS), DrivenSession(window=8_192)
    messages: list[dict[str, Any]] = [system, said(RULE)]
    for number in range(20):
        ready = session.prepare(messages)
        assert ready.messages[0] == system
        assert ready.gauge.upper_tokens <= 8_192
        session.record(reply(number))
        messages = [*messages, *tool_step(number)]
    alone = bare.prepare([said(RULE)])

    assert DrivenSession().prepare([system, said(RULE)]).gauge.count_tokens > alone.gauge.count_tokens + 800
    assert not any("style guide" in text_of(message) for message in session.kept)


def test_what_is_beside_the_messages_is_counted() -> None:
    """B8: the system prompt, the tools and the answer that a request asks for take their part of the window."""
    session = DrivenSession()
    system, tools = "Be brief. " * 300, [{"name": "bash", "description": "word " * 900}]
    ready = session.prepare([said(RULE)], system=system, tools=tools)

    assert ready.gauge.upper_tokens > DrivenSession().prepare([said(RULE)]).gauge.upper_tokens + 1_400
    assert (
        session.prepare([said(RULE)], system=system, tools=tools, output_tokens=15_000).limit_tokens
        < ready.limit_tokens
    )


def test_an_edited_tail_is_amended() -> None:
    """B1: what the caller changed is taken back and replaced, and the view has what the list has."""
    session = DrivenSession()
    messages = session.grow(3)
    ready = session.prepare([*messages[:-2], said("rather the lexer")])

    assert ready.messages == [*messages[:-2], said("rather the lexer")]
    assert any(isinstance(entry, Amendment) for entry in session.store.entries)
    assert session.again().prepare(ready.messages).messages == ready.messages


def test_an_edited_head_is_refused() -> None:
    """B1: another first message is another session; nothing is stored, and the right list is still welcome."""
    session = DrivenSession()
    messages = session.grow(3)
    entries = session.store.entries
    with pytest.raises(HistoryChanged, match="begin a new session"):
        session.prepare([said("something else"), *messages[1:]])

    assert session.store.entries == entries
    assert session.prepare(messages).messages == messages


def test_a_list_is_matched_without_being_taken() -> None:
    """B28: how a list goes with a session can be asked; another's does not go with it at all."""
    session = DrivenSession()
    messages = session.grow(2)
    followed = session.again().match(messages)

    assert followed is not None
    assert (followed.known, len(followed.new)) == (4, 1)
    assert session.again().match([said("something else")]) is None


def test_a_view_can_be_encoded_apart() -> None:
    """B25: messages of the view are given in the caller's shape without a request."""
    session = DrivenSession()
    with pytest.raises(UsageError, match="before encoding"):
        session.encode(())
    messages = session.grow(1)
    session.prepare(messages)

    assert session.encode([placed.message for placed in session.log.live]) == messages


# Recording.


def test_a_reply_is_recorded_with_what_it_tells() -> None:
    """S1.3, B15: usage anchors the gauge, the reason it ended is kept, and so is when it came."""
    session = DrivenSession()
    session.prepare([said(RULE)])
    session.record(reply(0, prompt_tokens=900))
    newest = session.kept[-1]

    assert session.log.baseline is not None
    assert (session.log.baseline.usage.prompt, newest.created_ms) == (900, 7)
    with pytest.raises(UsageError, match="call prepare"):
        DrivenSession().record(reply(0))


def test_a_reply_of_nothing_is_refused() -> None:
    """B13: a body in which the session's format finds no reply is a mistake, and the error says what to pass."""
    session = DrivenSession()
    session.prepare([said(RULE)])
    with pytest.raises(UsageError, match="pass it as the provider gave it"):
        session.record({"output": "done"})

    assert len(session.kept) == 1


def test_a_reply_the_list_brought_is_not_recorded_twice() -> None:
    """B13: a caller whose list has the reply already may record it all the same; the same call under another id is another."""
    session = DrivenSession()
    session.prepare([said(RULE), tool_step(0)[0]])
    session.record(reply(0))
    assert len(session.kept) == 2
    session.record(reply(1))

    assert len(session.kept) == 3
    assert session.prepare_new(tool_step(1)[1:]).messages[-1] == tool_step(1)[1]


# A provider that refuses.


@pytest.mark.parametrize("overflow", [TOLD, UNTOLD, BYTES], ids=["told", "untold", "bytes"])
def test_a_refused_request_becomes_smaller(overflow: Overflow) -> None:
    """B7, B8: whatever the provider tells, the next request is smaller, the refusal is an event, and no step is lost."""
    session = DrivenSession(window=64_000)
    messages = session.grow(24)
    before = session.prepare(messages)
    ready = session.recovered(overflow)

    assert ready.gauge.upper_tokens < before.gauge.upper_tokens
    assert any(isinstance(event, Pruned) and event.reason == "overflow" for event in ready.events)
    assert any(isinstance(event, Rejected) for event in session.events)
    assert len(session.kept) == 49
    assert session.prepare(messages).messages == ready.messages


def test_what_was_told_is_learned() -> None:
    """B11: the limit and the factor hold for every request from now on, in every process."""
    session = DrivenSession(window=64_000)
    messages = session.grow(24)
    session.prepare(messages)
    session.recover(TOLD)
    again = session.again()

    assert (again.log.limits.tokens, again.log.limits.is_told) == (8_192, True)
    assert any(isinstance(entry, Rejection) and entry.limit_tokens == 8_192 for entry in session.store.entries)
    for number in range(24, 60):
        ready = again.prepare(messages)
        assert ready.gauge.upper_tokens <= 8_192
        again.record(reply(number))
        messages = [*messages, *tool_step(number)]


def test_a_second_refusal_in_a_row_is_told() -> None:
    """B8: one more try is made, not two; a reply between makes the next refusal the first again."""
    session = DrivenSession(window=64_000)
    messages = session.grow(24)
    session.prepare(messages)
    session.recover(UNTOLD)
    entries = session.store.entries
    with pytest.raises(WindowExceeded) as caught:
        session.recover(UNTOLD)

    assert session.store.entries == entries
    assert caught.value.floor_tokens > 0
    session.record(reply(24))
    session.prepare([*messages, *tool_step(24)])
    assert session.recovered(UNTOLD).events


@pytest.mark.parametrize("overflow", [TOLD, UNTOLD, BYTES, Overflow("openai", 9, 5)])
def test_what_cannot_become_smaller_is_told(overflow: Overflow) -> None:
    """B9, B13: one short message that is refused cannot be helped; the session goes on, in this process and the next."""
    session = DrivenSession()
    session.prepare([said(RULE)])
    with pytest.raises(WindowExceeded, match="usable window"):
        session.recover(overflow)

    for one in (session, session.again()):
        assert one.prepare([said(RULE)]).messages == [said(RULE)]
    with pytest.raises(UsageError, match="before recovering"):
        DrivenSession().recover(TOLD)


def test_a_reserve_gives_way_to_a_learned_window() -> None:
    """B11, B13: a provider's limit below the reserve a policy names is kept to all the same."""
    session = DrivenSession(window=64_000, policy=replace(INFOLD, reserve_tokens=20_000))
    messages = session.grow(24)
    session.prepare(messages)
    ready = session.recovered(TOLD)

    assert ready.gauge.upper_tokens <= 8_192
    assert session.prepare(messages).messages == ready.messages


def test_bytes_refused_without_media_are_not_the_medias() -> None:
    """B8: a request of text alone that is refused for its bytes says nothing of pictures that come later."""
    session = DrivenSession(window=64_000)
    session.prepare(session.grow(24))
    session.recover(BYTES)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 20}}
    looked = {"role": "user", "content": [{"type": "text", "text": "look"}, picture]}

    assert session.prepare_new([looked]).messages[-1] == looked


# By hand.


def test_a_person_compacts_up_to_a_message() -> None:
    """B20: the number in a handle is the first message kept; one before which nothing is, is refused."""
    session = DrivenSession(window=64_000)
    messages = session.grow(8)
    session.prepare(messages)
    ready = session.compact("the parser", up_to=9)

    assert session.log.checkpoint is not None
    assert session.log.checkpoint.first_kept == 9
    assert ready.messages[-len(messages[9:]) :] == messages[9:]
    with pytest.raises(UsageError, match="nothing can be folded before message 9"):
        session.compact(up_to=9)


def test_a_preview_is_what_compacting_does() -> None:
    """B20: numbers and text of the fold by code, with nothing stored and no model asked."""
    session = DrivenSession(window=64_000)
    session.prepare(session.grow(8))
    entries, preview = session.store.entries, session.preview()
    up_to = session.preview(up_to=9)
    assert session.store.entries == entries
    session.compact()
    checkpoint = session.log.checkpoint

    assert checkpoint is not None
    assert (preview.text, preview.first_kept) == (checkpoint.text, checkpoint.first_kept)
    assert (preview.tokens_before, preview.tokens_after) == (checkpoint.tokens_before, checkpoint.tokens_after)
    assert (up_to.folded_messages, up_to.first_kept) == (9, 9)


def test_a_preview_tells_of_a_pruning_too() -> None:
    """B20: where pruning is enough for what a person asks, nothing would be folded, and the tokens say what it frees."""
    session = DrivenSession(window=32_000)
    session.prepare_new(turns(session, 6, tokens=3_000))
    preview = session.preview()
    ready = session.compact()

    assert (preview.folded_messages, preview.first_kept, preview.text) == (0, None, "")
    assert preview.tokens_after < preview.tokens_before
    assert [type(event) for event in ready.events] == [Pruned]


@pytest.mark.parametrize("up_to", [None, 0])
def test_a_preview_of_nothing_is_refused(up_to: int | None) -> None:
    """B20: where there is nothing to fold the error says so."""
    with pytest.raises(UsageError, match="nothing to fold"):
        DrivenSession().preview(up_to=up_to)


def test_a_compaction_is_undone() -> None:
    """B1, B20: everything is in the view again, observers hear of it, and there is no second to undo."""
    session = DrivenSession(window=64_000)
    messages = session.grow(8)
    before = session.prepare(messages)
    session.compact()
    number = session.log.checkpoint_sequence
    session.undo()

    assert session.prepare(messages).messages == before.messages
    assert session.events[-1] == Restored("s", number, before.gauge.count_tokens)
    with pytest.raises(UsageError, match="no compaction to undo"):
        session.undo()


@pytest.mark.parametrize("system", [[], [{"role": "system", "content": "Be brief."}]])
def test_an_undone_compaction_can_be_looked_at(system: list[dict[str, Any]]) -> None:
    """B1, B20: after undo, `view` and `messages` show what was folded before the caller brings its list again."""
    session = DrivenSession(window=64_000)
    messages = [*system, *session.grow(8)]
    before = session.prepare(messages).messages
    session.compact()
    session.undo()

    assert session.view() == session.messages() == before
    session.record(reply(99))
    assert session.view()[: len(before)] == before
    assert session.view(messages)[: len(before)] == before


def test_a_reply_that_the_list_brought_leaves_a_view() -> None:
    """B20: a reply recorded after the list brought it is not stored twice, and the session can be looked at."""
    session = DrivenSession()
    answer = {"role": "assistant", "content": "done"}
    messages = [{"role": "system", "content": "Be brief."}, said(RULE), answer]
    session.prepare(messages)
    session.record({"choices": [{"message": answer, "finish_reason": "stop"}]})

    assert session.view() == session.messages() == messages


def test_a_pruning_is_undone_by_its_number() -> None:
    """B1, B20: the results it hid are shown again; a number that hides nothing is refused."""
    session = DrivenSession(window=32_000)
    session.prepare_new(turns(session, 6, tokens=3_000))
    session.compact()
    number = next(n for n, entry in enumerate(session.store.entries) if isinstance(entry, Pruning))
    assert any(isinstance(event, Pruned) for event in session.events)
    session.undo(number)

    assert session.log.altered == {}
    assert isinstance(session.store.entries[-1], Restoration)
    assert session.again().log.size == session.log.size
    with pytest.raises(UsageError, match="hides nothing now"):
        session.undo(number)


@pytest.mark.parametrize("pinned", [True, False])
def test_a_pin_is_kept_and_released(pinned: bool) -> None:
    """B20: a pinned part is carried word for word into the checkpoint; a released one is not."""
    session = DrivenSession(window=64_000, policy=FOLDS)
    answer = {"role": "tool", "tool_call_id": "c0", "content": "all parts went well, the key is quay-4711"}
    session.prepare([said(RULE), tool_step(0)[0], answer, *(item for n in range(1, 30) for item in tool_step(n))])
    session.pin("2.0")
    if not pinned:
        session.unpin("2.0")
    ready = session.compact()

    assert ("quay-4711" in str(ready.messages[0])) is pinned
    with pytest.raises(UnknownReference):
        session.pin("999.0")


CALLS: dict[str, Callable[[Session], object]] = {
    "prepare": lambda session: session.prepare([said(RULE)]),
    "prepare_new": lambda session: session.prepare_new([said("go on")]),
    "record": lambda session: session.record(reply(9)),
    "pin": lambda session: session.pin(f"{session.log.live[0].sequence}.0"),
    "undo": lambda session: session.undo(),
    "compact": lambda session: session.compact(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_writer_who_is_always_outrun_is_told(name: str) -> None:
    """B14: beginning anew ends, with a conflict that can be tried again; the pauses before it are short."""
    session = DrivenSession(window=64_000)
    if name != "prepare":
        session.prepare(session.grow(8))
        session.compact()

    def refuse(_: object) -> None:
        raise StoreConflict("s", expected=0, actual=1)

    session.store.before = refuse
    with pytest.raises(StoreConflict, match="load it again"):
        CALLS[name](session)

    assert len(session.recorded.pauses) == MOST_ATTEMPTS - 1
    assert all(0 < seconds < 1 for seconds in session.recorded.pauses)


def test_stubs_are_written_once() -> None:
    """B17: what a request shows changed is the same object in the next one, so that it is not written again."""
    items: list[Any] = [{"role": "user", "content": "Port the feed."}]
    with Session("memory", "s", window=16_000, format="openai-chat") as session:
        sent: list[list[Any]] = []
        for number in range(26):
            sent.append(session.prepare(items).messages)
            call = {"id": f"c{number}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
            items.append({"role": "assistant", "content": None, "tool_calls": [call]})
            items.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"part_{number}.py\n" * 200})
    stubs = [item for item in sent[-2] if "[pruned" in str(item["content"])]

    assert stubs
    assert {id(item) for item in stubs} <= {id(item) for item in sent[-1]}


def test_a_client_may_clear_what_is_pruned() -> None:
    """B29, B30: where a caller shortens old results itself, those that are stubs already stay so, and nothing is stored again."""
    items: list[Any] = [{"role": "user", "content": "Port the feed."}]
    with Session("memory", "s", window=16_000, format="openai-chat") as session:
        pruned = 0
        for number in range(30):
            sent = session.prepare(items).messages
            entries = session.log.next_sequence
            stubs = {item["tool_call_id"] for item in sent if "[pruned" in str(item["content"])}
            cleared = [dict(one, content="[cleared]") if one.get("tool_call_id") in stubs else one for one in items]
            again = session.prepare(cleared).messages

            assert again == sent
            assert session.log.next_sequence == entries
            pruned = max(pruned, len(stubs))
            call = {"id": f"call_Zq{number}x", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
            session.record({"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]})
            items.append({"role": "assistant", "content": None, "tool_calls": [call]})
            items.append({"role": "tool", "tool_call_id": call["id"], "content": f"part_{number}.py\n" * 200})

    assert pruned > 9


def test_undo_takes_back_the_newest_step_whatever_it_was() -> None:
    """A compaction that came to a pruning is undone without its number, and then there is none left."""
    items: list[Any] = [{"role": "user", "content": "Port the feed."}]
    for number in range(30):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        items.append({"role": "assistant", "content": None, "tool_calls": [call]})
        items.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"part_{number}.py\n" * 200})
    with Session("memory", "s", window=128_000, format="openai-chat") as session:
        session.prepare(items)
        session.compact()

        assert session.log.freed
        assert session.log.checkpoint is None
        session.undo()

        assert not session.log.altered
        with pytest.raises(UsageError, match="no compaction to undo"):
            session.undo()
