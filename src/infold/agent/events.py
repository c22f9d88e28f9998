"""What an agent tells whoever watches it work, beside what infold itself tells (`core.events`): facts, as they happen."""

from typing import Literal, TypeAlias

from msgspec import Struct

from infold.core.messages import Finish, ResultStatus, Usage

RunEnding: TypeAlias = Literal["done", "aborted", "length", "steps", "circling", "filtered", "stop", "failed"]
"""Why an agent stopped: it was done, a person aborted it, its reply was cut off and compacting did not help, it took as many
steps as it may, it made the same calls over and over, the provider withheld the reply, a compaction got no summary and its policy
stops there, or an error ended it."""


class RunStarted(Struct, frozen=True, tag_field="event", tag="started"):
    """An agent began to work on a prompt, or to go on: in which session, by which model, at which root. Always the first."""

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
    """A tool is about to be run; `arguments` is the JSON text as the model wrote it, `what` the gist of it in one line."""

    call_id: str
    tool: str
    arguments: str
    what: str


class ToolRefused(Struct, frozen=True, tag_field="event", tag="tool-refused"):
    """A call was not permitted: `allow` are the rules that would permit it, empty where a rule denies it for good.

    With rules, somebody was asked and said no, or nobody could be asked.
    """

    call_id: str
    tool: str
    what: str
    allow: tuple[str, ...]


class ToolAnswered(Struct, frozen=True, tag_field="event", tag="tool-result"):
    """A tool has answered."""

    call_id: str
    tool: str
    output: str
    status: ResultStatus
    exit_status: int | None = None
    duration_ms: int = 0


class StepFinished(Struct, frozen=True, tag_field="event", tag="step"):
    """A step has ended: its usage and cost, and how full the window was when it was asked for."""

    number: int
    finish: Finish | None
    usage: Usage | None
    cost: float
    view_tokens: int
    limit_tokens: int


class RequestRetried(Struct, frozen=True, tag_field="event", tag="retry"):
    """A request failed and is sent again, after so long; what its reply had said so far does not count."""

    problem: str
    wait_seconds: float = 0.0


class SummaryStarted(Struct, frozen=True, tag_field="event", tag="summary-begun"):
    """A model is asked for a summary; what it wrote before, for one that was not accepted, does not count."""

    session_id: str


class Notice(Struct, frozen=True, tag_field="event", tag="note"):
    """Something a person should know who wonders: why it takes so long, what of their instructions the model is not given."""

    text: str


class SessionTitled(Struct, frozen=True, tag_field="event", tag="title"):
    """The session has been given a title."""

    session_id: str
    text: str


class RunEnded(Struct, frozen=True, tag_field="event", tag="ended"):
    """The agent stopped; `text` is what the last reply said, `problem` what was wrong, in words, if anything was."""

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
"""Everything an agent tells."""
