"""Write an agent's work into its session: prompts, replies and tool results, each with its metadata.

Everything is stored before an event reports it.
"""

from typing import Any

from infold.catalogue import cost_of
from infold.core.messages import (
    AssistantMessage,
    Finish,
    MessageId,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    WorkPath,
    calls_of,
)
from infold.core.summary_request import Agent
from infold.formats.registry import format_named
from infold.ports import Model
from infold.session.context import ReplyMetadata
from infold.session.session import Session
from infold.session.titles import message_title

NO_ID = MessageId("")
"""The id of a message that the session has yet to number."""


class SessionWriter:
    """Write for one agent; `system` is the system text of the last user message, which holds for all steps of its prompt."""

    def __init__(self, session: Session, model: Model, agent: Agent, *, root: str) -> None:
        self.system = ""
        self._session = session
        self._model = model
        self._wire = format_named(model.format)
        self._agent = agent
        self._path = WorkPath(root, root)

    def add_prompt(self, text: str, *, synthetic: bool = False) -> None:
        """Write a user message, with a title if the user wrote it; `synthetic` marks text of the program."""
        part = TextPart(text, synthetic=synthetic)
        message = UserMessage(NO_ID, (part,), agent=self._agent.name, model=self._model.ref, system=self.system)
        self._session.add((message,))
        title = "" if synthetic else message_title(message)
        if title:
            self._session.title(title, message_id=self._session.log.live[-1].message.id)

    def restore_system(self) -> None:
        """Take `system` from the last user message in the session, as after a restart."""
        users = (placed.message for placed in reversed(self._session.log.live) if not placed.is_business)
        newest = next((message for message in users if isinstance(message, UserMessage)), None)
        self.system = "" if newest is None else newest.system

    def add_reply(self, body: dict[str, Any], snapshot: str) -> AssistantMessage:
        """Write a reply whose step began with this snapshot, and return it as it stands in the log."""
        replies = self._wire.decode(self._wire.reply_items(body)).messages
        finish, usage = self._wire.finish(body), self._wire.usage(body)
        marks: tuple[StepStartPart | StepFinishPart, ...] = (StepStartPart(snapshot),)
        if not any(map(calls_of, replies)):
            cost = cost_of(self._model.ref.full_name, usage)
            marks += (StepFinishPart(finish or "other", snapshot, usage or Usage(), cost),)
        stamp = ReplyMetadata(self._agent.name, self._model.ref, self._path, marks)
        if replies:
            self._session.record(body, stamp)
        else:  # some models have nothing more to say after their last call
            empty = AssistantMessage(NO_ID, (), usage=usage, finish=finish)
            self._session.add((stamp.apply(empty, self._session.log),))
        written = self._session.log.live[-1].message
        assert isinstance(written, AssistantMessage)
        return written

    def add_partial_reply(self, text: str, reason: Finish, snapshot: str) -> None:
        """Write the text of a reply that broke off, unless it is blank."""
        if text.strip():
            marks = (StepStartPart(snapshot), StepFinishPart(reason, snapshot))
            stamp = ReplyMetadata(self._agent.name, self._model.ref, self._path, marks)
            partial = AssistantMessage(NO_ID, (TextPart(text),), finish=reason)
            self._session.add((stamp.apply(partial, self._session.log),))

    def add_results(
        self, results: tuple[ToolResultPart, ...], reply: AssistantMessage, snapshot: str | None, *, longest_tokens: int
    ) -> None:
        """Write results of a reply's calls, shown shortened if longer; a `snapshot`, even an empty one, ends the step."""
        parts: tuple[ToolResultPart | StepFinishPart, ...] = results
        if snapshot is not None:
            parts += (StepFinishPart(reply.finish or "other", snapshot, reply.usage or Usage(), reply.cost),)
        self._session.add((ToolMessage(NO_ID, parts),), longest_tokens=longest_tokens)
