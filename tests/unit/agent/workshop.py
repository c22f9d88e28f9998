"""An agent with a scripted model, in a folder: everything real but the model, which answers as it is told."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from infold.agent.agents import BUILD
from infold.agent.events import Happening
from infold.agent.loop import Bounds, Loop
from infold.agent.permissions import BUILD_RULES, Consent, Rules, parse_rules
from infold.agent.snapshots import Snapshots
from infold.agent.toolbox import Hands
from infold.agent.tools.registry import tools_for
from infold.agent.tools.tool import Wish, Workplace
from infold.api.session import Session
from infold.api.session_settings import SessionSettings
from infold.core.entries import MessageEntry
from infold.core.messages import Message, SessionId
from infold.core.summary_request import Agent
from infold.formats.registry import OPENAI_CHAT
from infold.ports import FullStore, SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.script import Say, ScriptedAnswer, in_turn
from infold.testing.scripted_model import ScriptedModel

__all__ = [
    "KEY",
    "QUICK",
    "Ticking",
    "call",
    "hands_in",
    "loop_in",
    "messages_in",
    "model_saying",
    "never",
    "session_in",
]

KEY = SessionKey("", SessionId("s"))
QUICK = Bounds(pause_seconds=0)
TRUSTING: Rules = (*BUILD_RULES, *parse_rules({"shell": "allow"}))


class Ticking:
    """A clock that goes on by a second whenever it is asked."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        """The next second."""
        self.now += 1_000
        return self.now


def never(_: Wish) -> Consent:
    """A person who allows nothing."""
    return "no"


def call(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """A call as a script has it."""
    return tool, arguments


def model_saying(*answers: ScriptedAnswer | str, window_tokens: int | None = None) -> ScriptedModel:
    """A model that gives these answers one after the other, the last one for ever."""
    said = [Say(answer) if isinstance(answer, str) else answer for answer in answers]
    return ScriptedModel(in_turn(*said), window_tokens=window_tokens)


def hands_in(
    root: Path,
    *,
    rules: Rules = TRUSTING,
    consent: Callable[[Wish], Consent] = never,
    snapshots: Snapshots | None = None,
    skills: tuple[Path, ...] = (),
) -> Hands:
    """All tools in a folder."""
    place = Workplace(root, skills)
    return Hands(tools_for(rules), place, rules=rules, consent=consent, clock=Ticking(), snapshots=snapshots)


def loop_in(
    root: Path,
    model: ScriptedModel,
    tell: Callable[[Happening], None] = lambda _: None,
    *,
    hands: Hands | None = None,
    bounds: Bounds = QUICK,
    window: int = 64_000,
    store: FullStore | None = None,
    agent: Agent = BUILD,
) -> Loop:
    """An agent at work on session `s` of a store, by default one of its own."""
    session = session_in(MemoryStore() if store is None else store, model, window=window)
    return Loop(session, model, agent, hands or hands_in(root), tell=tell, bounds=bounds)


def session_in(store: FullStore, model: ScriptedModel, *, window: int = 64_000) -> Session:
    """Session `s` of a store, whose summaries the model writes."""
    kept = SessionSettings(window=window, format=OPENAI_CHAT.name, summariser=model.summarise, recall=True)
    return Session(store, KEY.session_id, kept)


def messages_in(store: FullStore) -> Sequence[Message]:
    """All messages of the session, oldest first."""
    entries = [entry for _, entry in store.newest_first(KEY)][::-1]
    return [entry.message for entry in entries if isinstance(entry, MessageEntry)]
