"""What a session and `fit` say about kept steps, and requests that offer no tools."""

from typing import Any

import msgspec
import pytest
from tests.support.agent_wire import KINDS, ConverseProvider
from tests.support.policies import FOLDS
from tests.support.working_agent import Agent, Plan

from infold import Ready, SessionSettings, UsageError, fit
from infold.core.entries import messages_of
from infold.core.events import Compacted
from infold.core.messages import KEPT_ID
from infold.proxy.sessions import SessionPool
from infold.stores.memory import MemoryStore

from ..proxy.talks import answer, no_model, record, request_of, sent_by  # noqa: TID252 - `tests` is no package to name

ROOMY = FOLDS.with_memory(0.3)
WORK = ("says and runs", "reads", "edits", "ends")


def worked(name: str = "openai-chat") -> Agent:
    """An agent that has worked until its second fold."""
    agent = Agent(name, Plan(WORK))
    for _ in agent.steps(folds=2):
        pass
    return agent


def prepared(agent: Agent, **extras: Any) -> Ready:
    return agent.session.prepare(agent.items, **extras)


def test_a_session_says_how_many_steps_it_shows() -> None:
    """B14, B52: the session's report counts them, and what fills the window has them with the summary."""
    agent = worked()
    kept, explained = len(agent.session.log.steps), agent.session.explain()
    contents = prepared(agent).report.after

    assert kept > 2
    assert f"folded; {kept} earlier steps kept" in explained
    assert contents["summary"] == pytest.approx(agent.session.log.checkpoint_size.measure, rel=0.02)


def test_an_event_says_how_many_steps_stay() -> None:
    """B14, B52: what was done for a request names them, as a person reads it."""
    agent = worked()
    agent.items += [item for number in range(50, 58) for item in turn(agent, number)]
    ready = prepared(agent)
    (event,) = (event for event in ready.events if isinstance(event, Compacted))

    assert event.kept_steps == len(agent.session.log.steps) > 0
    assert f"; {event.kept_steps} earlier steps kept" in ready.explain()


def turn(agent: Agent, number: int) -> list[Any]:
    """The items of a step that the agent brings without having asked infold."""
    work = KINDS["runs"](number)
    body = agent.provider.reply(number, work, agent.items)
    return [*agent.provider.wire.reply_items(body), *agent.provider.results(number, work)]


def test_kept_steps_have_no_source() -> None:
    """B25, B52: a kept step is a copy: it has no source, all that stays is the caller's own object."""
    agent = worked()
    ready = prepared(agent)
    own = [place for place, source in enumerate(ready.sources) if source is None]

    assert own == list(range(len(own)))
    assert len(own) == 1 + len(messages_of(agent.session.log.steps))
    assert all(
        ready.messages[place] is agent.items[source] for place, source in enumerate(ready.sources) if source is not None
    )


def test_fit_does_not_list_as_left_out_what_it_keeps() -> None:
    """B14, B52: calls and words of kept steps are sent; their results are not."""
    fitted = fit(worked().items, window=6_000, policy=ROOMY, format="openai-chat")
    report = fitted.report
    kept = {message.id for message in report.sent if message.id.startswith(KEPT_ID)}
    shown = {int(one.removeprefix(KEPT_ID).partition(".")[0]) for one in kept}
    left = {(int(part.handle.partition(".")[0]), part.what) for part in report.left}

    assert shown
    assert not {(number, what) for number, what in left if number in shown and what.endswith("call")}
    assert {number + 1 for number in shown if (number + 1, "bash result") in left}


def test_fit_keeps_no_calls_without_tools() -> None:
    """B52: an empty list of tools says that the request offers none; without the argument it is not known."""
    items = worked().items
    without = fit(items, window=6_000, policy=ROOMY, format="openai-chat", tools=[])
    unknown = fit(items, window=6_000, policy=ROOMY, format="openai-chat")

    assert not any(message.id.startswith(KEPT_ID) for message in without.report.sent)
    assert any(message.id.startswith(KEPT_ID) for message in unknown.report.sent)


def test_a_request_without_tools_is_accepted() -> None:
    """B52: Converse refuses calls without tools; a request for a last answer has none of those that were kept, and neither
    have the requests after it, until the next fold or `undo`."""
    agent = worked("bedrock-converse")
    provider = ConverseProvider()
    agent.items.append(provider.user("Write a report."))
    prepared(agent)
    agent.session.compact(up_to=agent.session.log.live[-1].sequence)
    assert agent.session.log.steps
    assert "toolConfig" in provider.refusal(prepared(agent).messages, tools=False)

    bare = prepared(agent, tools=())

    assert provider.refusal(bare.messages, tools=False) == ""
    assert "rewrote the checkpoint" in bare.explain()
    assert prepared(agent, tools=[{"toolSpec": {"name": "bash"}}]).messages == bare.messages
    agent.session.undo()
    assert agent.session.log.steps


def test_a_client_that_offers_no_tools_gets_no_kept_calls() -> None:
    """B52: the gateway and `wrap` see what a request offers; old fields that offer functions count as tools."""
    pool = SessionPool(MemoryStore(), SessionSettings(window=6_000, policy=ROOMY))
    named = {"x-infold-session": "s"}
    items: list[Any] = [{"role": "user", "content": "Port it."}]
    for number in range(12):
        managed = pool.begin(request_of(items, headers=named), no_model)
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "bash", "arguments": f'{{"command": "make {number}"}}'},
        }
        reply = answer("", calls=(call,))
        record(managed, msgspec.json.encode(reply))
        items += [
            reply["choices"][0]["message"],
            {"role": "tool", "tool_call_id": f"c{number}", "content": "all went well\n" * 150},
        ]
    session = managed.session

    assert session.log.steps
    assert "tool_calls" in str(
        sent_by(pool.begin(request_of(items, headers=named, tools=None, functions=[{}]), no_model))[1]
    )
    assert session.log.steps
    pool.begin(request_of(items, headers=named, tools=None), no_model)
    assert not session.log.steps


def test_nothing_to_rewrite_is_no_event() -> None:
    """B52: a request without tools in a session without kept steps changes nothing."""
    agent = Agent("openai-chat", Plan(WORK))
    assert not prepared(agent, tools=[]).events
    with pytest.raises(UsageError):
        agent.session.undo()
