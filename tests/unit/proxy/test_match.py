"""Find the session that a whole history belongs to."""

import copy
from typing import Any, TypeAlias

import msgspec
import pytest
from tests.support.policies import FOLDS

from infold.core.log import Log
from infold.formats.registry import ANTHROPIC_MESSAGES, OPENAI_CHAT, WireFormat
from infold.formats.requests import ProviderRequest
from infold.proxy.request import SESSION_HEADER, IncomingHistory, ParsedRequest, parse_request, read_history
from infold.proxy.sessions import MOST_FORKS, Match, fork_ids, match_history
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, replies, result, session, user

Item: TypeAlias = dict[str, Any]

USAGE = {"prompt_tokens": 9, "completion_tokens": 1}
TOOLS = [{"type": "function", "function": {"name": "bash"}}]
REMINDER = "<system-reminder>\nThe list of tasks is empty.\n</system-reminder>"


def said(role: str, text: str) -> Item:
    """A message in words."""
    return {"role": role, "content": text}


def step(
    number: int,
    *,
    output: str = "all went well\n" * 60,
    arguments: str = '{"command": "make", "in": "src"}',
    ids: str = "call_8Fz",
) -> list[Item]:
    """A call and its result."""
    call = {"id": f"{ids}{number}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"{ids}{number}", "content": f"{number}: {output}"},
    ]


def turns(count: int, begin: int = 0) -> list[Item]:
    """A history of turns in words, from one number on."""
    return [
        item
        for number in range(begin, begin + count)
        for item in (said("user", f"Question {number}?"), said("assistant", f"Answer {number}."))
    ]


def asking(items: list[Item], *, tools: object = TOOLS, wire: WireFormat = OPENAI_CHAT) -> ProviderRequest:
    """A request with these messages."""
    return ProviderRequest(wire, tuple(items), tools=tools)


def brought(items: list[Item], wire: WireFormat = OPENAI_CHAT) -> IncomingHistory:
    """The history that these messages are."""
    return read_history(asking(items, wire=wire))


def name(
    items: list[Item], *, tools: object = TOOLS, body: Item | None = None, headers: dict[str, str] | None = None
) -> str | None:
    """What the session of a request is called."""
    raw = msgspec.json.encode({"messages": items, "tools": tools, **(body or {})})
    parsed = parse_request("/v1/chat/completions", headers or {}, raw)
    assert isinstance(parsed, ParsedRequest)
    return parsed.session_name


def kept(items: list[Item], window: int = 200_000) -> Log:
    """A session that was brought these messages, and folds what does not fit its window."""
    kept = Session(MemoryStore(), "s", SessionSettings(window=window, policy=FOLDS, format="openai-chat"))
    kept.prepare(items)
    return kept.log


def heard(items: list[Item], reply: Item, *, tools: object, usage: Item | None = USAGE) -> Log:
    """A session that was brought these messages, and heard this reply to them, with a usage or without."""
    kept = Session(MemoryStore(), "s", SessionSettings(window=200_000, format="openai-chat"))
    kept.prepare(items, tools=tools)
    kept.record({"choices": [{"message": reply, "finish_reason": "stop"}], "usage": usage})
    return kept.log


def match(items: list[Item], log: Log) -> Match:
    """How a history goes with a session, which must be possible."""
    found = match_history(brought(items), log)
    assert found is not None
    return found


# Names.


def test_a_header_wins() -> None:
    """B23: a session that the client names is called so, whatever else the request says, tools or not."""
    assert name(turns(1), headers={SESSION_HEADER: " ferry-42 ", "x-session-id": "other"}) == "ferry-42"
    assert name([], tools=None, headers={SESSION_HEADER: "ferry-42"}) == "ferry-42"
    assert len(name([], headers={SESSION_HEADER: "f" * 900}) or "") == 200
    assert SESSION_HEADER == "x-infold-session"


def test_a_name_is_read_as_utf_8() -> None:
    """A header that was read byte by byte is put together again; one in another code, or read well already, is as it is."""
    as_read = " Fähre à ".encode().decode("latin-1")

    assert name([], headers={SESSION_HEADER: as_read}) == "Fähre à"
    assert name([], headers={SESSION_HEADER: "Fähre"}) == "Fähre"
    assert name([], headers={SESSION_HEADER: "渡し船"}) == "渡し船"


def test_a_young_history_has_no_name() -> None:
    """Before its first reply nothing tells a history from others that begin alike, and there is nothing to keep."""
    assert name([said("system", "Be brief."), said("user", "hi")]) is None
    assert name([]) is None


def test_a_history_is_called_by_how_it_begins() -> None:
    """The same first words and first reply give the same name, whatever follows and whatever the system prompt says."""
    begun = [said("user", "hi"), said("assistant", "Hello!")]
    once = name(begun)

    assert once is not None
    assert name([said("system", "Be brief."), *begun, *turns(3)]) == once
    assert name([*begun, *turns(9)]) == once
    assert name([said("user", "hi"), said("assistant", "Yes?")]) != once
    assert name([said("user", "ho"), said("assistant", "Hello!")]) != once


def test_many_system_messages_say_nothing() -> None:
    """Opening system messages are no beginning, however many there are."""
    opening = [said("developer", f"Rule {number}.") for number in range(9)]

    assert name([*opening, *turns(2)]) == name(turns(2))
    assert name([*opening, *turns(2, begin=5)]) != name(turns(2))


def test_injected_messages_are_no_beginning() -> None:
    """What a harness puts before the person's first words does not change the name."""
    injected = said("user", "<environment_context>\ncwd: /srv/ferry, 12:04\n</environment_context>")

    assert name([injected, *turns(1)]) == name(turns(1))


def test_a_title_has_a_session_of_its_own() -> None:
    """Requests without tools never go by the name of one with tools."""
    titled = name(turns(1), tools=None)

    assert titled is not None
    assert titled != name(turns(1))
    headers = {"x-session-id": "s1"}
    assert name(turns(1), tools=None, headers=headers) != name(turns(1), headers=headers)


@pytest.mark.parametrize("header", ["x-session-id", "session-id", "x-claude-code-session-id", "x-conversation-id"])
def test_agents_name_their_sessions(header: str) -> None:
    """B23: the id that an agent sends is a name from the first request on; histories of one id are told apart."""
    young = [said("user", "hi")]
    once = name(young, headers={header: "s1"})

    assert once is not None
    assert name([*young, said("assistant", "Hello!")], headers={header: "s1"}) == once
    assert name(young, headers={header: "s2"}) != once
    assert name([said("user", "ho")], headers={header: "s1"}) != once


def test_metadata_and_cache_keys_tell_sessions_apart() -> None:
    """An agent's session in the metadata is a name; a key for the cache, which sessions may share, only helps to tell."""
    body = {"metadata": {"user_id": "user_1_session_abc"}}

    assert name([said("user", "hi")], body=body) is not None
    assert name([said("user", "hi")], body={"metadata": {"user_id": "user_1"}}) is None
    assert name([said("user", "hi")], body={"metadata": "session"}) is None
    assert name([said("user", "hi")], body={"prompt_cache_key": "app"}) is None
    assert name(turns(1), body={"prompt_cache_key": "app"}) != name(turns(1), body={"prompt_cache_key": 7})
    assert name(turns(1), body={"prompt_cache_key": 7}) == name(turns(1))


# Ids.


def test_forks_are_numbered() -> None:
    """The name itself comes first, numbered ones next, and last a fingerprint that no other history has."""
    ids = list(fork_ids("s", brought(turns(5))))

    assert ids[:3] == ["s", "s~1", "s~2"]
    assert len(ids) == MOST_FORKS + 2 == len(set(ids))
    assert ids[-1] != list(fork_ids("s", brought([*turns(4), *turns(1, begin=9)])))[-1]
    assert len(list(fork_ids("s", brought([])))) == MOST_FORKS + 2


def test_the_fingerprint_of_the_beginning_seldom_changes() -> None:
    """A history beyond the numbered ones keeps its id while it grows to twice its length."""
    ids = [list(fork_ids("s", brought(turns(count))))[-2] for count in range(8, 16)]

    assert len(set(ids)) == 1
    assert list(fork_ids("s", brought(turns(16))))[-2] not in ids


# Histories held against a session.


def test_a_longer_history_goes_on() -> None:
    """What the session has is known, what follows is new."""
    found = match([*turns(3), said("user", "And now?")], kept(turns(3)))

    assert found == Match(known=6)
    assert found.is_continuation
    assert found.is_exact


def test_a_stranger_does_not_go_on() -> None:
    """A history that begins with something else is another's."""
    assert match_history(brought(turns(3, begin=7)), kept(turns(3))) is None
    assert match_history(brought([]), kept(turns(3))) is None


def test_marks_do_not_count() -> None:
    """Moved cache marks, reasoning left out, injected reminders and arguments written anew leave a history what it is."""
    before: list[Item] = [
        {"role": "user", "content": [{"type": "text", "text": "Port it.", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "t1", "name": "bash", "input": {"a": 1, "b": 2}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]},
        {"role": "assistant", "content": "Done."},
    ]
    after = copy.deepcopy(before)
    after[0]["content"] = [{"type": "text", "text": REMINDER}, {"type": "text", "text": "Port it. "}]
    after[1]["content"] = [after[1]["content"][1], {**after[1]["content"][2], "input": {"b": 2, "a": 1}, "id": "t1"}]
    after[2]["content"][0] |= {"content": [{"type": "text", "text": "ok"}], "cache_control": {"type": "ephemeral"}}
    after[3]["content"] = [{"type": "text", "text": "Done.", "citations": None}]
    session = Session(MemoryStore(), "s", SessionSettings(window=200_000, format="anthropic-messages"))
    session.prepare(before)

    found = match_history(brought([*after, said("user", "Thanks.")], ANTHROPIC_MESSAGES), session.log)

    assert found == Match(known=4)


def test_arguments_may_be_written_anew() -> None:
    """Another order and spacing of a call's arguments is the same call."""
    log = kept([said("user", "go"), *step(0)])

    assert match([said("user", "go"), *step(0, arguments='{"in":"src","command":"make"}')], log) == Match(known=3)
    assert match([said("user", "go"), *step(0, arguments='{"in":"lib","command":"make"}')], log).removed == 2


def test_a_reply_may_be_asked_for_anew() -> None:
    """The last reply taken back or replaced is an amendment of the same session."""
    log = kept(turns(3))
    again = match(turns(3)[:-1], log)
    edited = match([*turns(3)[:-1], said("assistant", "Another answer."), said("user", "Go on.")], log)

    assert (again.removed, again.removed_replies, again.new_replies) == (1, 1, 0)
    assert again.is_continuation
    assert (edited.removed_replies, edited.new_replies) == (1, 1)
    assert edited.is_continuation
    assert not edited.is_exact


def test_the_last_words_may_be_edited() -> None:
    """The last turn taken back and asked otherwise is an amendment, however many steps it had."""
    log = kept([*turns(2), said("user", "go"), *step(0), *step(1), *step(2)])
    found = match([*turns(2), said("user", "stop")], log)

    assert (found.removed_turns, found.removed_replies) == (1, 3)
    assert found.is_continuation


@pytest.mark.parametrize("usage", [USAGE, None])
def test_a_named_title_stays_out_of_a_session_with_tools(usage: Item | None) -> None:
    """A request without tools joins a session with tools only where it takes nothing back, as an agent's last step."""
    items = [said("user", "go"), *step(0), *step(1)]
    log = heard(items[:1], items[1], tools=TOOLS, usage=usage)

    def plain(items: list[Item]) -> Match | None:
        return match_history(read_history(asking(items, tools=None)), log)

    assert plain(items[:1]) is None
    assert plain([*items[:1], said("assistant", "No."), said("user", "Why?")]) is None
    assert plain(items[:3]) == Match(known=2)
    assert plain(items) == Match(known=2, new_replies=1)
    assert match(items[:1], log).is_continuation


@pytest.mark.parametrize("usage", [USAGE, None])
def test_a_titles_own_session_has_no_tools(usage: Item | None) -> None:
    """A request without tools that brings many calls, and then more of them, goes on with the session it had."""
    items = [said("user", "go"), *step(0)]
    log = heard(items, said("assistant", "A title."), tools=None, usage=usage)
    again = match_history(read_history(asking([*items, *step(1)], tools=None)), log)

    assert again is not None
    assert again.is_continuation


@pytest.mark.parametrize(("tools", "is_taken"), [(TOOLS, False), (None, True)])
def test_tools_that_were_never_called_count(tools: object, is_taken: bool) -> None:
    """A session whose requests offered tools has tools, though none was called; one that never had any is a chat."""
    log = heard([said("user", "go")], said("assistant", "Done."), tools=tools)
    title = read_history(asking([said("user", "go")], tools=None))

    assert (match_history(title, log) is not None) == is_taken


def test_two_turns_back_is_another_history() -> None:
    """An earlier turn asked otherwise begins a history of its own."""
    assert not match([*turns(1), said("user", "Something else?")], kept(turns(3))).is_continuation
    assert not match(turns(3)[:1], kept(turns(3))).is_continuation


def test_another_run_of_the_same_task_is_another_history() -> None:
    """Two runs that began alike and went different ways for several steps are not taken for one."""
    one = [said("user", "go"), *step(0), *step(1, arguments='{"command": "ls"}'), *step(2)]
    other = [said("user", "go"), *step(0), *step(1, arguments='{"command": "pwd"}'), *step(2, output="no")]

    assert not match(other, kept(one)).is_continuation


def test_a_result_changed_in_place_is_the_same_history() -> None:
    """A client that clears an old result itself goes on with its session: all that follows comes again."""
    steps = [item for number in range(6) for item in step(number)]
    cleared = [*steps[:1], {**steps[1], "content": "[cleared]"}, *steps[2:]]
    found = match([said("user", "go"), *cleared, said("user", "on")], kept([said("user", "go"), *steps]))

    assert (found.known, found.removed, found.moved) == (2, 11, 10)
    assert found.is_continuation


def test_what_was_folded_must_be_there() -> None:
    """After a fold a history must begin with what was folded, and is known from there on."""
    items = [said("user", "go"), *(item for number in range(30) for item in step(number))]
    log = kept(items, window=8_192)
    assert log.checkpoint is not None
    assert log.checkpoint.folded > 5
    edited = [said("user", "go elsewhere"), *items[1:]]

    assert match([*items, said("user", "on")], log) == Match(known=len(items))
    assert match_history(brought(edited), log) is None
    assert match_history(brought(items[:3]), log) is None


def test_folded_results_may_be_cleared() -> None:
    """An agent that puts a few words in place of old results, to save room, goes on with the same session."""
    items = [said("user", "go"), *(item for number in range(30) for item in step(number))]
    log = kept(items, window=8_192)
    assert log.checkpoint is not None
    folded, live = items[: log.checkpoint.folded], items[log.checkpoint.folded :]
    cleared = [{**item, "content": "[cleared]"} if item["role"] == "tool" else item for item in folded]
    other = [*folded[:-2], *step(99, arguments='{"command": "rm"}'), *live]

    assert match([*cleared, *live, said("user", "on")], log) == Match(known=len(items))
    assert match_history(brought(other), log) is None


@pytest.mark.parametrize("ids", ["call_8Fz", "call_"])
def test_the_same_calls_with_other_results_are_another_history(ids: str) -> None:
    """B28: agents that run the same commands with other results never go on from each other's fold, whatever their ids."""
    one, other = (
        [said("user", "go"), *(item for number in range(30) for item in step(number, output=output * 60, ids=used))]
        for output, used in (("all went well\n", ids), ("it all failed\n", ids.replace("8Fz", "9Ga")))
    )
    log = kept(one, window=8_192)
    assert log.checkpoint is not None

    assert match_history(brought(other), log) is None
    assert match_history(brought(other[: log.checkpoint.folded + 1]), log) is None


@pytest.mark.parametrize("count", [1, 2])
def test_an_open_call_is_known_by_its_id(count: int) -> None:
    """A call that waits for its result is the session's only under the id it has there; the same call of before is any."""
    first, mine, theirs = step(0), step(1), step(1, ids="call_9Ga")
    more = [{**theirs[1], "content": "other"}]
    log = kept([said("user", "go"), *first, *mine[:count]])

    assert match([said("user", "go"), *step(0, ids="call_9Ga"), *mine[:1], *more], log).known == 4
    assert match([said("user", "go"), *first, *theirs[:1], *more], log).known == 3


def test_messages_of_infold_are_not_the_clients() -> None:
    """What infold put into the session is not looked for in the client's list."""
    log = session(user("go"), calls("bash"), result(5), replies("done"))
    items = [said("user", "go"), *step(0)]

    assert match([items[0]], log).known == 1


def test_the_better_session_is_the_one_that_loses_nothing() -> None:
    """First what is taken back counts, then how much is known."""
    whole, half, amended = Match(known=4), Match(known=2), Match(known=9, removed=1)

    assert half.is_better_than(None)
    assert whole.is_better_than(half)
    assert not half.is_better_than(whole)
    assert half.is_better_than(amended)
    assert not amended.is_better_than(half)


def test_an_empty_reply_need_not_be_brought() -> None:
    """B28: a client that leaves out a reply without content goes on with its session, also by a request without tools."""
    log = heard([*turns(1), said("user", "And?")], {"role": "assistant", "content": ""}, tools=TOOLS)
    items = [*turns(1), said("user", "And?"), said("user", "Are you there?")]
    without_tools = match_history(read_history(asking(items, tools=None)), log)

    assert match(items, log) == without_tools == Match(3)
    assert match([*items[:3], said("assistant", ""), *items[3:]], log) == Match(4)
