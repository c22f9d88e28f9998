"""The steps of a compaction as calls of their own, against the documents' own tables."""

import asyncio
from typing import Any

import pytest

from infold import (
    AssistantMessage,
    AsyncSession,
    BrokenInput,
    Compacted,
    CompactionPart,
    Event,
    Message,
    Pruned,
    Session,
    TextPart,
    Usage,
    UsageError,
    UserMessage,
    Window,
    estimate,
    filter_compacted,
    is_overflow,
    preset,
    prune,
)
from infold.core.messages import MessageId

from .session_fixture import GOOD, ScriptedSummariser

CLAUDE = Window(200_000, output_tokens=8_192)


# Overflow.


@pytest.mark.parametrize(
    ("policy", "window", "usage", "expected"),
    [
        # 001: input + cache read + output over context less min(output, 32,000).
        ("opencode-1.1.23", Window(100_000, output_tokens=32_000), {"input": 75_000, "output": 5_000}, True),
        ("opencode-1.1.23", Window(200_000, output_tokens=32_000), {"input": 100_000, "output": 10_000}, False),
        ("opencode-1.1.23", Window(100_000, output_tokens=32_000), {"input": 68_000, "output": 0}, False),
        (
            "opencode-1.1.23",
            Window(100_000, output_tokens=32_000),
            {"input": 50_000, "output": 10_000, "cache": {"read": 10_000, "write": 0}},
            True,
        ),
        ("opencode-1.1.23", Window(400_000, 272_000, 128_000), {"input": 271_000, "output": 2_000}, True),
        ("opencode-1.1.23", Window(0), {"input": 10**7, "output": 1}, False),
        # 000: total, or all four, from context less min(20,000, output) on.
        ("opencode-1.1.57", CLAUDE, {"input": 191_807, "output": 0}, False),
        ("opencode-1.1.57", CLAUDE, {"input": 191_808, "output": 0}, True),
        ("opencode-1.1.57", CLAUDE, {"input": 1, "output": 1, "total": 191_808}, True),
        (
            "opencode-1.1.57",
            CLAUDE,
            {"input": 100_000, "output": 808, "cache": {"read": 90_000, "write": 1_000}},
            True,
        ),
        # 003: from three quarters of 64,000 on, whatever the model.
        ("turn-window", None, 47_999, False),
        ("turn-window", None, 48_000, True),
    ],
)
def test_overflow_is_the_documents(policy: str, window: Window | None, usage: object, expected: bool) -> None:
    """S1.2, S1.3: a usage as OpenCode has it is compared as each document compares it."""
    assert is_overflow(usage, window=window, policy=policy) is expected


def test_overflow_reads_what_providers_report() -> None:
    """A reply of any provider, a `Usage` or a number of tokens will do; the model says how large the window is."""
    chat = {"choices": [{"message": {"role": "assistant", "content": "hi"}}], "usage": {"prompt_tokens": 200_000}}
    reported = {"input_tokens": 10, "cache_read_input_tokens": 190_000, "output_tokens": 500}
    anthropic = {"role": "assistant", "content": [{"type": "text", "text": "hi"}], "usage": reported}

    assert is_overflow(chat, window="200k")
    assert is_overflow(anthropic, model="claude-sonnet-4-5")
    assert is_overflow(reported, model="claude-sonnet-4-5")
    assert is_overflow({"prompt_tokens": 190_000, "completion_tokens": 9}, model="claude-sonnet-4-5")
    assert is_overflow({"promptTokenCount": 190_000, "totalTokenCount": 190_009}, model="claude-sonnet-4-5")
    assert is_overflow(Usage(input=190_000), model="claude-sonnet-4-5")
    assert not is_overflow(100_000, model="claude-sonnet-4-5")


def test_overflow_is_off_where_compaction_is_off() -> None:
    """S8.2: by the policy, or by a switch."""
    off = preset("opencode-1.1.57").but(auto=False)

    assert not is_overflow(10**6, window=CLAUDE, policy=off)
    assert not is_overflow(
        10**6, window=CLAUDE, policy="opencode-1.1.57", environ={"OPENCODE_DISABLE_AUTOCOMPACT": "1"}
    )


@pytest.mark.parametrize("wrong", [None, "many", {}, {"input": 5, "output": "x"}, {"choices": []}, True, 1.5])
def test_a_usage_that_is_none_is_refused(wrong: object) -> None:
    """The error says what may be given."""
    with pytest.raises(UsageError, match="give a provider's reply"):
        is_overflow(wrong, window=8_000)
    with pytest.raises(UsageError, match="neither a model nor a window"):
        is_overflow(5)


# Estimates.


def test_estimates_are_the_documents() -> None:
    """S1.7: a quarter of the characters, rounded as each document rounds it."""
    assert [estimate("x" * n, "round") for n in (0, 1, 2, 6, 10)] == [0, 0, 1, 2, 3]
    assert [estimate("x" * n, "ceil") for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert estimate("How long is this?") == 4
    with pytest.raises(UsageError, match="did you mean 'round'"):
        estimate("x", "rund")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the text is None"):
        estimate(None)  # type: ignore[arg-type]


# Pruning.


def turn(number: int, tokens: int, tool: str = "read") -> list[dict[str, Any]]:
    """Return a turn with one tool result of that many tokens, as the documents estimate them."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    return [
        {"role": "user", "content": f"Turn {number}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": "word" * tokens},
        {"role": "assistant", "content": "Done."},
    ]


TEN_TURNS = {3: 30_000, 4: 25_000, 5: 20_000, 6: 15_000, 7: 12_000, 8: 8_000, 9: 5_000, 10: 3_000}
"""The example of 002: of ten turns, the results of the last eight."""


def stubbed(messages: list[Any]) -> list[str]:
    """Return the calls whose results are stubs."""
    return [item["tool_call_id"] for item in messages if item.get("content") == "[Output pruned]"]


def test_ten_turns_are_pruned_as_in_the_document() -> None:
    """S2.1 to S2.6: turns 3 to 5 lose their results, 75k tokens; turns 6 to 10 keep theirs."""
    history = [item for number, tokens in TEN_TURNS.items() for item in turn(number, tokens)]
    pruned = prune(history, policy="proactive")

    assert stubbed(pruned.messages) == ["c3", "c4", "c5"]
    (event,) = pruned.report.events
    assert isinstance(event, Pruned)
    assert event.freed_tokens == 75_000
    assert [one for one in pruned.messages if one.get("role") != "tool"] == [
        one for one in history if one.get("role") != "tool"
    ]


@pytest.mark.parametrize(
    ("turns", "each", "gone"), [(2, 90_000, 0), (5, 9_000, 0), (10, 4_500, 0), (7, 9_900, 0), (12, 10_000, 6)]
)
def test_pruning_mostly_does_nothing(turns: int, each: int, gone: int) -> None:
    """S2.2 to S2.4: two turns are spared whatever they hold, and less than 20k beyond the newest 40k stays too."""
    history = [item for number in range(turns) for item in turn(number, each)]
    pruned = prune(history, policy="proactive")

    assert len(stubbed(pruned.messages)) == gone
    assert pruned.report.changed is bool(gone)


def test_pruning_stops_where_the_documents_stop() -> None:
    """S2.5, S2.6: protected tools are skipped, a summary and what was pruned before end the walk, a switch turns it off."""
    old = [item for number in range(6) for item in turn(number, 30_000)]
    new = [item for number in range(6, 9) for item in turn(number, 100)]
    summary = {"role": "assistant", "content": "[Conversation Summary]\nSix files were read."}
    skills = [item for number in range(6) for item in turn(number, 30_000, "skill")]

    assert stubbed(prune([*old, summary, *new], policy="proactive").messages) == []
    assert stubbed(prune([*skills, *new], policy="proactive").messages) == []
    once = prune([*old, *new], policy="proactive").messages
    assert len(stubbed(once)) == 5
    assert prune(once, policy="proactive").messages == once
    assert prune([*old, *new], policy="proactive", environ={"OPENCODE_DISABLE_PRUNE": "1"}).messages == [*old, *new]


def test_pruning_with_shares_needs_a_window() -> None:
    """The preset `infold` keeps a share of the window, so it has to know it."""
    history = [item for number in range(9) for item in turn(number, 3_000)]

    assert prune(history, window="16k").report.changed
    with pytest.raises(UsageError, match="neither a model nor a window"):
        prune(history)
    assert prune([], policy="proactive").messages == []


def test_a_session_is_pruned_on_demand() -> None:
    """S2.1: by the policy's rules, however full the window is, and only once."""
    events: list[Event] = []
    session = Session("memory", "s", window=Window(2_000_000), policy="opencode-1.18", on_event=events.append)
    enabled = session.policy.but(prune=preset("opencode-1.1.23").prune)
    session = Session("memory", "s", window=Window(2_000_000), policy=enabled.but(auto=False), on_event=events.append)
    history = [item for number, tokens in TEN_TURNS.items() for item in turn(number, tokens)]
    session.prepare(history, cache_seconds=0)
    first = session.prune()

    assert session.prune() is None
    assert first is None or first in events
    stubs = [item for item in session.view() if item.get("content") == "[Old tool result content cleared]"]
    assert len(stubs) == 3


# What a compaction left.


def user(name: str, *parts: Any) -> UserMessage:
    """Return a user message of that id."""
    return UserMessage(MessageId(name), parts or (TextPart(name),))


def summary(name: str, parent: str, *, finish: Any = "stop", error: str = "") -> AssistantMessage:
    """Return the summary that answers a request."""
    return AssistantMessage(
        MessageId(name), (TextPart(name),), parent_id=MessageId(parent), summary=True, finish=finish, error=error
    )


def ids(messages: list[Message]) -> list[str]:
    """Return the ids of messages."""
    return [message.id for message in messages]


def test_what_a_compaction_left() -> None:
    """S4.1: from the newest request with a finished summary on; a failed or unanswered one is no boundary."""
    asked = CompactionPart("p", auto=True)
    history: list[Message] = [user("a"), user("r", asked), summary("s", "r"), user("b")]

    assert ids(filter_compacted(history)) == ["r", "s", "b"]
    assert filter_compacted(history)[2] is history[3]
    assert ids(filter_compacted([user("a"), user("r", asked)])) == ["a", "r"]
    failed: list[Message] = [user("a"), user("r", asked), summary("s", "r", error="no key"), user("b")]
    assert ids(filter_compacted(failed)) == ["a", "r", "s", "b"]
    again: list[Message] = [*history, user("q", asked), summary("t", "q"), user("c")]
    assert ids(filter_compacted(again)) == ["q", "t", "c"]
    assert filter_compacted([]) == []


def test_a_kept_tail_comes_after_the_summary() -> None:
    """S1.9: OpenCode 1.18 names the first message that it keeps."""
    asked = CompactionPart("p", auto=True, first_kept_id=MessageId("b"))
    history: list[Message] = [user("a"), user("b"), user("r", asked), summary("s", "r"), user("c")]

    assert ids(filter_compacted(history)) == ["r", "s", "b", "c"]


def test_an_older_summary_inside_a_kept_tail_is_left_out() -> None:
    """S4.1: the newer summary stands for the older one, where OpenCode 1.18 sends the older pair again."""
    first, second = (CompactionPart(name, auto=True, first_kept_id=MessageId("b")) for name in "pq")
    history: list[Message] = [
        user("a"),
        user("b"),
        user("r", first),
        summary("s", "r"),
        user("c"),
        user("q", second),
        summary("t", "q"),
        user("d"),
    ]

    assert ids(filter_compacted(history)) == ["q", "t", "b", "c", "d"]


def exported(role: str, name: str, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
    """Return a message as OpenCode exports it."""
    return {"info": {"id": name, "role": role, **info}, "parts": [*parts]}


def test_an_export_of_opencode_is_filtered() -> None:
    """S4.1: its own messages come back as they are."""
    tool = {"type": "tool", "callID": "c", "tool": "read", "state": {"status": "completed", "input": {}, "output": "x"}}
    history = [
        exported("user", "a", {"type": "text", "text": "old"}),
        exported("assistant", "b", tool, parentID="a", finish="tool-calls"),
        exported("user", "r", {"type": "compaction", "id": "p", "auto": True}),
        exported("assistant", "s", {"type": "text", "text": "S"}, parentID="r", summary=True, finish="stop"),
        exported("user", "d", {"type": "text", "text": "new"}),
        exported("assistant", "e", tool, parentID="d", finish="tool-calls"),
    ]

    assert filter_compacted(history) == history[2:]
    assert filter_compacted(history[:3]) == history[:3]
    with pytest.raises(BrokenInput, match="give messages as OpenCode exports them"):
        filter_compacted([{"role": "user", "content": "hi"}])
    with pytest.raises(BrokenInput, match="give a list of messages"):
        filter_compacted(None)  # type: ignore[arg-type]


# Requesting and carrying out.


def asking(summariser: Any, policy: str = "opencode-1.1.23", **settings: Any) -> Session:
    """Return a session with a short history, and a summariser."""
    session = Session("memory", "s", window=100_000, policy=policy, summariser=summariser, **settings)
    session.prepare_new([{"role": "user", "content": "Port the feed."}])
    said = "The feed is ported, step by step. " * 50
    session.record({"choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}]})
    return session


def test_a_compaction_is_requested_and_carried_out() -> None:
    """S3.1, S3.9: the request is stored and changes nothing; carrying it out publishes and lets the loop continue."""
    heard: list[Compacted] = []
    session = asking(ScriptedSummariser(), on_compacted=heard.append)
    before = session.view()
    request = session.request_compaction()

    assert session.request_compaction() == request
    assert session.view() == before
    assert "a compaction is requested" in session.explain()
    assert session.run_compaction() == "continue"
    assert [event.reason for event in heard] == ["manual"]
    assert GOOD in str(session.view())
    assert session.log.pending is None
    with pytest.raises(UsageError, match="no compaction is requested"):
        session.run_compaction()


def test_an_automatic_request_is_followed_by_work() -> None:
    """S3.8: after a compaction that a policy asked for, a message asks the model to continue."""
    session = asking(ScriptedSummariser())
    session.request_compaction(auto=True)

    assert session.run_compaction() == "continue"
    assert session.view()[-1]["role"] == "user"


def test_a_failed_summary_stops_the_loop() -> None:
    """S3.9: nothing is folded or published, and the request waits for the next try."""
    heard: list[Compacted] = []
    session = asking(ScriptedSummariser(RuntimeError("down"), RuntimeError("down")), on_compacted=heard.append)
    request = session.request_compaction(auto=True)

    assert session.run_compaction() == "stop"
    assert heard == []
    assert session.log.pending is not None
    assert session.log.pending.id == request
    assert session.run_compaction() == "continue"


def test_a_requested_compaction_is_carried_out_by_the_next_request() -> None:
    """S3.1: also by another process, as after a crash."""
    session = asking(ScriptedSummariser())
    session.request_compaction()
    ready = session.prepare_new([{"role": "user", "content": "And now?"}])

    assert [type(event) for event in ready.events] == [Compacted]
    assert ready.messages[-1] == {"role": "user", "content": "And now?"}


def test_a_session_without_messages_has_nothing_to_compact() -> None:
    """The error says what comes first."""
    session = Session("memory", "s", window=8_000)

    with pytest.raises(UsageError, match="nothing was prepared yet"):
        session.request_compaction()
    assert (session.view(), session.messages(), session.titles(), session.cost(), session.prune()) == (
        [],
        [],
        {},
        0.0,
        None,
    )
    assert session.explain().splitlines()[-1] == "contents: none"


def test_the_steps_are_awaited() -> None:
    """An async session has the same steps."""

    async def carried_out() -> tuple[object, ...]:
        session = await AsyncSession.open(
            "memory", "s", window=100_000, policy="opencode-1.1.23", summariser=GOOD_ASYNC
        )
        await session.prepare_new([{"role": "user", "content": "Port the feed."}])
        name = await session.request_compaction(auto=False)
        return name, await session.run_compaction(), await session.prune()

    assert asyncio.run(carried_out()) == ("compact-1", "continue", None)


async def GOOD_ASYNC(_: object) -> str:  # noqa: N802 - a value in the shape of a summariser
    """Return a summary."""
    return GOOD


# Titles.


def test_titles_are_given_or_made() -> None:
    """S6.2: a title for the session and for each user message, by code unless one was given."""
    session = Session("memory", "s", window=8_000)
    session.prepare([{"role": "user", "content": "Port the feed."}, {"role": "user", "content": "# Then test it"}])
    assert session.titles() == {"": "Port the feed.", "m0": "Port the feed.", "m1": "Then test it"}

    session.title("The feed")
    session.title("Tests", message_id="m1")
    assert session.titles() == {"": "The feed", "m0": "Port the feed.", "m1": "Tests"}
