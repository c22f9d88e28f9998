"""Events of an agent run, emitted as they happen, in addition to those of sessions (`core.events`).

`infold run --json` prints them; tags and fields are part of its interface.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from infold.core.messages import Finish, ResultStatus, Usage

RunEnding: TypeAlias = Literal["done", "aborted", "length", "steps", "circling", "filtered", "stop", "failed"]
"""Why a run ended: the work is done; the user aborted it; a reply was cut off and compacting did not help; the step limit was
reached; the same calls were repeated; the provider withheld the reply; a compaction got no summary and the policy stops then; an
error."""


class RunStarted(Struct, frozen=True, tag_field="event", tag="started"):
    """An agent began to work on a prompt, or continued. Always the first event."""

    session_id: str
    model: str
    root: str


class TextReceived(Struct, frozen=True, tag_field="event", tag="text"):
    """A piece of the answer arrived."""

    text: str


class ReasoningReceived(Struct, frozen=True, tag_field="event", tag="reasoning"):
    """A piece of the model's reasoning arrived."""

    text: str


class ToolCalled(Struct, frozen=True, tag_field="event", tag="tool-call"):
    """A tool is about to run; `arguments` is the model's JSON text, `what` a summary in one line."""

    call_id: str
    tool: str
    arguments: str
    what: str


class ToolRefused(Struct, frozen=True, tag_field="event", tag="tool-refused"):
    """A call was not permitted.

    `allow` are the rules that would permit it: the user refused, or could not be asked. Empty if a rule denies it.
    """

    call_id: str
    tool: str
    what: str
    allow: tuple[str, ...]


class ToolAnswered(Struct, frozen=True, tag_field="event", tag="tool-result"):
    """A call has a result."""

    call_id: str
    tool: str
    output: str
    status: ResultStatus
    exit_status: int | None = None
    duration_ms: int = 0


class StepFinished(Struct, frozen=True, tag_field="event", tag="step"):
    """A reply was recorded; `view_tokens` and `limit_tokens` say how full the window was when it was requested."""

    number: int
    finish: Finish | None
    usage: Usage | None
    cost: float
    view_tokens: int
    limit_tokens: int


class RequestRetried(Struct, frozen=True, tag_field="event", tag="retry"):
    """A request failed and is sent again after `wait_seconds`; the text of its reply so far is discarded."""

    problem: str
    wait_seconds: float = 0.0


class SummaryStarted(Struct, frozen=True, tag_field="event", tag="summary-begun"):
    """A model is asked for a summary; the text of an earlier one that was rejected is discarded."""

    session_id: str


class Notice(Struct, frozen=True, tag_field="event", tag="note"):
    """Something the user should know: why a step takes long, which instructions the model is not given."""

    text: str


class SessionTitled(Struct, frozen=True, tag_field="event", tag="title"):
    """The session got a title."""

    session_id: str
    text: str


class RunEnded(Struct, frozen=True, tag_field="event", tag="ended"):
    """The run ended; `text` is that of the last reply, `problem` describes what went wrong, if anything did."""

    ending: RunEnding
    session_id: str
    steps: int
    text: str
    problem: str = ""


AgentEvent: TypeAlias = (
    RunStarted
    | TextReceived
    | ReasoningReceived
    | ToolCalled
    | ToolRefused
    | ToolAnswered
    | StepFinished
    | RequestRetried
    | SummaryStarted
    | Notice
    | SessionTitled
    | RunEnded
)
"""Everything an agent emits."""
