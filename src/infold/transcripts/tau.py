"""tau-bench results: a list of dialogues, each with a task and an OpenAI-shaped trajectory.

Each dialogue is a session. The simulated customer's words are the user's. Call ids are reused within a dialogue.
"""

from typing import Any

from infold.core.messages import SystemMessage, text_of
from infold.transcripts.record import Draft, Notes, RecordedSession
from infold.transcripts.source import Head, Source
from infold.transcripts.values import chat_message, items, mapping, string


def recognises(head: Head) -> bool:
    """A list of objects with a task and a trajectory."""
    document = head.document
    return isinstance(document, list) and bool(document) and {"task_id", "traj"} <= mapping(document[0]).keys()


def read(source: Source, notes: Notes) -> list[RecordedSession]:
    """One session per dialogue, named after task and trial."""
    return [_session(mapping(dialogue), notes) for dialogue in items(source.document()) if _has_messages(dialogue)]


def _has_messages(dialogue: Any) -> bool:
    return bool(items(mapping(dialogue).get("traj")))


def _session(dialogue: dict[str, Any], notes: Notes) -> RecordedSession:
    draft = Draft(f"task-{string(dialogue.get('task_id'))}-trial-{string(dialogue.get('trial')) or 0}", notes)
    for value in dialogue["traj"]:
        message = chat_message(mapping(value), draft.new_id())
        if isinstance(message, SystemMessage) and not draft.messages:
            draft.system = text_of(message)
        elif message is not None:
            draft.add(message)
        else:
            notes.skip("a message has no role that is known")
    return draft.session()
