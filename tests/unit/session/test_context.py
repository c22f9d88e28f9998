"""What a request is made in, where it was told in this process and where only the log knows."""

import pytest

from infold.core.entries import MessageEntry
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, MessageId, Overhead, Usage
from infold.session.context import NO_EXTRAS, RequestContext, RequestExtras
from infold.session.settings import resolve_settings
from infold.testing.builders import log_of, numbered, replies, user

TOOLS = [{"name": "read", "description": "Reads a file. " * 40}]
OVERHEAD = Overhead(system=300, tools=900)


def context() -> RequestContext:
    """Those of a session that was just opened."""
    return RequestContext(resolve_settings(None, 16_000), lambda: 7)


def answered(*, overhead: Overhead | None = OVERHEAD) -> Log:
    """A session whose first reply kept what was sent beside its request, and whose second did not."""
    first, *rest = numbered([replies("hi"), user("go on"), replies("more")])
    assert isinstance(first, AssistantMessage)
    return log_of((AssistantMessage(first.id, first.parts, overhead=overhead), *rest))


def test_what_was_sent_beside_is_known_from_the_log() -> None:
    """A session opened only to be compacted counts the system prompt and tools that its newest reply kept."""
    assert context().plan_inputs(answered()).overhead_tokens == OVERHEAD.tokens
    assert context().plan_inputs(answered(overhead=None)).overhead_tokens == 0


def test_a_caller_that_says_so_is_believed() -> None:
    """Whoever prepares a request says what goes beside it, also that nothing does."""
    told = context()
    told.extras = NO_EXTRAS
    assert told.plan_inputs(answered()).overhead_tokens == 0
    told.extras = RequestExtras("Be brief.", TOOLS)
    assert 0 < told.plan_inputs(answered()).overhead_tokens != OVERHEAD.tokens


def test_a_reply_keeps_only_what_was_told() -> None:
    """Where no request was made in this process, a reply keeps nothing rather than zero, so that earlier ones still tell."""
    reply = _with_usage(numbered([replies("hi")])[0])
    untold, told = context(), context()
    told.extras = NO_EXTRAS

    assert [kept.overhead for kept in _stamped(untold, reply)] == [None]
    assert [kept.overhead for kept in _stamped(told, reply)] == [Overhead()]


@pytest.mark.parametrize(
    ("edited_from", "trigger"), [(None, 12_920), (0, 12_920), (5_000, 12_920), (13_000, 13_000), (90_000, 13_600)]
)
def test_the_providers_own_edit_comes_first(edited_from: int | None, trigger: int) -> None:
    """B23: nothing is compacted before the provider's own edit applies, for its price neither, as long as the request fits."""
    settings = resolve_settings("claude-sonnet-4-6", 16_000)
    asked = RequestContext(settings, lambda: 7)
    asked.extras = RequestExtras(edited_from_tokens=edited_from)
    inputs = asked.plan_inputs(answered())

    assert (inputs.budget.trigger_tokens, inputs.budget.limit_tokens) == (trigger, 13_600)
    assert (inputs.rates is None) == bool(edited_from)
    assert inputs.edited_from_tokens == edited_from


def test_a_preset_that_prunes_each_time_waits_for_the_provider() -> None:
    """B23: a document's pruning at every request happens only at the trigger where the provider clears results itself."""
    asked = RequestContext(resolve_settings(None, 200_000, "opencode-1.1.57"), lambda: 7)
    assert asked.plan_inputs(answered()).policy.prune.timing == "every-request"
    asked.extras = RequestExtras(edited_from_tokens=50_000)
    assert asked.plan_inputs(answered()).policy.prune.timing == "at-trigger"


def _with_usage(message: Message) -> AssistantMessage:
    assert isinstance(message, AssistantMessage)
    return AssistantMessage(message.id, message.parts, usage=Usage(input=10, output=2))


def test_a_reply_without_usage_keeps_its_window() -> None:
    """Reports know the limit and the overhead of a request that its provider did not count; it has no price."""
    told = context()
    told.extras = RequestExtras("Be brief.", TOOLS)
    [recorded] = _stamped(told, replies("hi"))
    [brought] = _stamped(told, AssistantMessage(MessageId("a"), ()))

    assert recorded.window_tokens == 16_000
    assert recorded.overhead is not None
    assert recorded.overhead.tools > 0
    assert recorded.cost == 0
    assert (brought.window_tokens, brought.overhead) == (0, None)


def _stamped(there: RequestContext, reply: AssistantMessage) -> list[AssistantMessage]:
    entries = [MessageEntry(message) for message in there.complete((reply,), log_of([]))]
    return [entry.message for entry in entries if isinstance(entry.message, AssistantMessage)]


def test_the_size_of_each_tool_is_stored_once() -> None:
    """B8: a reply has the sizes of the tools it was offered, unless an earlier reply of the view has the same."""
    settings = resolve_settings(None, 8_000)
    there, reply = RequestContext(settings, lambda: 0), _with_usage(numbered([replies("hi")])[0])
    there.extras = RequestExtras(tools=[{"name": "read", "input_schema": {}}, {"type": "web_search"}])
    first = _stamped(there, reply)[0]
    log = log_of([first])

    assert first.overhead is not None
    assert [schema.name for schema in first.overhead.schemas] == ["read", "web_search"]
    again = there.complete((reply,), log)[0]
    assert isinstance(again, AssistantMessage)
    assert again.overhead == Overhead(first.overhead.system, first.overhead.tools)
    there.extras = RequestExtras(tools=[{"name": "read", "input_schema": {}}])
    changed = there.complete((reply,), log)[0]
    assert isinstance(changed, AssistantMessage)
    assert changed.overhead is not None
    assert [schema.name for schema in changed.overhead.schemas] == ["read"]
