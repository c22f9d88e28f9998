"""Open a session with an agent working on it: everything that a command needs to start one.

The caller chooses model, store and clock; settings choose the rest.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
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
from infold.agent.toolbox import Toolbox, select_tools
from infold.agent.tools.recall import make_compact_tool, make_recall_tool
from infold.agent.tools.tool import ActionRequest
from infold.agent.trust import default_snapshot_folder, make_workspace
from infold.catalogue import Assumed, lookup
from infold.catalogue.served import ServedModel, ServedWindow, ServedWindows, is_paid
from infold.core.events import Event, WindowFound
from infold.core.messages import AssistantMessage, MessageId, TextPart, UserMessage
from infold.core.policy import PriceUse
from infold.core.summary_request import Agent, SummaryRequest, escape_record
from infold.errors import ModelError
from infold.formats.registry import format_named
from infold.formats.requests import is_truncating_host
from infold.ports import (
    Clock,
    FullStore,
    Model,
    ModelRequest,
    Said,
    SessionKey,
    SummariserOutput,
)
from infold.reports.stored_log import recorded_model
from infold.session.process_settings import plugins_from, settings_from
from infold.session.session import Session
from infold.session.settings import SessionSettings, account_of
from infold.session.titles import title_from_reply, title_from_text
from infold.settings import Settings
from infold.wiring import summariser_for

CONTINUE_PROMPT = "Go on."
"""The user's prompt if a run continues after the model's last reply."""

RunEvent: TypeAlias = AgentEvent | Event
"""An event of an agent or of its session."""


class UserInterface(Struct, frozen=True):
    """The user's side of a run: it gets every event, and decides where the rules say "ask"."""

    emit: Callable[[RunEvent], None]
    consent: Callable[[ActionRequest], Consent]


class RunOptions(Struct, frozen=True, kw_only=True):
    """Options of a run that win over settings.

    `allow` are rules for this run alone; `window`, `working_window`, `steps` and `output_tokens` are 0 to leave them to settings
    or the model.
    `priced` is whether to fold for price, `None` for the settings' own.
    `is_trusted`: the project's own instructions and skills may be used. `address` is the model's URL if not its provider's own.
    """

    root: Path
    environ: Mapping[str, str]
    clock: Clock
    agent: str = "build"
    allow: tuple[str, ...] = ()
    window: int = 0
    working_window: int = 0
    policy: str = ""
    priced: PriceUse | None = None
    steps: int = 0
    output_tokens: int = 0
    is_trusted: bool = False
    address: str = ""


class AgentRun(Struct, frozen=True):
    """A session, its store, and the agent working on it; `untitled` holds the first prompt of a session without a title."""

    session: Session
    model: Model
    loop: Loop
    toolbox: Toolbox
    store: FullStore
    key: SessionKey
    untitled: list[str]

    def run(self, prompt: str, *, system: str = "") -> RunEnded:
        """Work on a prompt; a new session gets a title as soon as it has its first reply."""
        log = self.session.log
        if log.checkpoint is None and not any(placed.is_persons for placed in log.live):
            self.untitled[:] = [prompt]
        return self.loop.run(prompt, system=system)

    def go_on(self) -> RunEnded:
        """Continue from where the session stands; if it ends with a reply, add a prompt to continue."""
        live = self.session.log.live
        is_answered = bool(live) and isinstance(live[-1].message, AssistantMessage) and not live[-1].calls
        return self.run(CONTINUE_PROMPT) if is_answered else self.loop.go_on()


def open_run(
    store: FullStore, key: SessionKey, model: Model, *, options: RunOptions, settings: Settings, ui: UserInterface
) -> AgentRun:
    """Open a session, new or stored, for an agent; raise `UsageError` for an unknown agent or a wrong rule."""
    known = lookup(model.ref.full_name).entry
    agent = find_agent(options.agent) if known.calls_tools else TALK
    stated = _session_settings(settings, model, agent, options, summarises=known.summarises)

    def summarise(request: SummaryRequest) -> SummariserOutput | Iterable[SummariserOutput]:
        """Announce a request for a summary and carry it out."""
        assert summariser is not None
        ui.emit(SummaryStarted(key.session_id))
        return summariser(loop.with_prefix(request) if request.shares_prefix else request)

    summariser = summariser_for(stated.summariser)
    stated = replace(stated, on_event=ui.emit, summariser=None if summariser is None else summarise)
    found = _served_window(model, options.address) if stated.window is None else None
    if found is not None:
        stated = replace(stated, window=found.tokens)
        ui.emit(WindowFound(key.session_id, model.ref.full_name, found.tokens, found.source))
    elif stated.window is None and isinstance(lookup(model.ref.full_name), Assumed):
        recorded = recorded_model(store, key)  # a window that was stated before is better than a guess
        stated = replace(stated, window=(recorded.window_tokens or None) if recorded.ref == model.ref else None)
    session = Session(store, key.session_id, stated, tenant=key.tenant)
    permissions = settings.for_session(model=model.ref.full_name, agent=agent.name).permissions
    rules = (*default_rules(agent), *rules_from_settings(permissions))
    allowing = parse_rules(dict.fromkeys(options.allow, "allow"))
    denials = (rule for rule in rules if rule.permission == "deny")  # final, so they come last again
    toolbox = _toolbox(session, settings, options, ui, rules=(*rules, *allowing, *denials))
    limits = RunLimits(
        steps=options.steps or settings.agent.steps,
        output_tokens=options.output_tokens,
        result_tokens=settings.agent.result_tokens,
    )
    title_model = model if settings.agent.titles and known.calls_tools else None
    untitled: list[str] = []

    def emit(event: AgentEvent) -> None:
        ui.emit(event)
        if isinstance(event, StepFinished) and untitled:
            give_title(session, untitled.pop(), title_model, ui.emit)

    loop = Loop(session, model, agent, toolbox, emit=emit, limits=limits)
    return AgentRun(session, model, loop, toolbox, store, key, untitled)


def _session_settings(
    settings: Settings, model: Model, agent: Agent, options: RunOptions, *, summarises: bool
) -> SessionSettings:
    """Return the session's settings; the agent's model writes the summaries, if it can and settings name no other."""
    stated = settings_from(
        settings,
        model=model.ref.full_name,
        agent=agent.name,
        preset=options.policy,
        window=options.window,
        plugins=plugins_from(settings),
    )
    stated = replace(stated, priced=options.priced)
    host = urlsplit(options.address).netloc
    credential = getattr(model, "credential", "")
    return replace(
        stated.for_server(is_paid=is_paid(host, {"authorization": f"Bearer {credential}"})),
        working_window=options.working_window or None,
        summariser=stated.summariser or (model.summarise if summarises else None),
        format=model.format,
        shares_prefix=stated.summariser is None and summarises,
        offers_native=stated.summariser is None and getattr(model, "offers_native", False),
        recall=settings.recall.enabled and agent.allows_tools,
        compact_tool=settings.agent.compact_tool and agent.allows_tools,
        account=account_of(credential),
        recovers=not is_truncating_host(host) if stated.recovers is None else stated.recovers,
        stops=True,
    )


def _served_window(model: Model, address: str) -> ServedWindow | None:
    """Return the window that the server at this address reports; `None` if it is the provider's own, or reports none."""
    if not address or not isinstance(model, ServedModel):
        return None
    return ServedWindows().find(address, model.ref.id, model.ask_server)


def _toolbox(session: Session, settings: Settings, options: RunOptions, ui: UserInterface, *, rules: Rules) -> Toolbox:
    recall = make_recall_tool(partial(session.recall, budget_tokens=settings.recall.budget_tokens), session.files)
    root, environ = options.root.resolve(), options.environ
    return Toolbox(
        select_tools(
            rules,
            *((recall,) if settings.recall.enabled else ()),
            *((make_compact_tool(session.answer_compact_tool),) if settings.agent.compact_tool else ()),
        ),
        make_workspace(root, environ, is_trusted=options.is_trusted, passed=settings.agent.environment),
        rules=rules,
        consent=ui.consent,
        clock=options.clock,
        snapshots=Snapshots(root, default_snapshot_folder(environ)) if settings.agent.snapshots else None,
    )


# Titles.

TITLE_TIMEOUT_SECONDS = 5.0
"""How long a model may take for a title before code makes one."""

MOST_TITLE_CHARACTERS = 4_000
"""Characters of the first prompt that a model is sent for a title."""


def give_title(
    session: Session,
    prompt: str,
    model: Model | None,
    emit: Callable[[AgentEvent], None],
    *,
    timeout_seconds: float = TITLE_TIMEOUT_SECONDS,
) -> None:
    """Give the session a title for its first prompt: by the model if it answers in time, else by code.

    A title by the model is also that of the prompt, in place of its first words. Titles are given this early because a listing
    reads only the first entries of a session.
    """
    requested = ""
    if model is not None:
        titles: SimpleQueue[str] = SimpleQueue()
        Thread(target=lambda: titles.put(request_title(model, prompt)), name="title", daemon=True).start()
        with suppress(Empty):
            requested = titles.get(timeout=timeout_seconds)
    title = requested or title_from_text(prompt)
    if title:
        session.title(title)
        emit(SessionTitled(session.log.session_id, title))
    newest = next((placed for placed in reversed(session.log.live) if placed.is_persons), None)
    if requested and newest is not None:
        session.title(requested, message_id=newest.message.id)


def request_title(model: Model, prompt: str) -> str:
    """Return the model's title for work that begins with this prompt, or an empty string if it fails."""
    text = f"<message>\n{escape_record(prompt[:MOST_TITLE_CHARACTERS])}\n</message>"
    items: list[object] = [*format_named(model.format).encode_new(UserMessage(MessageId(""), (TextPart(text),)))]
    try:
        received = list(model.stream(ModelRequest(items, TITLE.system_text)))
    except ModelError:
        return ""
    return title_from_reply("".join(piece.text for piece in received if isinstance(piece, Said)))
