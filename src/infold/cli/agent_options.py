"""What the verbs that put an agent to work have in common: their options, and everything the agent needs, opened and closed."""

import logging
import os
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from secrets import token_hex
from types import FrameType
from typing import Any, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from infold.agent.agents import AGENTS, DEFAULT_AGENT
from infold.agent.events import Noted
from infold.agent.permissions import parse_rules
from infold.agent.run import Assignment, Person, Work, begin
from infold.agent.trust import brought_by, is_trusted, project_of, remember_trust
from infold.cli import options
from infold.cli.render import legible
from infold.cli.session_lookup import LAST, chosen_key, kept_within, place_of, tell_where
from infold.core.messages import SessionId
from infold.core.policy import PRESETS
from infold.errors import StoreBroken, UsageError
from infold.ports import FullStore, SessionKey
from infold.settings import format_value, read_settings
from infold.settings.schema import store_path
from infold.wiring import EMBEDDED, open_model, open_store, system_clock

F = TypeVar("F", bound=Callable[..., Any])


EMBEDDED_OUTPUT_TOKENS = 512
"""The longest answer of the embedded model, which otherwise talks until its window is full."""


ENDING = (signal.SIGTERM, signal.SIGHUP)
"""What asks a program to end: a request to, or a terminal that was closed."""


SIGNALLED = 128
"""What a signal's number is added to for the exit status, as shells have it."""


SUMMARIES = "infold.engine.asking"
"""Where it is logged that no summary was written."""


_CHOICES = tuple(name for name, agent in AGENTS.items() if not agent.is_hidden)


def _rules(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Rules as they were written, if they are such."""
    try:
        parse_rules(dict.fromkeys(value, "allow"))
    except UsageError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    return value


_OPTIONS = (
    click.option("--model", metavar="NAME", help="Which model answers, such as claude-sonnet-4-5 or openai-chat/NAME."),
    click.option(
        "--base-url", metavar="URL", default="", help="Where it is asked, in place of its provider's address."
    ),
    click.option(
        "--agent",
        type=click.Choice(_CHOICES),
        metavar="NAME",
        default=DEFAULT_AGENT,
        show_default=True,
        help="Who works: build, plan or talk.",
    ),
    click.option("--session", metavar="ID", help="Go on with a session: its id, the beginning of it, or last."),
    click.option(
        "--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Work in this folder."
    ),
    click.option(
        "--allow",
        metavar="RULE",
        multiple=True,
        callback=_rules,
        help="Do this unasked: shell, or 'shell:git *'. Repeatable.",
    ),
    click.option("--yes", is_flag=True, help="Ask for nothing at all; for containers and other places you can lose."),
    click.option(
        "--trust",
        is_flag=True,
        help="Trust this folder: use its AGENTS.md, skills and infold.toml, now and from now on.",
    ),
    click.option("--steps", type=click.IntRange(1), help="The most steps for one prompt."),
    click.option("--policy", type=click.Choice(sorted(PRESETS)), help="Which preset keeps the session in its window."),
    options.window,
    click.option("--store", metavar="PLACE", help="Where sessions are kept: a file's path or a postgresql:// address."),
)


def working(function: F) -> F:
    """The options of every verb that puts an agent to work."""
    return reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), function)


class Job(Struct, frozen=True, kw_only=True):
    """The command line."""

    model: str | None
    base_url: str
    agent: str
    session: str | None
    folder: Path | None
    allow: tuple[str, ...]
    yes: bool
    steps: int | None
    policy: str | None
    window: int | None
    store: str | None
    trust: bool = False

    @property
    def root(self) -> Path:
        """Where the work is done."""
        return self.folder or Path.cwd()

    @property
    def rules(self) -> tuple[str, ...]:
        """What is allowed for this work alone."""
        return (*self.allow, *(("*", "outside", "secrets") if self.yes else ()))

    def going_on(self, verb: str, session_id: str) -> str:
        """The command that goes on with a session as this one began: with the model it had, and all else that was said.

        Empty where the session ends with this process.
        """
        if place_of(self.store) == "memory":
            return ""
        return shlex.join(("infold", verb, "--session", session_id, *self._said()))

    def _said(self) -> Iterator[str]:
        """The options that were given, but for the session; a password inside an address is hidden."""
        agent = "" if self.agent == DEFAULT_AGENT else self.agent
        for name, value in (("--model", self.model), ("--base-url", self.base_url), ("--agent", agent)):
            yield from (name, format_value(value)) if value else ()
        for rule in self.allow:
            yield from ("--allow", rule)
        yield from ("--yes",) if self.yes else ()
        within = (("--steps", self.steps), ("--policy", self.policy), ("--window", self.window))
        for name, bound in (*within, ("--folder", self.folder), ("--store", self.store)):
            yield from (name, format_value(str(bound))) if bound else ()


def with_trust(job: Job, ask: Callable[[Path, Sequence[str]], bool] | None) -> Job:
    """Return the job with `trust` decided: by its options, by settings, by an earlier answer, or by asking.

    `ask` is `None` where there is no person to ask, which leaves an unknown folder untrusted. An answer is kept.
    """
    if job.yes or read_settings(os.environ, None).agent.trust:
        return replace(job, trust=True)
    folder, brought = project_of(job.root), brought_by(job.root)
    known = True if job.trust else is_trusted(folder, os.environ)
    answer = ask(folder, brought) if known is None and brought and ask is not None else known
    if answer is not None and (known is None or job.trust):
        _remember(folder, trusted=answer)
    return replace(job, trust=bool(answer))


def _remember(folder: Path, *, trusted: bool) -> None:
    try:
        remember_trust(folder, os.environ, trusted=trusted)
    except OSError as error:
        told = error.strerror or str(error)
        click.echo(
            f"whether {legible(str(folder))} is trusted could not be kept ({told}), so it holds only now", err=True
        )


@contextmanager
def opened(job: Job, person: Person) -> Iterator[Work]:
    """An agent ready to work, and all that is closed when it is done.

    Raises `InfoldError` for whatever is missing or wrong: settings, a key, a store, a session.
    """
    limits = read_settings(os.environ, None).store_limits
    with _store(place_of(job.store)) as store:
        kept_within(store, limits)
        key = _key(store, job.session, job.root)
        with _log_told(person), at_work(job, person, store, key) as work:
            try:
                yield work
            finally:
                work.hands.tidy()


@contextmanager
def at_work(job: Job, person: Person, store: FullStore, key: SessionKey) -> Iterator[Work]:
    """An agent ready to work on that session, and its model as long as it does."""
    settings = read_settings(os.environ, job.root if job.trust else None)
    name = job.model or settings.model or EMBEDDED
    place = Assignment(
        root=job.root,
        environ=os.environ,
        clock=system_clock(),
        agent=job.agent,
        allow=job.rules,
        window=job.window or 0,
        policy=job.policy or "",
        steps=job.steps or 0,
        output_tokens=EMBEDDED_OUTPUT_TOKENS if name == EMBEDDED else 0,
        is_trusted=job.trust,
        address=job.base_url or os.environ.get("OPENAI_BASE_URL", ""),
    )
    with open_model(name, job.base_url) as model:
        yield begin(store, key, model, place=place, settings=settings, person=person)


@contextmanager
def _log_told(person: Person) -> Iterator[None]:
    """Within it, what infold's parts log is told to the person, and not printed across what they look at."""
    log, telling = logging.getLogger("infold"), _Telling(person)
    before, log.propagate = log.propagate, False
    log.addHandler(telling)
    try:
        yield
    finally:
        log.removeHandler(telling)
        log.propagate = before


class _Telling(logging.Handler):
    """Tells what is logged, but for failing summaries, of which the agent tells more."""

    def __init__(self, person: Person) -> None:
        super().__init__(logging.WARNING)
        self._person = person

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one record."""
        if record.name != SUMMARIES:
            self._person.tell(Noted(record.getMessage()))


@contextmanager
def _store(place: str) -> Iterator[FullStore]:
    """The store, in a folder that is made for it if need be."""
    if place != "memory" and "://" not in place:
        path = store_path(place)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"its folder cannot be made ({error.strerror})"
            raise StoreBroken(str(path), problem, remedy="name a place you may write to with --store") from error
        place = str(path)
    with open_store(place) as store:
        yield store


def _key(store: FullStore, wanted: str | None, root: Path) -> SessionKey:
    """The session to go on with, or a new one; one that belongs to another folder is told to."""
    if wanted is None:
        return new_key()
    key = chosen_key(store, wanted, folder=root)
    if wanted != LAST:
        tell_where(store, key, root)
    return key


def new_key() -> SessionKey:
    """The name of a session that is about to begin."""
    return SessionKey("", SessionId(f"{datetime.now(UTC):%Y%m%d}-{token_hex(4)}"))


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP end the work as an interrupt does: what was said and done so far is kept.

    A closed terminal is often told twice, so SIGHUP counts once; where it is ignored, as under nohup, it stays so.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        raise SystemExit(SIGNALLED + number)

    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        if before[number] != signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield
    finally:
        for number in ENDING:
            signal.signal(number, before[number])
