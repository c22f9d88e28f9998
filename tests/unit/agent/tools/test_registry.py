"""Every tool by its name."""

import msgspec

from infold.agent.permissions import BUILD_RULES, DENY_ALL, NAMES, PLAN_RULES, parse_rules
from infold.agent.tools.registry import TOOLS, select_tools
from infold.agent.tools.tool import tool_spec
from infold.core.tokens import estimate_tokens


def test_an_agent_has_what_it_may_use() -> None:
    """S3.2, S5.5: a tool that is denied outright is not offered; one that is denied in part is."""
    every = {"shell", "read", "write", "edit", "search", "list", "todo", "skill", "recall"}
    partly = (*BUILD_RULES, *parse_rules({"shell": "deny", "shell:git *": "allow", "write:vendor/*": "deny"}))

    assert set(select_tools(BUILD_RULES, str)) == every == set(select_tools(partly, str))
    assert set(select_tools(BUILD_RULES)) == every - {"recall"}
    assert set(select_tools(PLAN_RULES, str)) == every - {"write", "edit"}
    assert select_tools(DENY_ALL, str) == {}


def test_rules_know_every_tool() -> None:
    """Whatever there is can be named by a rule."""
    assert {tool.name for tool in TOOLS} <= set(NAMES)


def test_schemas_are_short() -> None:
    """All schemas together, which go with every request, are within 1,500 tokens."""
    message = (msgspec.json.encode(tool_spec(tool)).decode() for tool in select_tools(BUILD_RULES, str).values())

    assert sum(map(estimate_tokens, message)) < 1_500
