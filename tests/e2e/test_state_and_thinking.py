"""State inside the history, against a server that checks thinking, its own summaries and where system messages stand."""

from typing import Any

import pytest
from tests.support.policies import FOLDS
from tests.support.state import (
    TOOLS,
    Item,
    addition,
    anthropic_state,
    definition,
    misplaced,
    removal,
    system,
)

from infold import Session, SessionSettings, open_store
from infold.core.events import Compacted, Event, Pruned
from infold.core.policy import INFOLD, Policy
from infold.core.summary_request import SummaryRequest
from infold.testing import AnthropicRefusal, AnthropicRules, Say
from infold.testing.script import ScriptedRequest

pytestmark = pytest.mark.slow

MODEL, WINDOW, STEPS = "claude-opus-5-5", 20_000, 120
BETAS = (
    "compact-2026-09-04",
    "inline-tools-2026-09-15",
    "mid-conversation-tool-changes-2026-07-01",
    "mid-conversation-system-clear-at-2026-08-21",
)
DATED: dict[int, Item] = {
    5: system(removal("deploy"), "Deployments are closed."),
    20: system(definition("graft")),
    33: system("Mind the frost.", clear_at="next_user_message"),
    47: system(removal("graft"), removal("edit")),
    61: system(addition("graft"), addition("edit"), "The freeze has ended."),
    90: system(addition("deploy"), output_config={"effort": "low"}),
}


def model(request: ScriptedRequest) -> Say:
    """Think, then call."""
    number = len(request.body["messages"])
    return Say(calls=(("read", {"row": number}),), reasoning=f"Thought {number}. " + "Weigh the last row. " * 4)


def body_of(messages: list[Any], **fields: Any) -> Item:
    """A request of the client."""
    return {"model": MODEL, "max_tokens": 400, "tools": TOOLS, "messages": messages, **fields}


@pytest.mark.parametrize(
    ("native", "policy"), [("auto", INFOLD), ("always", INFOLD), ("never", INFOLD), ("never", FOLDS)]
)
def test_state_is_in_force_whoever_compacts(native: Any, policy: Policy) -> None:
    """B32, B33: over ten folds or prunings, by infold or by the provider, tools and system texts are the client's, and at most
    one request is refused."""
    rules, events = AnthropicRules(model), list[Event]()

    def summarise(request: SummaryRequest) -> Item | str:
        if not request.is_native:
            return "The rows were read one after the other, and each of them is in order."
        asked = {"type": "summarize", "instructions": request.instructions}
        return rules.reply(body_of(list(request.items), compaction=asked), betas=BETAS)

    given: dict[str, Any] = {"native": native, "offers_native": True, "format": "anthropic-messages"}
    given |= {"policy": policy, "summariser": summarise, "on_event": events.append}
    session = Session(open_store("memory"), "s", SessionSettings(model=MODEL, window=WINDOW, **given))
    items: list[Item] = [{"role": "user", "content": "Look after the orchard. Never cut a healthy branch."}]
    for number in range(STEPS):
        ready = session.prepare(items, tools=TOOLS, output_tokens=400)
        try:
            reply = rules.reply(body_of(ready.messages), betas=BETAS)
        except AnthropicRefusal as refusal:
            ready = session.recover(refusal) or ready
            reply = rules.reply(body_of(ready.messages), betas=BETAS)
        assert {*rules.requests[-1].tools} == {*anthropic_state(items).tools}
        assert {*rules.requests[-1].instructions} == {*anthropic_state(items).texts}
        assert anthropic_state(ready.messages).effort == anthropic_state(items).effort
        assert not misplaced(ready.messages)
        session.record(reply)
        items.append({"role": "assistant", "content": reply["content"]})
        calls = [block for block in reply["content"] if block["type"] == "tool_use"]
        printed = f"Row {number}. " + "apples and pears, all of them healthy\n" * 150
        items.append(
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": printed} for call in calls],
            }
        )
        items += [DATED[number]] if number in DATED else []

    compacted = [event for event in events if isinstance(event, Compacted)]
    assert len([event for event in events if isinstance(event, Compacted | Pruned)]) >= 10
    assert any(isinstance(event, Pruned) for event in events) == (native == "never" and policy is INFOLD)
    assert any(event.native for event in compacted) == (native != "never")
    assert len(rules.refusals) <= 1
