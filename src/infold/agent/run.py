"""A session with an agent at work on it: everything a face needs to start one, put together.

Which model, store and clock there are is said by whoever calls; settings say the rest.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from infold.agent.agents import TALK, TITLE, default_rules, find_agent
from infold.agent.events import AgentEvent, RunEnded, SessionTitled, StepFinished, SummaryStarted
from infold.agent.loop import Loop, RunLimits
from infold.agent.permissions import Consent, Rules, parse_rules, rules_from_settings
from infold.agent.snapshots import Snapshots
from infold.agent.toolbox import Toolbox
from infold.agent.tools.registry import select_tools
from infold.agent.tools.tool import ActionRequest, Workspace
from infold.agent.trust import (
    default_snapshot_folder,
    find_project_config,
    home_folder,
    project_skill_folders,
    user_skill_folder,
)
from infold.api.session import Session
from infold.api.session_settings import SessionSettings, plugins_from, settings_from
from infold.catalogue import lookup
from infold.core.events import Event
from infold.core.messages import AssistantMessage, MessageId, TextPart, UserMessage
from infold.core.summary_request import Agent, SummaryRequest, inert
from infold.engine.asking import AsyncSummariser, Summariser, Written
from infold.engine.titles import title_from_reply, title_from_text
from infold.errors import ModelError
from infold.formats.registry import format_named
from infold.formats.requests import truncates
from infold.ports import Clock, FullStore, Model, ModelRequest, Said, SessionKey
from infold.settings import Settings
from infold.settings.resolve import Permissions
from infold.wiring import summariser_for

TITLE_TIMEOUT_SECONDS = 5.0
"""How long a model may take for a title before code makes one."""


MOST_TITLE_CHARACTERS = 4_000
"""Characters of a first message that a title is made of."""


class Namer:
    """Hears what an agent tells, tells it on, and gives the session a title when the first reply is there.

    So early because a listing reads only a session's first entries. Without a `model` code makes the title.
    """

    def __init__(
        self,
        session: Session,
        model: Model | None,
        tell: Callable[[AgentEvent], None],
        *,
        seconds: float = TITLE_TIMEOUT_SECONDS,
    ) -> None:
        self._session = session
        self._model = model
        self._tell = tell
        self._seconds = seconds
        self._prompt = ""

    def expect(self, prompt: str) -> None:
        """The next reply answers this, and the session is to be named for it."""
        self._prompt = prompt

    def tell(self, told: AgentEvent) -> None:
        """Hear of something, and tell it on."""
        self._tell(told)
        if isinstance(told, StepFinished) and self._prompt:
            prompt, self._prompt = self._prompt, ""
            given = self._asked(self._model, prompt) if self._model else ""
            title = given or title_from_text(prompt)
            if title:
                self._session.title(title)
                self._tell(SessionTitled(self._session.log.session_id, title))
            if given:
                self._title_prompt(given)

    def _title_prompt(self, title: str) -> None:
        """Give the prompt the title that the model gave the session for it, in place of its own first words."""
        newest = next((placed for placed in reversed(self._session.log.live) if placed.is_persons), None)
        if newest is not None:
            self._session.title(title, message_id=newest.message.id)

    def _asked(self, model: Model, prompt: str) -> str:
        """What the model calls it, if it says so soon enough: nobody waits long for a name."""
        told: SimpleQueue[str] = SimpleQueue()
        Thread(target=lambda: told.put(request_title(model, prompt)), name="title", daemon=True).start()
        try:
            return told.get(timeout=self._seconds)
        except Empty:
            return ""


def request_title(model: Model, prompt: str) -> str:
    """A title for work that begins with this prompt; empty where the model does not give one, which is no harm."""
    asked = f"<message>\n{inert(prompt[:MOST_TITLE_CHARACTERS])}\n</message>"
    items: list[object] = [*format_named(model.format).encode_new(UserMessage(MessageId(""), (TextPart(asked),)))]
    try:
        heard = [
            piece.text for piece in model.stream(ModelRequest(items, TITLE.system_text)) if isinstance(piece, Said)
        ]
    except ModelError:
        return ""
    return title_from_reply("".join(heard))


CONTINUE_PROMPT = "Go on."
"""What is said in a person's name who lets an agent go on after its last reply."""


RunEvent: TypeAlias = AgentEvent | Event
"""Everything that is told of an agent at work."""


class UserInterface(Struct, frozen=True):
    """Whom the agent works for: told of everything, and asked where the rules leave something open."""

    tell: Callable[[RunEvent], None]
    consent: Callable[[ActionRequest], Consent]


class RunOptions(Struct, frozen=True, kw_only=True):
    """What a face says of the work: where it is done, by whom and within what bounds, over what settings say.

    `allow` are rules that hold for this work alone; `window`, `steps` and `output_tokens` are 0 where settings or the model
    decide. `is_trusted`: the project's own instructions and skills may be used. `address` is where the model is asked, if not at
    its provider's own.
    """

    root: Path
    environ: Mapping[str, str]
    clock: Clock
    agent: str = "build"
    allow: tuple[str, ...] = ()
    window: int = 0
    policy: str = ""
    steps: int = 0
    output_tokens: int = 0
    is_trusted: bool = False
    address: str = ""


class AgentRun(Struct, frozen=True):
    """One session, where it is kept, and the agent at work on it."""

    session: Session
    model: Model
    loop: Loop
    toolbox: Toolbox
    namer: Namer
    store: FullStore
    key: SessionKey

    def run(self, prompt: str, *, system: str = "") -> RunEnded:
        """Carry out what a person asks; a new session gets a title as soon as it has its first reply."""
        log = self.session.log
        if log.checkpoint is None and not any(placed.is_persons for placed in log.live):
            self.namer.expect(prompt)
        return self.loop.run(prompt, system=system)

    def go_on(self) -> RunEnded:
        """Work on from where the session stands; where the model had the last word, it is told to in the person's name."""
        live = self.session.log.live
        is_answered = bool(live) and isinstance(live[-1].message, AssistantMessage) and not live[-1].calls
        return self.run(CONTINUE_PROMPT) if is_answered else self.loop.go_on()


def open_run(
    store: FullStore, key: SessionKey, model: Model, *, place: RunOptions, settings: Settings, person: UserInterface
) -> AgentRun:
    """Open a session, new or known, and put an agent to work on it; raises `UsageError` for an agent or a rule that is none."""
    known = lookup(model.ref.full_name).entry
    agent = find_agent(place.agent) if known.calls_tools else TALK
    kept = _kept(settings, model, agent, place, summarises=known.summarises)
    told = replace(kept, on_event=person.tell, summariser=_told_of(kept.summariser, key, person))
    session = Session(store, key.session_id, told, tenant=key.tenant)
    stated = settings.for_session(model=model.ref.full_name, agent=agent.name).permissions
    toolbox = _toolbox(session, settings, place, person, rules=_rules(agent, stated, place.allow))
    namer = Namer(session, model if settings.agent.titles and known.calls_tools else None, person.tell)
    limits = RunLimits(
        steps=place.steps or settings.agent.steps,
        output_tokens=place.output_tokens,
        result_tokens=settings.agent.result_tokens,
    )
    loop = Loop(session, model, agent, toolbox, tell=namer.tell, limits=limits)
    return AgentRun(session, model, loop, toolbox, namer, store, key)


def _told_of(summariser: AsyncSummariser | str | None, key: SessionKey, person: UserInterface) -> Summariser | None:
    """A summariser of whose every answer it is told that it begins, since the next may follow one that was not accepted."""
    asked = summariser_for(summariser)
    if asked is None:
        return None

    def begun(request: SummaryRequest) -> Written | Iterable[Written]:
        person.tell(SummaryStarted(key.session_id))
        return asked(request)

    return begun


def _rules(agent: Agent, stated: Permissions, allowed: tuple[str, ...]) -> Rules:
    """The agent's rules, then those of settings, then what is allowed for this work; whatever any of them denies stays so."""
    rules = (*default_rules(agent), *rules_from_settings(stated))
    allowing = parse_rules(dict.fromkeys(allowed, "allow"))
    return (*rules, *allowing, *(rule for rule in rules if rule.answer == "deny"))


def _toolbox(
    session: Session, settings: Settings, place: RunOptions, person: UserInterface, *, rules: Rules
) -> Toolbox:
    recall = partial(session.recall, budget_tokens=settings.recall.budget_tokens) if settings.recall.enabled else None
    root, environ = place.root.resolve(), place.environ
    skills = (*(project_skill_folders(root) if place.is_trusted else ()), user_skill_folder(environ))
    ignored = () if place.is_trusted else find_project_config(root)
    return Toolbox(
        select_tools(rules, recall, session.files),
        Workspace(
            root,
            skills,
            home_folder(environ),
            passed=settings.agent.environment,
            is_trusted=place.is_trusted,
            ignored=ignored,
        ),
        rules=rules,
        consent=person.consent,
        clock=place.clock,
        snapshots=Snapshots(root, default_snapshot_folder(environ)) if settings.agent.snapshots else None,
    )


def _kept(settings: Settings, model: Model, agent: Agent, place: RunOptions, *, summarises: bool) -> SessionSettings:
    """How the session is kept: as settings say, with the model that works as the one that summarises, if it can."""
    stated = settings_from(
        settings,
        model=model.ref.full_name,
        agent=agent.name,
        preset=place.policy,
        window=place.window,
        plugins=plugins_from(settings),
    )
    return replace(
        stated,
        summariser=stated.summariser or (model.summarise if summarises else None),
        format=model.format,
        recall=settings.recall.enabled and agent.allows_tools,
        recovers=not truncates(urlsplit(place.address).netloc) if stated.recovers is None else stated.recovers,
        stops=True,
    )
