"""tau-bench results: a list of dialogues with OpenAI-shaped trajectories; and tau2-bench results: tasks and simulations.

Each dialogue or simulation is a session as the agent saw it; the simulated customer's words are the user's. In tau2 the
customer has tools too. The agent never saw what the customer did with them, so that is a second session, the customer's own,
whose parent is the agent's: there the customer's lines are the replies. Call ids are reused within a dialogue.
"""

from typing import Any

from msgspec.structs import replace

from infold.core.messages import AssistantMessage, Message, MessageId, ModelRef, TextPart, UserMessage
from infold.transcripts.record import Issues, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    add_chat_message,
    chat_message,
    dig,
    items,
    mapping,
    model_ref,
    number,
    openai_usage,
    string,
    time_ms,
    to_json,
)


def recognises(head: Head) -> bool:
    """Return whether a document is a list of objects with a task and a trajectory."""
    document = head.document
    return isinstance(document, list) and bool(document) and {"task_id", "traj"} <= mapping(document[0]).keys()


def read(source: Source) -> list[RecordedSession]:
    """Return one session per dialogue, named after task and trial."""
    sessions: list[RecordedSession] = []
    for dialogue in map(mapping, items(source.document())):
        name = f"task-{string(dialogue.get('task_id'))}-trial-{string(dialogue.get('trial')) or 0}"
        draft = SessionDraft(name, source.issues)
        for value in items(dialogue, "traj"):
            add_chat_message(draft, mapping(value))
        sessions += [draft.session()] if items(dialogue, "traj") else []
    return sessions


def recognises_simulations(head: Head) -> bool:
    """Return whether an object has simulations and tasks."""
    return isinstance(dig(head.document, "simulations"), list) and "info" in mapping(head.document)


def read_simulations(source: Source) -> list[RecordedSession]:
    """Return the agent's session of each simulation, followed by the customer's if the customer used tools."""
    document = mapping(source.document())
    info = mapping(document, "info")
    return [
        session
        for simulation in items(document, "simulations")
        for session in _sessions(mapping(simulation), info, source.issues)
    ]


def _sessions(simulation: dict[str, Any], info: dict[str, Any], issues: Issues) -> list[RecordedSession]:
    name = string(simulation, "id")
    messages = [mapping(message) for message in items(simulation, "messages")]
    agent = SessionDraft(name, issues)
    agent.system = string(info, "environment_info", "policy")
    tools = dig(info, "environment_info", "tool_defs")
    agent.tools = to_json(tools) if tools else ""
    _fill(agent, messages, me="assistant", model=model_ref(dig(info, "agent_info", "llm")))
    customer = SessionDraft(f"{name}-customer", issues, parent=name)
    customer.system = string(info, "user_info", "global_simulation_guidelines")
    if any(message.get("tool_calls") for message in messages if message.get("role") == "user"):
        _fill(customer, messages, me="user", model=model_ref(dig(info, "user_info", "llm")))
    return [draft.session() for draft in (agent, customer) if draft.messages]


def _fill(draft: SessionDraft, messages: list[dict[str, Any]], *, me: str, model: ModelRef | None) -> None:
    draft.model = model
    for value in messages:
        message = _as_seen(value, draft.new_id(), me=me)
        if isinstance(message, AssistantMessage):
            usage, cost = openai_usage(value.get("usage")), number(value, "cost")
            draft.add(replace(message, model=model, usage=usage, cost=cost))
        elif message is not None and message.parts:
            draft.add(message)


def _as_seen(value: dict[str, Any], name: MessageId, *, me: str) -> Message | None:
    """Return the message as one side saw it, `None` if that side did not see it."""
    at = time_ms(value, "timestamp")
    if value.get("role") == "tool":
        seen = string(value, "requestor") or "assistant"
        return chat_message(value, name, created_ms=at) if seen == me else None
    if value.get("role") == me:
        return chat_message({**value, "role": "assistant"}, name, created_ms=at)
    said = string(value, "content")
    return UserMessage(name, (TextPart(said),), at) if said else None
