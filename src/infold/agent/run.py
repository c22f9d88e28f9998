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

from infold.agent.agents import TALK, TITLE, agent_named, rules_of
from infold.agent.events import Ended, Happening, Stepped, SummaryBegun, Titled
from infold.agent.loop import Bounds, Loop
from infold.agent.permissions import Consent, Rules, parse_rules, rules_in
from infold.agent.snapshots import Snapshots
from infold.agent.toolbox import Hands
from infold.agent.tools.registry import tools_for
from infold.agent.tools.tool import Wish, Workplace
from infold.agent.trust import brought_by, default_snapshots, home_of, own_skills, project_skills
from infold.catalogue import lookup
from infold.core.events import Event
from infold.core.messages import AssistantMessage, MessageId, TextPart, UserMessage
from infold.core.summary_request import Agent, SummaryRequest, inert
from infold.errors import ModelError
from infold.formats.registry import format_named
from infold.formats.requests import is_truncating_host
from infold.ports import (
    AsyncSummariser,
    Clock,
    FullStore,
    Model,
    ModelRequest,
    Said,
    SessionKey,
    Summariser,
    SummariserOutput,
)
from infold.session.process_settings import plugins_from, settings_from
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.session.titles import title_from_reply, title_from_text
from infold.settings import Settings
from infold.settings.resolve import Permissions
from infold.wiring import summariser_for

PATIENCE_SECONDS = 5.0
"""How long a model may take for a title before code makes one."""


MOST_SHOWN = 4_000
"""Characters of a first message that a title is made of."""


class Namer:
    """Hears what an agent tells, tells it on, and gives the session a title when the first reply is there.

    So early because a listing reads only a session's first entries. Without a `model` code makes the title.
    """

    def __init__(
        self,
        session: Session,
        model: Model | None,
        tell: Callable[[Happening], None],
        *,
        seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._session = session
        self._model = model
        self._tell = tell
        self._seconds = seconds
        self._prompt = ""

    def expect(self, prompt: str) -> None:
        """The next reply answers this, and the session is to be named for it."""
        self._prompt = prompt

    def tell(self, told: Happening) -> None:
        """Hear of something, and tell it on."""
        self._tell(told)
        if isinstance(told, Stepped) and self._prompt:
            prompt, self._prompt = self._prompt, ""
            given = self._asked(self._model, prompt) if self._model else ""
            title = given or title_from_text(prompt)
            if title:
                self._session.title(title)
                self._tell(Titled(self._session.log.session_id, title))
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
        Thread(target=lambda: told.put(title_by(model, prompt)), name="title", daemon=True).start()
        try:
            return told.get(timeout=self._seconds)
        except Empty:
            return ""


def title_by(model: Model, prompt: str) -> str:
    """A title for work that begins with this prompt; empty where the model does not give one, which is no harm."""
    asked = f"<message>\n{inert(prompt[:MOST_SHOWN])}\n</message>"
    items: list[object] = [*format_named(model.format).encode_new(UserMessage(MessageId(""), (TextPart(asked),)))]
    try:
        heard = [
            piece.text for piece in model.stream(ModelRequest(items, TITLE.system_text)) if isinstance(piece, Said)
        ]
    except ModelError:
        return ""
    return title_from_reply("".join(heard))


GO_ON = "Go on."
"""What is said in a person's name who lets an agent go on after its last reply."""


Told: TypeAlias = Happening | Event
"""Everything that is told of an agent at work."""


class Person(Struct, frozen=True):
    """Whom the agent works for: told of everything, and asked where the rules leave something open."""

    tell: Callable[[Told], None]
    consent: Callable[[Wish], Consent]


class Assignment(Struct, frozen=True, kw_only=True):
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


class Work(Struct, frozen=True):
    """One session, where it is kept, and the agent at work on it."""

    session: Session
    model: Model
    loop: Loop
    hands: Hands
    namer: Namer
    store: FullStore
    key: SessionKey

    def run(self, prompt: str, *, system: str = "") -> Ended:
        """Carry out what a person asks; a new session gets a title as soon as it has its first reply."""
        log = self.session.log
        if log.checkpoint is None and not any(placed.is_persons for placed in log.live):
            self.namer.expect(prompt)
        return self.loop.run(prompt, system=system)

    def go_on(self) -> Ended:
        """Work on from where the session stands; where the model had the last word, it is told to in the person's name."""
        live = self.session.log.live
        is_answered = bool(live) and isinstance(live[-1].message, AssistantMessage) and not live[-1].calls
        return self.run(GO_ON) if is_answered else self.loop.go_on()


def begin(
    store: FullStore, key: SessionKey, model: Model, *, place: Assignment, settings: Settings, person: Person
) -> Work:
    """Open a session, new or known, and put an agent to work on it; raises `UsageError` for an agent or a rule that is none."""
    known = lookup(model.ref.full_name).entry
    agent = agent_named(place.agent) if known.calls_tools else TALK
    kept = _kept(settings, model, agent, place, summarises=known.summarises)
    told = replace(kept, on_event=person.tell, summariser=_told_of(kept.summariser, key, person))
    session = Session(store, key.session_id, told, tenant=key.tenant)
    stated = settings.for_session(model=model.ref.full_name, agent=agent.name).permissions
    hands = _hands(session, settings, place, person, rules=_rules(agent, stated, place.allow))
    namer = Namer(session, model if settings.agent.titles and known.calls_tools else None, person.tell)
    bounds = Bounds(
        steps=place.steps or settings.agent.steps,
        output_tokens=place.output_tokens,
        result_tokens=settings.agent.result_tokens,
    )
    loop = Loop(session, model, agent, hands, tell=namer.tell, bounds=bounds)
    return Work(session, model, loop, hands, namer, store, key)


def _told_of(summariser: AsyncSummariser | str | None, key: SessionKey, person: Person) -> Summariser | None:
    """A summariser of whose every answer it is told that it begins, since the next may follow one that was not accepted."""
    asked = summariser_for(summariser)
    if asked is None:
        return None

    def begun(request: SummaryRequest) -> SummariserOutput | Iterable[SummariserOutput]:
        person.tell(SummaryBegun(key.session_id))
        return asked(request)

    return begun


def _rules(agent: Agent, stated: Permissions, allowed: tuple[str, ...]) -> Rules:
    """The agent's rules, then those of settings, then what is allowed for this work; whatever any of them denies stays so."""
    rules = (*rules_of(agent), *rules_in(stated))
    allowing = parse_rules(dict.fromkeys(allowed, "allow"))
    return (*rules, *allowing, *(rule for rule in rules if rule.answer == "deny"))


def _hands(session: Session, settings: Settings, place: Assignment, person: Person, *, rules: Rules) -> Hands:
    recall = partial(session.recall, budget_tokens=settings.recall.budget_tokens) if settings.recall.enabled else None
    root, environ = place.root.resolve(), place.environ
    skills = (*(project_skills(root) if place.is_trusted else ()), own_skills(environ))
    ignored = () if place.is_trusted else brought_by(root)
    return Hands(
        tools_for(rules, recall, session.files),
        Workplace(
            root,
            skills,
            home_of(environ),
            passed=settings.agent.environment,
            is_trusted=place.is_trusted,
            ignored=ignored,
        ),
        rules=rules,
        consent=person.consent,
        clock=place.clock,
        snapshots=Snapshots(root, default_snapshots(environ)) if settings.agent.snapshots else None,
    )


def _kept(settings: Settings, model: Model, agent: Agent, place: Assignment, *, summarises: bool) -> SessionSettings:
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
        recovers=not is_truncating_host(urlsplit(place.address).netloc) if stated.recovers is None else stated.recovers,
        stops=True,
    )
