"""What all plugs share: sessions by thread id, the framework's objects back, recovery and recall."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold import SessionSettings, UsageError, WindowExceeded
from infold.core.entries import MessageEntry
from infold.core.messages import AssistantMessage, SessionId, Usage
from infold.core.policy import INFOLD, Policy
from infold.formats.registry import FORMATS, format_named
from infold.integrations.sessions import NOTHING_RECALLED, Call, PlugOptions, Sessions, SharedThread
from infold.ports import SessionKey
from infold.session.history import decode_history
from infold.stores.memory import MemoryStore

RULE = "Port the parser. Never touch vendor/."
REFUSAL = {"error": {"code": "context_length_exceeded", "message": "maximum context length is 8192 tokens, got 9001"}}


class Thing:
    """A framework's message."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item


def step(n: int) -> list[Thing]:
    call = {"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": f'{{"command": "make {n}"}}'}}
    return [
        Thing({"role": "assistant", "content": None, "tool_calls": [call]}),
        Thing({"role": "tool", "tool_call_id": f"c{n}", "content": f"{n}: all went well\n" * 120}),
    ]


def items(things: list[Thing]) -> list[dict[str, Any]]:
    return [dict(thing.item) for thing in things]


def build(item: dict[str, Any], original: Thing | None) -> Thing:
    return Thing(item)


def opened(**options: Any) -> Sessions:
    given: PlugOptions = {"window": 8_192, **options}  # type: ignore[typeddict-item]
    return Sessions.from_options(given, format="openai-chat", recovers=True)


def long_history(rule: str = RULE, steps: int = 30) -> list[Thing]:
    return [Thing({"role": "user", "content": rule}), *(thing for n in range(steps) for thing in step(n))]


def test_messages_without_stubs_are_the_frameworks_own() -> None:
    """B43: where results became stubs, all other messages are the framework's objects."""
    things = long_history()
    call = opened().prepare("a", items(things))

    back = call.restore(things, build)
    built = [one for one, given in zip(back, things, strict=True) if one is not given]

    assert call.is_cut
    assert built
    assert all(one.item["role"] == "tool" and one.item["content"].startswith("[pruned: ") for one in built)


def test_kept_messages_are_the_frameworks_own() -> None:
    """B43: what infold kept is the framework's object; what it wrote is built."""
    things = long_history()
    call = opened(policy=FOLDS).prepare("a", items(things))

    back = call.restore(things, build)

    assert call.is_cut
    assert len(back) < len(things)
    assert back[1:] == things[-len(back) + 1 :]
    assert RULE in back[0].item["content"]


def test_what_was_not_cut_is_returned_as_it_is() -> None:
    """B43: if nothing was cut, every object comes back, also of a history that infold would repair."""
    things = [Thing({"role": "user", "content": RULE}), step(1)[0], Thing({"role": "user", "content": "Go on."})]
    call = opened().prepare("a", items(things))

    assert not call.is_cut
    assert call.restore(things, build) == things


def test_threads_have_sessions_of_their_own() -> None:
    """B43: each thread id has its session; `session` is put before it; without an id the messages tell them apart."""
    sessions = opened(session="team")
    one = sessions.prepare("a", items(long_history("For alpha.")))
    two = sessions.prepare("b", items(long_history("For beta.")))
    first = sessions.prepare(None, items(long_history("For gamma.")))
    second = sessions.prepare(None, items(long_history("For delta.")))

    ids = [call.session.log.session_id for call in (one, two, first, second)]
    assert ids == ["team:a", "team:b", "team", "team~1"]
    assert sessions.prepare(None, items(long_history("For gamma.", 31))).session is first.session
    assert "beta" not in str(one.ready.messages)


def test_a_changed_history_gets_a_session_of_its_own() -> None:
    """B43: a list that a framework shortened or a sub-agent's list, under the same thread id, is not an error."""
    sessions = opened()
    whole = sessions.prepare("a", items(long_history()))
    shortened = sessions.prepare("a", items(long_history())[21:])
    again = sessions.prepare("a", items(long_history(RULE, 31)))

    assert shortened.session is not whole.session
    assert again.session is whole.session


def test_a_fold_that_a_framework_stored_continues_its_session() -> None:
    """B43: a framework that stores the request gets the same session for it, in another process too, and one fold."""
    store = MemoryStore()
    things = long_history()
    for n in range(30, 90):
        things += step(n)
        sessions = opened(store=store)
        call = sessions.prepare("a", items(things))
        assert call.session.log.session_id == "a"
        things = call.restore(things, build)

    assert sum("Earlier conversation, folded" in str(thing.item["content"]) for thing in things) == 1
    assert call.session.log.folded > 100


def test_a_refusal_is_recovered_once() -> None:
    """B43: a refusal for size gives a smaller request; one about something else, or a second one, gives none."""
    call = opened(window=16_000).prepare("a", items(long_history()))

    assert call.recover(ValueError("no such model")) is None
    again = call.recover(REFUSAL)
    assert again is not None
    assert len(str(again.ready.messages)) < len(str(call.ready.messages))
    assert again.recover(REFUSAL) is None


def test_a_request_is_sent_once_more_after_a_refusal() -> None:
    """B44: `asend` sends the changed request after a refusal, and raises any other error, and a second refusal."""
    things = long_history()

    async def attempt(*errors: Exception) -> list[int]:
        call, sizes = await opened().aprepare("a", items(things)), []
        waiting = list(errors)

        async def send(sent: Call) -> list[int]:
            sizes.append(len(sent.restore(things, build)))
            if waiting:
                raise waiting.pop(0)
            return sizes

        return await call.asend(send)

    refused = ValueError(REFUSAL["error"]["message"])
    assert len(asyncio.run(attempt())) == 1
    assert len(asyncio.run(attempt(refused))) == 2
    with pytest.raises(ValueError, match="maximum context length"):
        asyncio.run(attempt(refused, refused))
    with pytest.raises(ValueError, match="no such model"):
        asyncio.run(attempt(ValueError("no such model")))


@pytest.mark.parametrize("policy", [INFOLD, FOLDS], ids=["prunes", "folds"])
def test_a_request_is_compacted_when_a_framework_says_so(policy: Policy) -> None:
    """B44: `compact` makes room though infold's own limit is not reached, sync and awaited."""
    things = long_history(steps=6)

    async def awaited() -> Call:
        return await (await opened(policy=policy).aprepare("a", items(things))).acompact()

    call = opened(policy=policy).prepare("a", items(things))
    assert not call.is_cut
    for compacted in (call.compact(), asyncio.run(awaited())):
        back = compacted.restore(things, build)
        assert compacted.is_cut
        assert len(str(items(back))) < 0.6 * len(str(items(things)))
        assert (len(back) < len(things)) is (policy is FOLDS)
        assert back[-1] is things[-1]


def test_decoded_messages_bring_their_usage() -> None:
    """B44: a history that is decoded already is taken with the usage of its replies."""
    sessions, history = opened(), decode_history(format_named("openai-chat"), items(long_history(steps=2)))
    messages = tuple(
        replace(one, usage=Usage(input=700)) if isinstance(one, AssistantMessage) else one
        for one in history.decoded.messages
    )
    sessions.prepare("a", replace(history, decoded=replace(history.decoded, messages=messages)))

    stored = sessions.store.newest_first(SessionKey("", SessionId("a")))
    found: list[Any] = [entry.message for _, entry in stored if isinstance(entry, MessageEntry)]
    assert [one.usage and one.usage.prompt for one in found if isinstance(one, AssistantMessage)] == [700, 700]


def test_decoded_messages_after_a_checkpoint_bring_their_usage() -> None:
    """B44: so are those that come back with a checkpoint in place of the first ones."""
    sessions, things, wire = opened(policy=FOLDS), long_history(), format_named("openai-chat")
    for n in range(30, 33):
        back = sessions.prepare("a", items(things)).restore(things, build)
        things = [*back, *step(n)]
        history = decode_history(wire, items(things))
        messages = tuple(
            replace(one, usage=Usage(input=700 + n)) if isinstance(one, AssistantMessage) else one
            for one in history.decoded.messages
        )
        call = sessions.prepare("a", replace(history, decoded=replace(history.decoded, messages=messages)))

        assert back[0].item["content"].startswith("[Earlier conversation")
        assert call.session.log.session_id == "a"
        newest = [one.message for one in call.session.log.live if isinstance(one.message, AssistantMessage)][-1]
        assert newest.usage == Usage(input=700 + n)


def test_it_can_be_awaited() -> None:
    """B43: preparing, recording, recovering and recalling run in threads, with an async summariser on the caller's loop."""
    loops: list[object] = []

    async def summarise(request: Any) -> str:
        loops.append(asyncio.get_running_loop())
        return "The parser was ported with make."

    async def run() -> None:
        sessions = opened(policy=FOLDS, summariser=summarise)
        call = await sessions.aprepare("a", items(long_history()))
        await call.arecord({"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]})
        assert set(loops) == {asyncio.get_running_loop()}
        assert await call.arecover(ValueError("other")) is None
        assert "3: all went well" in await sessions.arecall("a", {"query": "make 3"})
        sessions.close()

    asyncio.run(run())
    with pytest.raises(UsageError, match="synchronous"):
        opened(summariser=summarise).prepare("a", items(long_history()))


NOT_REPLIES = [{}, {"error": {"message": "busy"}}, None, 3, object()]


@pytest.mark.parametrize("body", NOT_REPLIES, ids=lambda body: type(body).__name__)
def test_recording_never_raises(body: Any, caplog: pytest.LogCaptureFixture) -> None:
    """B44: a reply that cannot be recorded or converted is logged; the framework has it, and the next request goes on."""
    sessions, things = opened(), long_history(steps=2)

    def broken(_: object) -> object:
        raise KeyError("a secret of the user's")

    async def awaited() -> None:
        call = await sessions.aprepare("a", items(things))
        await call.arecord(body)
        await call.arecord(body, broken)

    call = sessions.prepare("a", items(things))
    call.record(body)
    call.record(body, broken)
    asyncio.run(awaited())

    assert caplog.text.count("was not recorded") == 4
    assert "secret" not in caplog.text
    assert sessions.prepare("a", items(long_history(steps=3))).session is call.session


def test_a_closed_store_does_not_end_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """B44: nor does a store that failed since the request was prepared."""
    sessions = opened(store=str(tmp_path / "a.db"))
    call = sessions.prepare("a", items(long_history(steps=2)))
    sessions.close()
    call.record({"choices": [{"message": {"role": "assistant", "content": "ok"}}]})

    assert "StoreClosed" in caplog.text


def test_an_empty_reply_is_recorded() -> None:
    """B44: a reply without content has its usage recorded, and the thread goes on, whether its list has the reply or not."""
    sessions, things = opened(), long_history(steps=2)
    usage = {"prompt_tokens": 700, "completion_tokens": 1}
    empty = {"role": "assistant", "content": ""}
    call = sessions.prepare("a", items(things))
    call.record({"choices": [{"message": empty}], "usage": usage})
    newest = call.session.log.live[-1].message
    assert isinstance(newest, AssistantMessage)
    assert newest.usage == Usage(input=700, output=1)
    for more in ([], [empty]):
        again = sessions.prepare("a", [*items(things), *more, {"role": "user", "content": "Are you there?"}])
        assert again.session is call.session
        assert again.ready.messages[-1]["content"] == "Are you there?"


def recursive() -> dict[str, Any]:
    tool: dict[str, Any] = {"name": "loop"}
    tool["inner"] = tool
    return tool


class Unprintable:
    """A tool that cannot even be printed."""

    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize("tool", [recursive(), object(), {1, 2}, Unprintable()], ids=lambda tool: type(tool).__name__)
def test_what_cannot_be_read_is_counted_as_text(tool: object) -> None:
    """B44: a tool or a prompt that is not JSON is counted by what it prints, and the other tools as they are."""
    plain = {"type": "function", "function": {"name": "bash", "description": "word " * 300}}
    sessions, things = opened(), items(long_history(steps=2))
    sizes = [
        sessions.prepare(f"{n}", things, tools=tools, system=system).ready.gauge.count_tokens
        for n, (system, tools) in enumerate([("", [plain]), ("", [tool, plain]), (tool, [plain]), ([tool], tool)])
    ]

    assert 0 < sizes[1] - sizes[0] < 100
    assert 0 < sizes[2] - sizes[0] < 100
    assert sizes[3] < sizes[0]


@pytest.mark.parametrize("format_name", [wire.name for wire in FORMATS])
def test_a_message_that_cannot_be_read_is_kept(format_name: str) -> None:
    """B44: a message of a shape that the format does not have is counted by its text, and is the framework's own when sent."""
    field = "parts" if format_name == "gemini" else "content"
    good = {"role": "user", field: [{"text": "word " * 2_000}] if field == "parts" else "word " * 2_000}
    given = [good, {"id": "old", "type": "message", field: 7}, 3, good, {"id": "new", field: {"a": 1}}]
    for window in (200_000, 4_096):
        sessions = Sessions.from_options({"window": window}, format=format_name, recovers=True)
        call = sessions.prepare("a", given)
        back = call.restore(given, lambda item, _: item)
        assert call.is_cut == (window == 4_096)
        # In Converse roles alternate, so that what follows a checkpoint is joined to it.
        is_joined = call.is_cut and format_name == "bedrock-converse"
        assert "'id': 'new'" in str(back[-1]) if is_joined else back[-1] is given[-1]


def test_recall_answers_the_model_whatever_it_asks() -> None:
    """B43: recall takes a call's arguments or plain words, finds what was folded, and explains a query that names nothing."""
    sessions = opened()
    sessions.prepare("a", items(long_history()))

    assert "3: all went well" in sessions.recall("a", "make 3")
    assert sessions.recall("a", {}).startswith("Error: ")
    assert sessions.recall("a", {"query": "999.9"}).startswith("Error: ")
    assert isinstance(sessions.recall("never seen", "make"), str)


def test_options_are_checked(tmp_path: Path) -> None:
    """B43: a keyword that no plug has, and a session without a name, are refused; a store's address is opened and closed."""
    with pytest.raises(UsageError, match="windw"):
        opened(windw=3)
    with pytest.raises(UsageError, match="session"):
        Sessions(SessionSettings(window=8_192), session="")
    with opened(store=str(tmp_path / "a.db"), session="n" * 500) as sessions:
        call = sessions.prepare("a", items(long_history()))
    assert len(call.session.log.session_id) < 100


def test_the_model_of_a_request_has_its_window() -> None:
    """B43: without a window or a model among the options, the model that is asked decides; a request that cannot fit raises."""
    sessions = Sessions.from_options({}, format="openai-chat", recovers=True)
    call = sessions.prepare("a", items(long_history()), model="gpt-4o")

    assert call.session.window_tokens == 128_000
    assert not call.is_cut
    with pytest.raises(WindowExceeded):
        opened(window=1_000).prepare("a", items(long_history()), system="You are careful. " * 900)


def reply(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}


def test_a_call_that_was_overtaken_changes_and_recalls_nothing() -> None:
    """B43: of two conversations that begin alike the first to answer has the session; the other begins its own."""
    sessions, things = opened(), long_history("Hello")
    one, two = (sessions.prepare(None, items(things), recall="recall") for _ in range(2))
    assert one.session is two.session
    one.record(reply("The secret is blue."))
    two.record(reply("The secret is green."))

    assert "blue" in one.recall("secret")
    assert two.recall("secret") == NOTHING_RECALLED
    assert two.recover(REFUSAL) is None
    assert two.compact() is two
    later = sessions.prepare(None, [*items(things), {"role": "assistant", "content": "The secret is green."}])
    assert later.session is not one.session
    assert "blue" not in str(later.ready.messages) + later.recall("secret")


def test_recall_without_a_call_needs_one_session() -> None:
    """B43: by its thread recall answers while the thread has one session; by messages, from the session they go on from."""
    sessions = opened()
    alpha, beta = items(long_history("For alpha.")), items(long_history("For beta."))
    sessions.prepare("a", alpha)
    assert "all went well" in sessions.recall("a", "make 3")
    sessions.prepare("a", beta)

    assert sessions.recall("a", "make 3") == NOTHING_RECALLED
    assert sessions.recall(None, "make 3") == NOTHING_RECALLED
    assert sessions.recall(SharedThread("a"), "make 3") == NOTHING_RECALLED
    assert "For beta." in sessions.recall("a", "for", beta)
    assert "For beta." not in sessions.recall("a", "for", alpha)
    assert sessions.recall("a", "for", items(long_history("For gamma."))) == NOTHING_RECALLED


def test_a_nameless_history_takes_nothing_back() -> None:
    """B43: a new conversation does not take over a session that began with its words; with a thread id it does."""
    sessions = opened()
    first = sessions.prepare(None, items(long_history("Hello"))).session
    assert sessions.prepare(None, items(long_history("Hello", 0))).session is not first

    named = sessions.prepare("a", items(long_history("Hello", 4))).session
    assert sessions.prepare("a", items(long_history("Hello", 3))).session is named


def test_conversations_that_start_at_once_leave_no_dead_sessions() -> None:
    """B44: each of several conversations without an id that start at once has one session."""
    store, together = MemoryStore(), Barrier(6)
    sessions = opened(store=store)

    def converse(name: str) -> None:
        together.wait()
        for steps in range(3):
            sessions.prepare(None, items(long_history(f"For {name}.", steps)))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(converse, "abcdef"))
    found = sorted(one.key.session_id for one in store.sessions(""))
    assert found == ["unnamed", *(f"unnamed~{n}" for n in range(1, 6))]


def test_the_recall_tool_has_a_name_that_is_known() -> None:
    """B43: a name of the recall tool that could not be known again is refused."""
    assert opened(recall_name="infold_recall").recall_name == "infold_recall"
    with pytest.raises(UsageError, match="memory"):
        opened(recall_name="memory")
