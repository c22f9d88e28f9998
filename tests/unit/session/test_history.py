"""Following a caller's own list."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.compact import compact
from infold.core.entries import Amendment, Handle, MessageEntry, Pruning
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, SessionId, SystemMessage, calls_of, results_of, text_of
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.errors import HistoryChanged, UsageError
from infold.formats.codec import Decoded
from infold.formats.pairing import Pairing
from infold.formats.registry import ANTHROPIC_MESSAGES, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat
from infold.session.history import DecodedHistory, History, decode_history

from .session_fixture import called, reply, said, tool_step

SYSTEM = {"role": "system", "content": "Be brief."}
LIST = [said("Port the parser."), *tool_step(0), *tool_step(1), said("and the printer")]


class Caller:
    """A session beside its list: a log, and the history that follows the list."""

    def __init__(self, wire: WireFormat = OPENAI_CHAT) -> None:
        self.wire = wire
        self.history = History(wire)
        self.log = Log(SessionId("s"))

    def brought(self, items: Sequence[Any] | DecodedHistory) -> tuple[Message, ...]:
        """Take in a whole list; what of it was new."""
        followed = self.history.match(items, self.log)
        self.history.adopt(followed)
        if followed.amended is not None:
            self.log = self.log.append(Amendment(followed.amended))
        self.log = self.log.extend(MessageEntry(message) for message in followed.new)
        return followed.new

    def added(self, items: Sequence[Any]) -> tuple[Message, ...]:
        """Take in what is new."""
        new = self.history.add(items, self.log)
        self.log = self.log.extend(MessageEntry(message) for message in new)
        return new

    def replied(self, body: object) -> tuple[Message, ...]:
        """Take in a reply."""
        new = self.history.reply(body, self.log)
        self.log = self.log.extend(MessageEntry(message) for message in new)
        return new

    def folded(self) -> None:
        """Fold the head."""
        inputs = PlanInputs(INFOLD, budget_for(Window(64_000), INFOLD), manual=True)
        self.log = compact(self.log, inputs).log
        assert self.log.checkpoint is not None

    def sent(self) -> list[object]:
        """The next request."""
        return self.history.encode(view(self.log, INFOLD.summary), self.log).items

    def reopened(self) -> "Caller":
        """The same session in another process."""
        again = Caller(self.wire)
        again.log = self.log
        return again


def ids(messages: Sequence[Message]) -> list[str]:
    """Messages by their ids."""
    return [message.id for message in messages]


# A whole list.


def test_a_list_that_grows_is_decoded_once() -> None:
    """B17, B29: of a list brought again only what is new is decoded, and the caller's own objects are sent."""
    session = Caller()
    first, second = session.brought(LIST[:3]), session.brought(LIST)

    assert (ids(first), ids(second)) == (["m0", "m1", "m2"], ["m3", "m4", "m5"])
    assert session.brought(LIST) == ()
    assert all(one is other for one, other in zip(session.sent(), LIST, strict=True))


def test_equal_items_are_the_same_items() -> None:
    """B29: a list read anew from a file is the list it was."""
    session = Caller()
    session.brought(LIST[:3])

    assert ids(session.brought([dict(item) for item in LIST])) == ["m3", "m4", "m5"]


def test_another_process_knows_the_list() -> None:
    """B13: a session read from its store holds a whole list against itself, and sends the caller's own objects again."""
    session = Caller()
    session.brought(LIST)
    again = session.reopened()

    assert again.brought([*LIST, said("go on")])[0].id == "m6"
    assert again.sent() == [*LIST, said("go on")]


def test_opening_system_messages_are_sent_and_not_kept() -> None:
    """S3.3: they stand before everything in each request, may change between requests, and are never folded."""
    session = Caller()
    developer = {"role": "developer", "content": "And kind."}
    session.brought([SYSTEM, developer, *LIST])
    session.folded()

    assert not any(isinstance(placed.message, SystemMessage) for placed in session.log.live)
    assert session.sent()[:2] == [SYSTEM, developer]
    assert session.brought([{"role": "system", "content": "Be long."}, *LIST]) == ()
    assert session.sent()[0] == {"role": "system", "content": "Be long."}
    assert text_of(session.history.preamble.messages[0]) == "Be long."


# The same, written otherwise.


def marked(text: str) -> dict[str, Any]:
    """A message as blocks, with a mark for the provider's cache."""
    block = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
    return {"role": "user", "content": [block]}


def reserialised(number: int) -> dict[str, Any]:
    """A call whose arguments were written anew."""
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "bash", "arguments": '{\n "command":"make"\n}'},
    }
    return {"role": "assistant", "content": "", "tool_calls": [call]}


@pytest.mark.parametrize(
    "first",
    [
        marked("Port the parser."),
        said("Port the parser.\n"),
        said("Port the parser.\n<system-reminder>The todo list is empty.</system-reminder>"),
    ],
    ids=["cache mark", "white space", "reminder"],
)
@pytest.mark.parametrize("folded", [False, True])
def test_marks_on_a_list_do_not_make_it_another(first: dict[str, Any], folded: bool) -> None:
    """B29: moved cache marks and injected reminders are recognised, in the tail and in what was folded."""
    session = Caller()
    session.brought(LIST)
    if folded:
        session.folded()

    assert ids(session.brought([first, *LIST[1:], said("go on")])) == ["m6"]


@pytest.mark.parametrize("folded", [False, True])
def test_rewritten_arguments_are_the_same_call(folded: bool) -> None:
    """B29: arguments in another order and spacing, and an empty text beside a call, change nothing."""
    session = Caller()
    session.brought(LIST)
    if folded:
        session.folded()

    assert session.brought([LIST[0], reserialised(0), LIST[2], reserialised(1), *LIST[4:]]) == ()


def thinking(*, kept: bool) -> list[dict[str, Any]]:
    """An Anthropic history with reasoning, or with the reasoning left out."""
    thought = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}] if kept else []
    use = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "make"}}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    return [
        said("Port the parser."),
        {"role": "assistant", "content": [*thought, use]},
        {"role": "user", "content": [answer]},
        {"role": "assistant", "content": [*thought, {"type": "text", "text": "done"}]},
    ]


def test_reasoning_left_out_is_not_missed() -> None:
    """B29: clients that do not send old thinking back bring the same history."""
    session = Caller(ANTHROPIC_MESSAGES)
    session.brought(thinking(kept=True))

    assert ids(session.brought([*thinking(kept=False), said("go on")])) == ["m4"]


# Changed.


def test_a_changed_tail_is_an_amendment() -> None:
    """B1: what a caller replaced is taken back from there on, with the turns that go, and what is new follows."""
    session = Caller()
    session.brought(LIST)
    followed = session.history.match([*LIST[:5], said("rather the lexer"), *tool_step(7)], session.log)

    assert (followed.known, followed.amended) == (5, 5)
    assert ids(followed.new) == ["m5", "m6", "m7"]


def test_a_shorter_list_takes_back() -> None:
    """B1: a caller who went back a step has a list that ends earlier; nothing is new."""
    session = Caller()
    session.brought(LIST)

    assert session.brought(LIST[:3]) == ()
    assert session.log.length == 3
    assert session.sent() == LIST[:3]


@pytest.mark.parametrize("items", [[LIST[0], said("another way")], LIST, [*LIST, *tool_step(2)]])
def test_looking_changes_nothing(items: list[dict[str, Any]]) -> None:
    """B1, B12: a list that was only held against the session leaves the history, and which calls are open, as they were."""
    session = Caller()
    session.brought(LIST[:2])
    session.history.match(items, session.log)

    assert ids(session.brought(LIST)) == ["m2", "m3", "m4", "m5"]
    assert session.sent() == LIST
    assert [placed.late for placed in session.log.live] == [()] * 6


def test_a_list_that_begins_otherwise_is_anothers() -> None:
    """B1: the first message cannot be amended; an empty list is no history of a session that has one."""
    session = Caller()
    session.brought(LIST)
    for items in ([said("something else"), *LIST[1:]], []):
        with pytest.raises(HistoryChanged, match=r"first message is not the session's \(m0\)"):
            session.history.match(items, session.log)


def test_a_folded_head_may_not_change() -> None:
    """B1, B3: a list without what was folded, or with other words there, is another session's, and the error says so."""
    session = Caller()
    session.brought(LIST)
    session.folded()
    assert session.log.checkpoint is not None
    folded = session.log.checkpoint.folded
    with pytest.raises(HistoryChanged, match=f"the {folded} messages that were folded are not what they were"):
        session.history.match([said("Port the lexer."), *LIST[1:]], session.log)
    with pytest.raises(HistoryChanged, match=f"1 messages, fewer than the {folded}"):
        session.history.match(LIST[:1], session.log)


def test_a_tail_after_a_fold_may_change() -> None:
    """B1: what stands after the fold is amended like any other."""
    session = Caller()
    session.brought([*LIST, *tool_step(5), said("and now?")])
    session.folded()
    assert session.log.checkpoint is not None
    last = session.log.live[-1].sequence
    followed = session.history.match([*LIST, *tool_step(5), said("rather this")], session.log)

    assert followed.amended == last
    assert ids(followed.new) == ["m8"]


def test_own_messages_are_not_looked_for() -> None:
    """B26: what infold itself put into a session stands in no caller's list, and takes no number there."""
    session = Caller()
    session.brought(LIST)
    own = replace(session.log.live[0].message, id="continue-9")
    session.log = session.log.append(MessageEntry(own))

    assert ids(session.brought([*LIST, *tool_step(5)])) == ["m6", "m7"]


# What is new alone.


def test_new_items_go_on_from_the_session() -> None:
    """B13: ids and open calls follow from the log, so that any process goes on where another ended."""
    session = Caller()
    session.added(LIST[:2])
    again = session.reopened()
    (answer,) = again.added(LIST[2:3])

    assert answer.id == "m2"
    assert again.log.open_calls == frozenset()
    assert again.history.is_whole is False


def test_a_system_message_is_not_new() -> None:
    """S3.3: it would be folded with what is new; the error names what to pass instead. One that comes later is a message."""
    session = Caller()
    with pytest.raises(UsageError, match="pass it as system="):
        session.added([SYSTEM, *LIST])
    session.added(LIST)

    assert ids(session.added([SYSTEM])) == ["m6"]


def test_what_is_folded_is_let_go() -> None:
    """B17: of the caller's objects only those are held that the view still shows."""
    session = Caller()
    session.added(LIST)
    session.folded()
    session.added([said("go on")])

    assert ids(session.history.decoded.messages) == [placed.message.id for placed in session.log.live]
    assert session.sent()[-1] == said("go on")


def test_positions_count_what_was_folded() -> None:
    """B13: a message after a fold has the id that it has in the whole list."""
    session = Caller()
    session.added(LIST)
    session.folded()

    assert ids(session.added([said("go on")])) == ["m6"]
    assert ids(session.reopened().brought([*LIST, said("go on"), said("and on")])) == ["m7"]


def test_a_late_result_is_known_after_a_restart() -> None:
    """B12, B13: its call was folded without an answer; it is told as text, as no provider takes a result of nothing."""
    session = Caller()
    session.added([*LIST[:2], said("never mind")])
    session.folded()
    again = session.reopened()
    again.added(LIST[2:3])

    assert isinstance(told := again.sent()[-1], dict)
    assert (told["role"], told["content"].splitlines()[0]) == ("user", "[late result of bash, call c0]")


# Replies.


def test_a_reply_has_its_usage_and_its_end() -> None:
    """S1.3, S5.3: usage and finish reason belong to the reply; in the caller's list it is known again."""
    session = Caller()
    session.brought(LIST[:1])
    (message,) = session.replied(reply(0, prompt_tokens=77))

    assert isinstance(message, AssistantMessage)
    assert message.usage is not None
    assert (message.usage.prompt, message.finish) == (77, "tool-calls")
    assert ids(session.brought(LIST[:3])) == ["m2"]


def test_a_reply_without_a_reason_ended_somehow() -> None:
    """S5.3: a provider that gives no reason has ended for another; its reply counts as finished."""
    session = Caller()
    session.brought(LIST[:1])
    (message,) = session.replied({"choices": [{"message": called(0)}]})

    assert isinstance(message, AssistantMessage)
    assert (message.usage, message.finish) == (None, "other")


def as_heard(text: str) -> dict[str, Any]:
    """A reply as a provider gives it, with fields that a client leaves out."""
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


def test_a_reply_is_known_as_the_client_writes_it() -> None:
    """B17, B29: after a reply only that and what is new is decoded; the client's own writing of it is sent."""
    decoded: list[int] = []

    def counting(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
        decoded.append(len(items))
        return OPENAI_CHAT.decode(items, first=first, pairing=pairing)

    session = Caller(replace(OPENAI_CHAT, decode=counting))
    answer = {"role": "assistant", "content": "done"}
    session.brought(LIST)
    session.replied(as_heard("done"))
    decoded.clear()

    assert ids(session.brought([*LIST, answer, said("go on")])) == ["m7"]
    assert sum(decoded) == 2
    assert session.sent()[-2] is answer
    assert ids(session.brought([*LIST, answer, said("go on"), said("and on")])) == ["m8"]


def test_a_decoded_list_is_not_decoded_again() -> None:
    """B17: a list that was decoded to find its session is adopted as it is, the first one and one that goes on."""
    decoded: list[int] = []

    def counting(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
        decoded.append(len(items))
        return OPENAI_CHAT.decode(items, first=first, pairing=pairing)

    given, plainly = Caller(replace(OPENAI_CHAT, decode=counting)), Caller()
    answer = {"role": "assistant", "content": "done"}
    for items in ([SYSTEM, *LIST], [SYSTEM, *LIST, answer, said("go on")]):
        decoded.clear()
        assert given.brought(decode_history(OPENAI_CHAT, items)) == plainly.brought(items)
        assert sum(decoded) == 0
        assert given.sent() == plainly.sent() == items
        for caller in (given, plainly):
            caller.replied(as_heard("done"))


def test_items_that_join_the_last_known_message_are_sent() -> None:
    """B30: a list may go on with items that belong to a message of the last request, if all are decoded together."""
    session = Caller(OPENAI_RESPONSES)
    reply = {"type": "message", "role": "assistant", "content": "Three ships."}
    later = [{"type": "mcp_list_tools", "id": "ml_1", "server_label": "s", "tools": []}, said("Yes.")]
    for items in ([said("Count the ships."), reply], [said("Count the ships."), reply, *later]):
        session.brought(decode_history(OPENAI_RESPONSES, items))

        assert session.sent() == items


def test_a_list_decoded_for_another_format_is_decoded_again() -> None:
    """B12: what another format made of a list is not taken over."""
    session = Caller(ANTHROPIC_MESSAGES)
    items = [said("Port the parser.")]

    assert ids(session.brought(decode_history(OPENAI_CHAT, items))) == ["m0"]
    assert session.sent() == items


def test_calls_of_a_reply_are_open_once() -> None:
    """B12: a call that was heard and is brought again is one call, under its own id, and its result answers it."""
    session = Caller()
    session.brought(LIST[:1])
    session.replied(reply(0))
    session.brought([*LIST[:1], reserialised(0), LIST[2]])

    assert session.log.open_calls == frozenset()
    assert [call.call_id for placed in session.log.live for call in calls_of(placed.message)] == ["c0"]


@pytest.mark.parametrize(
    ("tail", "amended"),
    [([said("again")], 6), ([{"role": "assistant", "content": "otherwise"}, said("go on")], 6), ([], 6)],
    ids=["left out", "rewritten", "taken back"],
)
def test_a_reply_that_is_not_brought_again_is_taken_back(tail: list[dict[str, Any]], amended: int) -> None:
    """B1: what a client did not keep of what was heard is an amendment."""
    session = Caller()
    session.brought(LIST)
    session.replied(as_heard("done"))
    followed = session.history.match([*LIST, *tail], session.log)

    assert (followed.known, followed.amended) == (6, amended)
    assert len(followed.new) == len(tail)


def test_a_reply_may_be_folded_before_it_is_brought() -> None:
    """B13: a session that was compacted in between still knows its list."""
    session = Caller()
    session.brought(LIST)
    session.replied(as_heard("done"))
    session.folded()
    answer = {"role": "assistant", "content": "done"}

    assert ids(session.brought([*LIST, answer, said("go on")])) == ["m7"]


def test_a_list_by_pieces_may_be_followed_by_the_whole() -> None:
    """B13: whole lists and pieces of one may alternate."""
    session = Caller()
    session.brought(LIST[:1])
    session.added(LIST[1:3])

    assert ids(session.brought(LIST)) == ["m3", "m4", "m5"]


# Giving back.


def test_only_what_changed_is_written_anew() -> None:
    """B25: a pruned result is another object, all others are the caller's; the caller's own list is never touched."""
    session = Caller()
    before = [dict(item) for item in LIST]
    session.brought(LIST)
    session.log = session.log.append(Pruning((Handle("2.0"),), 400))
    sent = session.sent()

    assert [one is other for one, other in zip(sent, LIST, strict=True)] == [True, True, False, True, True, True]
    assert "[pruned:" in str(sent[2])
    assert before == LIST


def test_what_was_not_stored_is_forgotten() -> None:
    """B13: where storing failed, the same list is new once more, by the whole and by pieces."""
    whole, pieces = Caller(), Caller()
    whole.history.adopt(whole.history.match(LIST, whole.log))
    pieces.history.add(LIST, pieces.log)
    for session, again in ((whole, whole.brought), (pieces, pieces.added)):
        session.history.reset()

        assert ids(again(LIST)) == [f"m{number}" for number in range(6)]
        assert session.sent() == LIST


def test_what_was_stored_by_pieces_stays_the_callers() -> None:
    """B25: after the session was read again, pictures and marks of what is stored are still sent as they came."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    looked = {"role": "user", "content": [{"type": "text", "text": "look"}, picture]}
    session = Caller()
    session.added([looked])
    session.history.mark_stored()
    session.history.add([said("not stored")], session.log)
    session.history.reset()
    session.added([said("go on")])

    assert session.sent() == [looked, said("go on")]


def test_what_is_stored_already_is_taken_up_again() -> None:
    """B13: items of a call that failed after they were stored are the session's newest, results and all."""
    session = Caller()
    session.added(LIST[:2])
    session.history.mark_stored()
    session.added(LIST[2:3])
    session.history.reset()
    session.history.repeat(LIST[2:3], 1, session.log)

    assert session.sent() == LIST[:3]
    assert ids(session.added(LIST[3:4])) == ["m3"]


CALL = called(7)["tool_calls"][0]


def thoughtful(content: str | None, *calls: Any) -> dict[str, Any]:
    """A chat completion that thinks before it answers, with its usage."""
    message = {"role": "assistant", "reasoning_content": "I look first.", "content": content}
    made = {"tool_calls": [*calls]} if calls else {}
    usage = {"prompt_tokens": 900, "completion_tokens": 5}
    return {"choices": [{"message": {**message, **made}, "finish_reason": "stop"}], "usage": usage}


@pytest.mark.parametrize(
    ("body", "brought", "kept"),
    [
        (thoughtful("Done."), {"content": "<think>\nI look first.\n</think>\n\nDone."}, True),
        (thoughtful(None), {"content": "<think>I look first.</think>"}, True),
        (thoughtful(None, CALL), {"content": "<think>x</think>", "tool_calls": [CALL]}, True),
        (thoughtful(None, CALL), {"content": None, "tool_calls": [{**CALL, "id": "c8"}]}, False),
        (thoughtful("Done."), {"content": "Something else."}, False),
        (thoughtful("Done."), {"role": "user", "content": "Done."}, False),
    ],
)
def test_a_reply_that_the_client_rewrites_keeps_its_usage(body: Any, brought: Any, kept: bool) -> None:
    """B15, B30: a client that brings a reply in its own words replaces it, and what was reported with it stays known."""
    followed = Caller()
    followed.brought(LIST)
    followed.replied(body)
    new = followed.brought([*LIST, {"role": "assistant", **brought}])

    assert len(new) == 1
    assert (getattr(new[0], "usage", None) is not None) is kept
    assert (followed.log.baseline is not None) is kept
    assert followed.history.decoded.messages[-1] is new[0]


def test_an_equal_list_comes_back_as_the_callers_own() -> None:
    """B25, B30: a list that was read anew, equal in every item, is given back as the objects of this request."""
    followed = Caller()
    for number in (1, 1.0, True):
        items = [{**said("Port the parser."), "x_new": number}, said("and the printer")]
        followed.brought(items)
        sent = followed.history.encode(view(followed.log, INFOLD.summary, brought=True), followed.log).items
        assert [id(one) for one in sent] == [id(one) for one in items]


def test_results_of_an_open_step_are_known_by_their_calls() -> None:
    """B12, B30: equal results of two calls in another order are another's, where something new stands between them."""
    calls = {**called(7), "tool_calls": [CALL, {**CALL, "id": "c8"}]}
    done = [{"role": "tool", "tool_call_id": name, "content": "done"} for name in ("c7", "c8")]
    followed = Caller()
    followed.brought([said("Port it."), calls, done[1], done[0]])
    followed.brought([said("Port it."), calls, done[0], SYSTEM, done[1]])

    assert [len(results_of(placed.message)) for placed in followed.log.live] == [0, 0, 1, 0, 1]
