"""Law: whatever is folded, the state that a history sets is the state that its view sets, where the API takes it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.state import (
    TOOLS,
    Item,
    addition,
    anthropic_state,
    definition,
    environment,
    environment_in,
    misplaced,
    removal,
    system,
)
from tests.support.strategies import short_texts

from infold.core.budget import Window, budget_for
from infold.core.compact import compact
from infold.core.entries import MessageEntry
from infold.core.gauge import PlanInputs
from infold.core.messages import AssistantMessage, text_of
from infold.core.policy import INFOLD, PRESETS
from infold.core.view import view
from infold.formats import anthropic
from infold.testing.builders import log_of, user

NAMES = st.sampled_from([tool["name"] for tool in TOOLS])
INLINE = st.sampled_from(("graft", "prune"))
LONG = st.sampled_from(("", "The press is cold and the cellar is full. " * 40))

situations = st.builds(
    lambda policy, window: PlanInputs(policy, budget_for(Window(window), policy)),
    st.sampled_from([PRESETS[name] for name in ("infold", "opencode-1.18", "proactive")]),
    st.sampled_from((1_500, 3_000, 6_000)),
)


@st.composite
def changes(draw: st.DrawFn, defined: set[str]) -> Item:
    """A system message that a client may send, given the tools that it has defined inside the history."""
    blocks: list[Item | str] = []
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(("addition", "removal", "definition", "reference")))
        if kind == "definition":
            name = draw(INLINE)
            defined.add(name)
            blocks.append(definition(name, draw(st.integers(1, 3))))
        else:
            name = draw(st.sampled_from(sorted(defined))) if kind == "reference" and defined else draw(NAMES)
            blocks.append(addition(name) if draw(st.booleans()) else removal(name))
    if draw(st.booleans()):
        blocks.append(draw(st.sampled_from(("Be brief.", "Answer in verse.", "The freeze has begun."))))
    effort = draw(st.sampled_from(("", "low", "high")))
    fields: dict[str, Any] = {"output_config": {"effort": effort}} if effort or not blocks else {}
    if draw(st.integers(0, 3)) == 0 and blocks and all(isinstance(block, str) for block in blocks):
        fields["clear_at"] = "next_user_message"
    if not blocks:
        return {"role": "system", "content": [], "output_config": {"effort": effort or "low"}}
    return system(*blocks, **fields)


@st.composite
def stateful_histories(draw: st.DrawFn) -> list[Item]:
    """A session with system messages wherever the API takes them."""
    defined: set[str] = set()
    items: list[Item] = [{"role": "user", "content": "Look after the orchard."}]
    for number in range(draw(st.integers(1, 14))):
        if draw(st.integers(0, 2)) == 0:
            items.append(draw(changes(defined)))
        spoken = draw(short_texts) + draw(LONG)
        if draw(st.booleans()):
            call = {"type": "tool_use", "id": f"c{number}", "name": "look", "input": {}}
            items.append({"role": "assistant", "content": [call]})
            items.append(
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": spoken}]}
            )
        else:
            items += [{"role": "assistant", "content": "Done. "}, {"role": "user", "content": spoken}]
    if draw(st.booleans()):
        items.append(draw(changes(defined)))
    return items


@given(stateful_histories(), situations)
def test_a_view_has_the_state_of_its_history(items: list[Item], inputs: PlanInputs) -> None:
    """B33: tools, texts of system messages and effort are the same before each request, after any number of folds."""
    decoded = anthropic.decode(items)
    log = log_of((), policy=inputs.policy)
    for number, message in enumerate(decoded.messages):
        if isinstance(message, AssistantMessage):
            log = compact(log, inputs).log
            sent: Any = anthropic.encode(view(log, inputs.policy.summary, brought=True), decoded)
            assert anthropic_state(sent) == anthropic_state(items[:number])
            assert not misplaced(sent)
        log = log.append(MessageEntry(message))


fields = st.dictionaries(
    st.sampled_from(("cwd", "shell", "sandbox_mode")), st.sampled_from(("a", "b", "c")), min_size=1
)


@given(st.lists(st.tuples(fields, LONG), min_size=1, max_size=12))
def test_the_newest_value_of_each_field_is_in_view(described: list[tuple[dict[str, str], str]]) -> None:
    """B33: however often an agent describes its environment, whole or in part, each field has its newest value."""
    inputs = PlanInputs(INFOLD, budget_for(Window(1_500), INFOLD))
    items: list[Item] = []
    log = log_of((user("go"),), policy=INFOLD)
    for place, (values, talk) in enumerate(described):
        items += [{"role": "user", "content": environment(**values)}, {"role": "assistant", "content": f"Done. {talk}"}]
        for message in anthropic.decode(items).messages[-2:]:
            log = log.append(MessageEntry(message))
        log = compact(log, inputs).log
        shown = [text_of(message) for message in view(log, INFOLD.summary)]
        assert environment_in(shown) == environment_in(str(item["content"]) for item in items), place
