"""An agent at work under a document's preset, beside a model server that reports whatever usage a scene wants.

The server is real HTTP and is spoken to by the official SDKs. It plays both agents: the one that works, whose replies a scene
gives one by one, and the hidden one that writes summaries.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anthropic
import openai
from google import genai
from google.genai import types
from msgspec import Struct

from infold.agent.agents import BUILD
from infold.agent.loop import Loop, RunLimits
from infold.agent.permissions import parse_rules
from infold.agent.run import RunEvent
from infold.agent.toolbox import Toolbox, select_tools
from infold.agent.tools.tool import ActionRequest, Tool, ToolOutput, Workspace
from infold.core.budget import Window
from infold.core.entries import Checkpoint, Entry, MessageEntry
from infold.core.messages import (
    AssistantMessage,
    Message,
    ModelRef,
    SessionId,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    UserMessage,
    is_compaction_request,
    text_of,
)
from infold.core.policy import Policy
from infold.core.summary_request import COMPACTION_AGENT, Additions
from infold.formats.registry import format_named
from infold.models.anthropic import AnthropicMessages
from infold.models.google import GoogleGemini
from infold.models.openai import OpenAIChat, OpenAIResponses
from infold.plugins.hooks import hook
from infold.ports import CompactionContext, Model, SessionKey
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import tokens_of_text
from infold.testing.script import Say, ScriptedAnswer, ScriptedRequest
from infold.testing.scripted_server import ScriptedServer

__all__ = [
    "GOES_ON",
    "MODELS",
    "NOTES",
    "RULES",
    "Adder",
    "Scene",
    "Script",
    "calls",
    "fetches",
    "is_for_notes",
    "lines_of",
    "playing",
    "says",
    "shown",
    "system_of",
]

KEY = SessionKey("", SessionId("s"))
RULES = "Never touch anything under vendor."
"""What the project's AGENTS.md says."""

NOTES = (
    "The user wants the harbour log read, page by page. All pages so far were read and nothing unusual stood in them."
)
GOES_ON = "The harbour log is read."

Kind = TypeVar("Kind")


class Clock:
    """A clock that goes on by a millisecond whenever it is asked."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def now_ms(self) -> int:
        """The next millisecond."""
        self.now += 1
        return self.now


class Fetch(Struct, frozen=True):
    """How much to fetch."""

    tokens: int


FETCH = Tool(
    "fetch",
    "Fetches pages of the harbour log.",
    Fetch,
    lambda asked, _: ActionRequest("fetch", f"{asked.tokens}"),
    lambda asked, _: ToolOutput(tokens_of_text(asked.tokens)),
)
"""A tool whose output has exactly as many tokens by the documents' rules as it is asked for."""


MODELS: dict[str, Callable[[str], Model]] = {
    "anthropic-messages": lambda url: AnthropicMessages(
        ModelRef("anthropic", "claude-opus-4-6"), anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
    ),
    "openai-chat": lambda url: OpenAIChat(
        ModelRef("openai", "gpt-4o"), openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    ),
    "openai-responses": lambda url: OpenAIResponses(
        ModelRef("openai", "gpt-4o"), openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    ),
    "gemini": lambda url: GoogleGemini(
        ModelRef("google", "gemini-2.5-pro"),
        genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url)),
    ),
}
"""A model behind each wire format, at the server's address."""


class Adder:
    """A plugin that adds to what the summariser is asked, or replaces it, and notes what it is told."""

    def __init__(self, *contexts: str, replacement: str = "") -> None:
        self.answer = Additions(contexts=contexts, replacement=replacement)
        self.occasions: list[CompactionContext] = []
        self.committed: list[Checkpoint] = []

    @hook("experimental.session.compacting")
    def adds(self, occasion: CompactionContext) -> Additions:
        """Hear of a compaction, by the name that OpenCode's plugins know."""
        self.occasions.append(occasion)
        return self.answer

    @hook("compaction.after")
    def hears(self, session_id: SessionId, checkpoint: Checkpoint) -> None:
        """Hear that it was committed."""
        assert session_id == KEY.session_id
        self.committed.append(checkpoint)


class Script:
    """What the server answers: to the agent these replies in turn and the last one for ever, to requests for a summary notes."""

    def __init__(self, *replies: ScriptedAnswer) -> None:
        self.replies = deque(replies)
        self.notes: deque[ScriptedAnswer] = deque((Say(NOTES),))
        self.seen: list[tuple[Entry, ...]] = []
        self.look: Callable[[], tuple[Entry, ...]] = tuple

    def then(self, *replies: ScriptedAnswer) -> None:
        """Answer with these from now on."""
        self.replies = deque(replies)

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """The next reply; what stands in the store when a summary is asked for is kept for whoever wants to know."""
        if is_for_notes(request):
            self.seen.append(self.look())
        waiting = self.notes if is_for_notes(request) else self.replies
        return waiting.popleft() if len(waiting) > 1 else waiting[0]


def says(text: str = GOES_ON, usage: Usage | None = None, **more: Any) -> Say:
    """A reply in words."""
    return Say(text, usage=usage, **more)


def calls(tool: str, usage: Usage | None = None, **arguments: Any) -> Say:
    """A reply that calls a tool."""
    return Say(calls=((tool, arguments),), usage=usage)


def fetches(tokens: int, usage: Usage | None = None) -> Say:
    """A reply that fetches that much."""
    return calls("fetch", usage, tokens=tokens)


class Scene:
    """An agent at work, the server it talks to, and everything that was told."""

    def __init__(self, folder: Path, server: ScriptedServer, script: Script, model: Model) -> None:
        self.script = script
        self.told: list[RunEvent] = []
        self.watch: Callable[[RunEvent], None] = lambda _: None
        self.model = self.summariser = model
        self.folder = folder
        self._server = server
        self._clock = Clock()
        script.look = self.entries

    def work(self, store: SqliteStore, policy: str | Policy, window: Window, *plugins: object) -> Loop:
        """An agent for the session, opened as a new process would."""
        settings = SessionSettings(
            model=f"{self.model.ref.provider}/{self.model.ref.id}",
            window=window,
            policy=policy,
            summariser=self.summariser.summarise,
            format=self.model.format,
            plugins=plugins,
            on_event=self.tell,
            now_ms=self._clock.now_ms,
            stops=True,
        )
        self.session = Session(store, KEY.session_id, settings)
        rules = parse_rules({"*": "allow"})
        toolbox = Toolbox(
            {**select_tools(rules), FETCH.name: FETCH},
            Workspace(self.folder),
            rules=rules,
            consent=lambda _: "no",
            clock=self._clock,
        )
        # Whole results, so that they have the size a scene gives them.
        limits = RunLimits(result_tokens=100_000, result_share=1.0, pause_seconds=0.0)
        return Loop(self.session, self.model, BUILD, toolbox, emit=self.tell, limits=limits)

    def summarises_with(self, wire: str) -> None:
        """Have another model write the summaries of agents that begin from now on."""
        self.summariser = MODELS[wire](self._server.url)

    def tell(self, told: RunEvent) -> None:
        """Be told of something."""
        self.told.append(told)
        self.watch(told)

    def heard(self, kind: type[Kind]) -> list[Kind]:
        """What was told of this kind."""
        return [one for one in self.told if isinstance(one, kind)]

    @property
    def requests(self) -> tuple[ScriptedRequest, ...]:
        """All that was asked."""
        return self._server.requests

    @property
    def asked_for_notes(self) -> tuple[ScriptedRequest, ...]:
        """The requests for a summary."""
        return tuple(filter(is_for_notes, self.requests))

    def entries(self) -> tuple[Entry, ...]:
        """The session as another process reads it, oldest first."""
        with closing(SqliteStore(self.folder / "sessions.sqlite3")) as store:
            return tuple(entry for _, entry in store.newest_first(KEY))[::-1]

    def durable_requests(self) -> list[UserMessage]:
        """The requests for a compaction in the store."""
        messages = [entry.message for entry in self.entries() if isinstance(entry, MessageEntry)]
        return [one for one in messages if isinstance(one, UserMessage) and is_compaction_request(one)]

    def checkpoints(self) -> list[Checkpoint]:
        """The compactions in the store."""
        return [entry for entry in self.entries() if isinstance(entry, Checkpoint)]


@contextmanager
def playing(
    folder: Path, script: Script, policy: str | Policy, window: Window, *plugins: object, wire: str = "openai-chat"
) -> Iterator[tuple[Loop, Scene]]:
    """An agent in a folder, and the scene it works in."""
    (folder / "AGENTS.md").write_text(RULES)
    with ScriptedServer(script) as server, closing(SqliteStore(folder / "sessions.sqlite3")) as store:
        scene = Scene(folder, server, script, MODELS[wire](server.url))
        yield scene.work(store, policy, window, *plugins), scene


def is_for_notes(request: ScriptedRequest) -> bool:
    """Whether the hidden agent is asked."""
    return system_of(request) == COMPACTION_AGENT.system_text


def system_of(request: ScriptedRequest) -> str:
    """A request's system prompt, beside the messages or at their head."""
    inside = (text_of(message) for message in request.messages if isinstance(message, SystemMessage))
    return format_named(request.format).system_text(request.body) or "\n\n".join(inside)


def shown(request: ScriptedRequest) -> list[str]:
    """What a request's messages say, a line each: words with their role, a call by its tool, a result by its size in tokens."""
    return list(lines_of(request.messages))


def lines_of(messages: Iterable[Message]) -> Iterator[str]:
    """Messages in short; a result that is no fetched page stands as it is."""
    for message in messages:
        for part in message.parts:
            match part:
                case TextPart() if not isinstance(message, SystemMessage):
                    yield f"{'assistant' if isinstance(message, AssistantMessage) else 'user'}: {part.text}"
                case ToolCallPart():
                    yield f"calls {part.tool}"
                case ToolResultPart():
                    is_page = part.output.startswith(tokens_of_text(1))
                    yield f"gets {len(part.output) // 4}" if is_page else f"gets {part.output}"
                case _:
                    pass
