"""Build an agent with a scripted model in a folder: everything is real but the model."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from infold.agent.agents import BUILD
from infold.agent.events import AgentEvent
from infold.agent.loop import Loop, RunLimits
from infold.agent.permissions import BUILD_RULES, Consent, Rules, parse_rules
from infold.agent.snapshots import Snapshots
from infold.agent.toolbox import Toolbox, select_tools
from infold.agent.tools.tool import ActionRequest, Workspace
from infold.core.entries import MessageEntry
from infold.core.messages import Message, SessionId
from infold.core.summary_request import Agent
from infold.formats.registry import OPENAI_CHAT
from infold.ports import FullStore, SessionKey
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.testing.script import Say, ScriptedAnswer, in_turn
from infold.testing.scripted_model import ScriptedModel

KEY = SessionKey("", SessionId("s"))
QUICK = RunLimits(pause_seconds=0)
TRUSTING: Rules = (*BUILD_RULES, *parse_rules({"shell": "allow"}))


class Ticking:
    """A clock that advances by a second with each call."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        """Return the next second."""
        self.now += 1_000
        return self.now


def never(_: ActionRequest) -> Consent:
    """Refuse every action."""
    return "no"


def call(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """Return a call for a scripted answer."""
    return tool, arguments


def model_saying(*answers: ScriptedAnswer | str, window_tokens: int | None = None) -> ScriptedModel:
    """Return a model that gives these answers in turn, and repeats the last."""
    said = [Say(answer) if isinstance(answer, str) else answer for answer in answers]
    return ScriptedModel(in_turn(*said), window_tokens=window_tokens)


def toolbox_in(
    root: Path,
    *,
    rules: Rules = TRUSTING,
    consent: Callable[[ActionRequest], Consent] = never,
    snapshots: Snapshots | None = None,
    skills: tuple[Path, ...] = (),
) -> Toolbox:
    """Return all tools for a folder."""
    place = Workspace(root, skills)
    return Toolbox(select_tools(rules), place, rules=rules, consent=consent, clock=Ticking(), snapshots=snapshots)


def loop_in(
    root: Path,
    model: ScriptedModel,
    emit: Callable[[AgentEvent], None] = lambda _: None,
    *,
    toolbox: Toolbox | None = None,
    limits: RunLimits = QUICK,
    window: int = 64_000,
    store: FullStore | None = None,
    agent: Agent = BUILD,
) -> Loop:
    """Return the loop of an agent on session `s` of a store, by default a new one."""
    session = session_in(MemoryStore() if store is None else store, model, window=window)
    return Loop(session, model, agent, toolbox or toolbox_in(root), emit=emit, limits=limits)


def session_in(store: FullStore, model: ScriptedModel, *, window: int = 64_000) -> Session:
    """Return session `s` of a store; the model writes its summaries."""
    kept = SessionSettings(window=window, format=OPENAI_CHAT.name, summariser=model.summarise, recall=True)
    return Session(store, KEY.session_id, kept)


def messages_in(store: FullStore) -> Sequence[Message]:
    """Return all messages of the session, oldest first."""
    entries = [entry for _, entry in store.newest_first(KEY)][::-1]
    return [entry.message for entry in entries if isinstance(entry, MessageEntry)]
