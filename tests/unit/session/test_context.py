"""What a request is made in, where it was told in this process and where only the log knows."""

from infold.core.entries import MessageEntry
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, Overhead, Usage
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


def _with_usage(message: Message) -> AssistantMessage:
    assert isinstance(message, AssistantMessage)
    return AssistantMessage(message.id, message.parts, usage=Usage(input=10, output=2))


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
