"""Writes an agent's work into its session: what is put to it, its replies, its tools' results, each with all that is known of it.

Everything is stored before anybody is told of it (B13).
"""

from typing import Any

from infold.api.session import Session
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
from infold.engine.circumstances import Stamp
from infold.engine.titles import message_title
from infold.formats.registry import format_named
from infold.ports import Model

NO_ID = MessageId("")
"""The id of a message that the session has yet to number."""


class SessionWriter:
    """Who writes for one agent; `own` is the system text of the last user message, which holds for all its steps (S3.3)."""

    def __init__(self, session: Session, model: Model, agent: Agent, *, root: str) -> None:
        self.own = ""
        self._session = session
        self._model = model
        self._wire = format_named(model.format)
        self._agent = agent
        self._path = WorkPath(root, root)

    def put(self, text: str, *, synthetic: bool = False) -> None:
        """Write what is put to the agent and its model, a person's words with a title; `synthetic` is what no person said."""
        said = TextPart(text, synthetic=synthetic)
        message = UserMessage(NO_ID, (said,), agent=self._agent.name, model=self._model.ref, system=self.own)
        self._session.add((message,))
        title = "" if synthetic else message_title(message)
        if title:
            self._session.title(title, message_id=self._session.log.live[-1].message.id)

    def recall_own(self) -> None:
        """Take the last user message's own system text from the session, as after a restart."""
        users = (placed.message for placed in reversed(self._session.log.live) if not placed.is_business)
        newest = next((message for message in users if isinstance(message, UserMessage)), None)
        self.own = "" if newest is None else newest.system

    def reply(self, body: dict[str, Any], snapshot: str) -> AssistantMessage:
        """Write a reply that began with that working tree, and give it as it stands in the log."""
        replies = self._wire.decode(self._wire.reply_items(body)).messages
        finish, usage = self._wire.finish(body), self._wire.usage(body)
        marks: tuple[StepStartPart | StepFinishPart, ...] = (StepStartPart(snapshot),)
        if not any(map(calls_of, replies)):
            cost = cost_of(self._model.ref.full_name, usage)
            marks += (_finish(finish, snapshot, usage, cost),)
        if replies:
            self._session.record(body, self._stamp(marks))
        else:  # some models have nothing more to say after their last call
            self._add(AssistantMessage(NO_ID, (), usage=usage, finish=finish), marks)
        written = self._session.log.live[-1].message
        assert isinstance(written, AssistantMessage)
        return written

    def broken_off(self, said: str, why: Finish, snapshot: str) -> None:
        """Write what a reply had said when it was broken off."""
        if said.strip():
            marks = (StepStartPart(snapshot), StepFinishPart(why, snapshot))
            self._add(AssistantMessage(NO_ID, (TextPart(said),), finish=why), marks)

    def results(self, results: tuple[ToolResultPart, ...], *, longest_tokens: int) -> None:
        """Write results of a step that goes on; one longer than that is shown shortened."""
        self._session.add((ToolMessage(NO_ID, results),), longest_tokens=longest_tokens)

    def last_results(
        self, results: tuple[ToolResultPart, ...], reply: AssistantMessage, snapshot: str, *, longest_tokens: int
    ) -> None:
        """Write the results that end the step of a reply, and the working tree they left."""
        mark = _finish(reply.finish, snapshot, reply.usage, reply.cost)
        self._session.add((ToolMessage(NO_ID, (*results, mark)),), longest_tokens=longest_tokens)

    def _add(self, reply: AssistantMessage, marks: tuple[StepStartPart | StepFinishPart, ...]) -> None:
        self._session.add((self._stamp(marks).on(reply, self._session.log),))

    def _stamp(self, marks: tuple[StepStartPart | StepFinishPart, ...]) -> Stamp:
        return Stamp(self._agent.name, self._model.ref, self._path, marks)


def _finish(reason: Finish | None, snapshot: str, usage: Usage | None, cost: float) -> StepFinishPart:
    return StepFinishPart(reason or "other", snapshot, usage or Usage(), cost)
