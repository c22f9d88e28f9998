"""Agents by name, and what each may do."""

import msgspec
import pytest

from infold.agent.agents import AGENTS, BUILD, DEFAULT_AGENT, PLAN, TALK, TITLE, default_rules, find_agent
from infold.agent.permissions import BUILD_RULES, DENY_ALL, NAMES, PLAN_RULES, parse_rules
from infold.agent.toolbox import TOOLS, select_tools
from infold.agent.tools.recall import make_recall_tool
from infold.agent.tools.tool import tool_spec
from infold.core.summary_request import COMPACTION_AGENT
from infold.core.tokens import estimate_tokens
from infold.errors import UsageError

RECALL = make_recall_tool(str, lambda _: ())


def test_an_agent_is_found_by_its_name() -> None:
    """Those that are for choosing are found."""
    assert [find_agent(name) for name in ("build", "plan", "talk", DEFAULT_AGENT)] == [BUILD, PLAN, TALK, BUILD]


@pytest.mark.parametrize("name", ["", "nobody", COMPACTION_AGENT.name, TITLE.name])
def test_others_cannot_be_chosen(name: str) -> None:
    """S3.2: an unknown or hidden agent is not found, and never listed."""
    with pytest.raises(UsageError, match=r"choose one of build, plan, talk$"):
        find_agent(name)


def test_who_has_no_tools_may_do_nothing() -> None:
    """S3.2: the compaction agent, the one for titles and the one that only talks are denied every tool."""
    without = [agent for agent in AGENTS.values() if not agent.allows_tools]

    assert without == [TALK, COMPACTION_AGENT, TITLE]
    assert [select_tools(default_rules(agent)) for agent in without] == [{}, {}, {}]


def test_prompts_explain_stubs() -> None:
    """B24: agents with tools are instructed to recall hidden text before using it."""
    assert all("recall" in agent.system_text for agent in AGENTS.values() if agent.allows_tools)


def test_an_agent_has_what_it_may_use() -> None:
    """S3.2, S5.5: a tool that is denied outright is not offered; one that is denied in part is."""
    every = {"shell", "read", "write", "edit", "search", "list", "todo", "skill", "recall"}
    partly = (*BUILD_RULES, *parse_rules({"shell": "deny", "shell:git *": "allow", "write:vendor/*": "deny"}))

    assert set(select_tools(BUILD_RULES, RECALL)) == every == set(select_tools(partly, RECALL))
    assert set(select_tools(BUILD_RULES)) == every - {"recall"}
    assert set(select_tools(PLAN_RULES, RECALL)) == every - {"write", "edit"}
    assert select_tools(DENY_ALL, RECALL) == {}


def test_rules_know_every_tool() -> None:
    """Whatever there is can be named by a rule."""
    assert {tool.name for tool in TOOLS} <= set(NAMES)


def test_schemas_are_short() -> None:
    """All schemas together, which go with every request, are within 1,500 tokens."""
    message = (msgspec.json.encode(tool_spec(tool)).decode() for tool in select_tools(BUILD_RULES, RECALL).values())

    assert sum(map(estimate_tokens, message)) < 1_500
