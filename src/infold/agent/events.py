"""What an agent tells whoever watches it work, beside what infold itself tells (`core.events`): facts, as they happen."""

from typing import Literal, TypeAlias

from msgspec import Struct

from infold.core.messages import Finish, ResultStatus, Usage

__all__ = ["Answered", "Called", "Ended", "Ending", "Happening", "Reasoned", "Retried", "Spoke", "Stepped", "Titled"]

Ending: TypeAlias = Literal["done", "aborted", "length", "steps", "circling", "filtered"]
"""Why an agent stopped: it was done, somebody aborted it, its reply was cut off and compacting did not help, it took as many
steps as it may, it made the same calls over and over, or the provider withheld the reply."""


class Spoke(Struct, frozen=True, tag_field="event", tag="text"):
    """A piece of the answer arrived."""

    text: str


class Reasoned(Struct, frozen=True, tag_field="event", tag="reasoning"):
    """A piece of the model's reasoning arrived."""

    text: str


class Called(Struct, frozen=True, tag_field="event", tag="tool-call"):
    """A tool is about to be run; `arguments` is the JSON text as the model wrote it, `what` the gist of it in one line."""

    call_id: str
    tool: str
    arguments: str
    what: str


class Answered(Struct, frozen=True, tag_field="event", tag="tool-result"):
    """A tool has answered."""

    call_id: str
    tool: str
    output: str
    status: ResultStatus
    exit_status: int | None = None
    duration_ms: int = 0


class Stepped(Struct, frozen=True, tag_field="event", tag="step"):
    """A step has ended: its usage and cost, and how full the window was when it was asked for."""

    number: int
    finish: Finish | None
    usage: Usage | None
    cost: float
    view_tokens: int
    limit_tokens: int


class Retried(Struct, frozen=True, tag_field="event", tag="retry"):
    """A request failed and is sent again; what its reply had said so far does not count."""

    problem: str


class Titled(Struct, frozen=True, tag_field="event", tag="title"):
    """The session has been given a title."""

    session_id: str
    text: str


class Ended(Struct, frozen=True, tag_field="event", tag="ended"):
    """The agent stopped; `text` is what the last reply said."""

    ending: Ending
    session_id: str
    steps: int
    text: str


Happening: TypeAlias = Spoke | Reasoned | Called | Answered | Stepped | Retried | Titled | Ended
"""Everything an agent tells."""
