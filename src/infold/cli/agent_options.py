"""What the verbs that run the agent share: their options, opening the agent, asking for permission, and why a run ended."""

import asyncio
import logging
import os
import re
import shlex
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from threading import Timer
from types import FrameType
from typing import IO

import click
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from infold.agent.agents import AGENTS, DEFAULT_AGENT
from infold.agent.events import Notice, RequestRetried, RunEnded, RunEnding, ToolRefused
from infold.agent.permissions import Consent, format_rules, granted_rules, parse_rules
from infold.agent.run import AgentRun, RunOptions, UserInterface, open_run
from infold.agent.tools.processes import hide_process
from infold.agent.tools.tool import ActionRequest
from infold.agent.trust import find_project_config, lookup_trust, remember_trust, trust_folder
from infold.catalogue import Known, lookup
from infold.cli import options
from infold.cli.session_lookup import LAST, enforce_limits, find_session, note_other_folder, store_location
from infold.core.messages import ModelRef, SessionId
from infold.core.policy import PRESETS, PriceUse
from infold.errors import KeyRefused, StoreBroken, UsageError
from infold.ports import FullStore, SessionKey
from infold.reports.stored_log import recorded_model
from infold.reports.text import name_some, one_line, printable
from infold.settings import format_value, read_settings
from infold.settings.schema import make_private_folder, store_path
from infold.wiring import EMBEDDED, open_model, open_store, system_clock

EMBEDDED_OUTPUT_TOKENS = 512
"""The longest answer of the embedded model, which otherwise writes until its window is full."""

TERMINATING = (signal.SIGTERM, signal.SIGHUP)

SIGNALLED = 128
"""Added to a signal's number for the exit status, as shells do."""

AGAIN_SECONDS = 0.01
"""After this a signal that was lost is sent again."""

SUMMARIES = "infold.session.summariser"
"""The logger of failing summaries."""

ENDINGS: dict[RunEnding, str] = {
    "done": "done",
    "aborted": "aborted; the session is stored",
    "length": "the reply was cut off for length, and compacting did not help; ask for less at once",
    "steps": "stopped at the maximum number of steps; raise --steps, or continue",
    "circling": "stopped: it repeated the same calls with the same results; tell it what to do differently",
    "stop": "stopped: the summary failed, and the preset has no other way to continue; try again, or name another model",
    "filtered": "the provider withheld the reply; ask for it in other words",
    "failed": "",
}
"""Why an agent stopped, and what to do; a failure has its own error message."""

LONG_WAIT_SECONDS = 5.0
"""Show the duration of waits longer than this."""

MOST_NAMED, LONGEST_NAME = 5, 80
"""How many refused actions or files are named, and how much of each."""

MOST_SHOWN = 10_000
"""Characters of an action, and of what "always" would allow, that a question shows; of a longer action both ends."""

MOST_BLANKS, MOST_BREAKS = 40, 3
"""Blank characters, or line breaks, in a row that a question shows."""

_GAP = re.compile("[ \n\u115f\u1160\u2800\u3164\uffa0]{4,}")
"""White space after `printable`, and letters that look like it."""

LONGEST_RULE = 200
"""Longer rules are not suggested."""

_ANSWERS: dict[str, Consent] = {"y": "once", "yes": "once", "n": "no", "no": "no"}
_ALWAYS: dict[str, Consent] = {"a": "always", "always": "always"}

_AGENTS = tuple(name for name, agent in AGENTS.items() if not agent.is_hidden)


def _check_rules(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        parse_rules(dict.fromkeys(value, "allow"))
    except UsageError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    return value


agent_options = options.combine(
    click.option("--model", metavar="NAME", help="The model, such as claude-sonnet-4-5 or openai-chat/NAME."),
    click.option("--base-url", metavar="URL", default="", help="The address of the model, in place of its provider's."),
    click.option(
        "--agent",
        type=click.Choice(_AGENTS),
        metavar="NAME",
        default=DEFAULT_AGENT,
        show_default=True,
        help="The agent: build, plan or talk.",
    ),
    click.option("--session", metavar="ID", help="Continue a session: its id, the beginning of it, or last."),
    click.option(
        "--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Work in this folder."
    ),
    click.option(
        "--allow",
        metavar="RULE",
        multiple=True,
        callback=_check_rules,
        help="Allow this without asking: shell, or 'shell:git *'. Repeatable.",
    ),
    click.option("--yes", is_flag=True, help="Never ask; for containers and other places you can afford to lose."),
    click.option(
        "--trust",
        is_flag=True,
        help="Trust this folder: use its AGENTS.md, skills and infold.toml, now and from now on.",
    ),
    click.option("--steps", type=click.IntRange(1), help="The maximum number of steps for one prompt."),
    click.option(
        "--policy", type=click.Choice(sorted(PRESETS)), help="The preset that keeps the session in its window."
    ),
    options.window,
    options.priced,
    options.working_window,
    click.option("--store", metavar="PLACE", help="The store: a file's path or a postgresql:// address."),
)
"""The options of every verb that runs the agent."""


class AgentOptions(Struct, frozen=True, kw_only=True):
    """The command line of a verb that runs the agent."""

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
    working_window: int | None = None
    priced: PriceUse | None = None
    trust: bool = False

    @property
    def root(self) -> Path:
        """The folder the agent works in."""
        return self.folder or Path.cwd()

    @property
    def rules(self) -> tuple[str, ...]:
        """The permission rules for this run."""
        return (*self.allow, *(("*", "outside", "secrets") if self.yes else ()))

    def resume_command(self, verb: str, session_id: str) -> str:
        """Return the command that continues a session with the same options; empty if it is only in memory."""
        if store_location(self.store) == "memory":
            return ""
        return shlex.join(("infold", verb, "--session", session_id, *self._given()))

    def _given(self) -> Iterator[str]:
        """Yield the given options except the session; a password inside an address is hidden."""
        agent = "" if self.agent == DEFAULT_AGENT else self.agent
        for name, value in (("--model", self.model), ("--base-url", self.base_url), ("--agent", agent)):
            yield from (name, format_value(value)) if value else ()
        for rule in self.allow:
            yield from ("--allow", rule)
        yield from ("--yes",) if self.yes else ()
        limits = (
            ("--steps", self.steps),
            ("--policy", self.policy),
            ("--window", self.window),
            ("--working-window", self.working_window),
            ("--priced", self.priced),
        )
        for name, given in (*limits, ("--folder", self.folder), ("--store", self.store)):
            yield from (name, format_value(str(given))) if given else ()


def decide_trust(given: AgentOptions, ask: Callable[[Path, Sequence[str]], bool] | None) -> AgentOptions:
    """Return the options with `trust` decided: by the options, settings, an earlier answer, or by asking.

    Without a terminal `ask` is `None`, which leaves an unknown folder untrusted. An answer is remembered.
    """
    if given.yes or read_settings(os.environ, None).agent.trust:
        return replace(given, trust=True)
    folder, brought = trust_folder(given.root), find_project_config(given.root)
    known = True if given.trust else lookup_trust(folder, os.environ)
    answer = ask(folder, brought) if known is None and brought and ask is not None else known
    if answer is not None and (known is None or given.trust):
        _remember(folder, trusted=answer)
    return replace(given, trust=bool(answer))


def _remember(folder: Path, *, trusted: bool) -> None:
    try:
        remember_trust(folder, os.environ, trusted=trusted)
    except OSError as error:
        reason = error.strerror or str(error)
        click.echo(f"could not remember whether {printable(str(folder))} is trusted ({reason})", err=True)


@contextmanager
def open_agent(given: AgentOptions, person: UserInterface) -> Iterator[AgentRun]:
    """Open the store, the session and the model, and close them at the end.

    Raise `InfoldError` if settings, a key, the store or the session is missing or wrong.
    """
    hide_process()
    limits = read_settings(os.environ, None).store_limits
    with _open_store(store_location(given.store)) as store:
        enforce_limits(store, limits)
        key = _choose_key(store, given.session, given.root)
        with _log_to(person), open_agent_on(given, person, store, key) as work:
            try:
                yield work
            finally:
                work.toolbox.tidy()


@contextmanager
def open_agent_on(given: AgentOptions, person: UserInterface, store: FullStore, key: SessionKey) -> Iterator[AgentRun]:
    """Open the agent on a session, with the model that is named, the one that answered it last, or the one of the settings."""
    settings = read_settings(os.environ, given.root if given.trust else None)
    recorded = "" if given.model else name_to_open(recorded_model(store, key).ref, given.base_url)
    name = given.model or recorded or settings.model or EMBEDDED
    options = RunOptions(
        root=given.root,
        environ=os.environ,
        clock=system_clock(),
        agent=given.agent,
        allow=given.rules,
        window=given.window or 0,
        working_window=given.working_window or 0,
        policy=given.policy or "",
        priced=given.priced,
        steps=given.steps or 0,
        output_tokens=EMBEDDED_OUTPUT_TOKENS if name == EMBEDDED else 0,
        is_trusted=given.trust,
        address=given.base_url or os.environ.get("OPENAI_BASE_URL", ""),
    )
    with ExitStack() as stack:
        try:
            model = stack.enter_context(open_model(name, given.base_url))
        except (UsageError, KeyRefused) as error:
            if not recorded:
                raise
            raise UsageError(
                f"session {key.session_id} was answered by {name}, which cannot be opened ({error}); to go on with another "
                "model, name it with --model"
            ) from error
        yield open_run(store, key, model, options=options, settings=settings, ui=person)


def name_to_open(ref: ModelRef | None, url: str) -> str:
    """Return the name by which a recorded model is opened again; empty if none is recorded, or the embedded one, which answers
    only if no other is set.

    Which of OpenAI's interfaces a model was used with is not recorded: one at another address has the chat interface.
    """
    if ref is None or ref.provider == EMBEDDED:
        return ""
    is_elsewhere = url or not isinstance(lookup(ref.full_name), Known)
    return f"openai-chat/{ref.id}" if ref.provider == "openai" and is_elsewhere else ref.full_name


@contextmanager
def _log_to(person: UserInterface) -> Iterator[None]:
    """Show log records to the user as notes, instead of printing them across the screen."""
    log, handler = logging.getLogger("infold"), _NoteHandler(person)
    before, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before


class _NoteHandler(logging.Handler):
    """Show log records except failing summaries, which have events with more detail."""

    def __init__(self, person: UserInterface) -> None:
        super().__init__(logging.WARNING)
        self._person = person

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record."""
        if record.name != SUMMARIES:
            self._person.emit(Notice(record.getMessage()))


@contextmanager
def _open_store(place: str) -> Iterator[FullStore]:
    """Open the store, creating its folder if necessary."""
    if place != "memory" and "://" not in place:
        path = store_path(place)
        try:
            make_private_folder(path.parent)
        except OSError as error:
            problem = f"cannot create its folder ({error.strerror})"
            raise StoreBroken(str(path), problem, remedy="name a writable place with --store") from error
        place = str(path)
    with open_store(place) as store:
        yield store


def _choose_key(store: FullStore, wanted: str | None, root: Path) -> SessionKey:
    """Return the session to continue, or a new one; note if it belongs to another folder."""
    if wanted is None:
        return new_key()
    key = find_session(store, wanted, folder=root)
    if wanted != LAST:
        note_other_folder(store, key, root)
    return key


def new_key() -> SessionKey:
    """Return the key of a new session."""
    return SessionKey("", SessionId(f"{datetime.now(UTC):%Y%m%d}-{token_hex(4)}"))


class _Terminated(SystemExit):
    """Raised by a signal."""


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """End the run on SIGTERM and SIGHUP as on an interrupt: everything so far is stored.

    A closed terminal often sends SIGHUP twice, so the second is ignored; if it is ignored already, as under nohup, it stays so. A
    signal that arrives in a finaliser, where Python ignores exceptions, is sent again. An event loop ends between two of its
    callbacks: raised within one, the exception could leave a task that waits for ever. An `OSError` after a signal is that of
    writing to a terminal that is gone.
    """
    received: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        ending = _Terminated(SIGNALLED + number)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ending from None
        loop.call_soon_threadsafe(_raise, ending)

    def send_again(ignored: "sys.UnraisableHookArgs") -> None:
        if not isinstance(ignored.exc_value, _Terminated):
            before_hook(ignored)
            return
        signal.signal(received[-1], end)
        again = Timer(AGAIN_SECONDS, os.kill, (os.getpid(), received[-1]))
        again.daemon = True
        again.start()

    before = {number: signal.getsignal(number) for number in TERMINATING}
    before_hook, sys.unraisablehook = sys.unraisablehook, send_again
    for number in TERMINATING:
        if before[number] != signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield
    except OSError:
        if not received:
            raise
        raise _Terminated(SIGNALLED + received[-1]) from None
    finally:
        sys.unraisablehook = before_hook
        for number in TERMINATING:
            signal.signal(number, before[number])


def _raise(error: BaseException) -> None:
    raise error


# Asking at the terminal; without one, permission is refused.


def denied_hint(refused: Sequence[ToolRefused]) -> str:
    """Return what was refused for lack of a terminal to ask on, and the options that would have allowed it."""
    actions = list(dict.fromkeys(one_line(f"{one.tool}:{one.what}", LONGEST_NAME) for one in refused))
    rules = dict.fromkeys(rule for one in refused[:MOST_NAMED] for rule in one.allow)
    short = [shlex.quote(rule) for rule in rules if rule == one_line(rule, LONGEST_RULE)]
    allow = " ".join(f"--allow {rule}" for rule in short) or "an --allow rule for the whole command"
    return f"not permitted without a terminal to ask on: {name_some(actions, MOST_NAMED)}; allow it with {allow}"


def discard_typed(source: IO[str]) -> None:
    """Discard what was typed at a terminal and not yet read."""
    with suppress(termios.error, ValueError, OSError):
        termios.tcflush(source, termios.TCIFLUSH)


def trust_prompt(source: IO[str] | None, console: Console) -> Callable[[Path, Sequence[str]], bool] | None:
    """Return a function that asks whether a folder is trusted; `None` without a terminal."""
    if source is None or not options.can_ask(source):
        return None

    def ask(folder: Path, brought: Sequence[str]) -> bool:
        files = name_some([one_line(name, LONGEST_NAME) for name in brought], MOST_NAMED)
        console.print(Text(printable(f"? This folder has rules of its own for the agent: {files}"), "bold yellow"))
        console.print(Text("  Use them only if you trust those who wrote them. You are asked once.", "dim"))
        console.print(Text(printable(f"  Trust {folder} and all below it?")))
        discard_typed(source)
        return _read_answer(source, console, "  [bold]y[/]es or [bold]n[/]o: ", _ANSWERS) == "once"

    return ask


def _read_answer(source: IO[str], console: Console, question: str, answers: Mapping[str, Consent]) -> Consent:
    """Ask until the answer is valid; no if the terminal is gone."""
    while True:
        console.print(question, end="")
        line = source.readline()
        if not line:
            return "no"
        answer = answers.get(line.strip().lower())
        if answer is not None:
            return answer


def permission_prompt(source: IO[str] | None, console: Console) -> Callable[[ActionRequest], Consent]:
    """Return a function that asks whether an action is allowed; without a terminal it always answers no."""
    if source is None or not options.can_ask(source):
        return lambda _: "no"

    def ask(action: ActionRequest) -> Consent:
        question = PermissionQuestion.of(action)
        indented = question.action.replace("\n", "\n    ")
        console.print(Text(f"? {question.tool}: {indented}", style="bold yellow"))
        discard_typed(source)  # typed before the question
        if not question.granted:
            return _read_answer(source, console, "  [bold]y[/]es or [bold]n[/]o: ", _ANSWERS)
        console.print(Text(f"  always would allow {question.granted}", style="dim"))
        answers = "  [bold]y[/]es, [bold]a[/]lways in this session, or [bold]n[/]o: "
        return _read_answer(source, console, answers, _ANSWERS | _ALWAYS)

    return ask


class PermissionQuestion(Struct, frozen=True):
    """What a person is asked, as text for a terminal: the tool, the action, and what "always" would allow.

    Gaps are replaced by their length, so that nothing is out of sight. `granted` is empty, and "always" is not to be offered, if
    either is too long to be shown whole.
    """

    tool: str
    action: str
    granted: str

    @classmethod
    def of(cls, action: ActionRequest) -> "PermissionQuestion":
        """Return the question about an action."""
        where = f" ({action.why or 'outside the project'})" if action.outside else ""
        what, granted = _close_gaps(action.what), _close_gaps(format_rules(granted_rules(action)))
        over = len(what) - MOST_SHOWN
        if over > 0:
            half = MOST_SHOWN // 2
            what = f"{what[:half]}\n[{over:,} characters are not shown here]\n{what[-half:]}"
        is_whole = over <= 0 and len(granted) <= MOST_SHOWN
        return cls(printable(action.tool + where), what, " ".join(granted.split()) if is_whole else "")


def _close_gaps(text: str) -> str:
    """Return text for a terminal, with long gaps replaced by their length."""

    def close(gap: re.Match[str]) -> str:
        is_long = len(gap.group()) > MOST_BLANKS or gap.group().count("\n") > MOST_BREAKS
        return f"[{len(gap.group()):,} blank characters]" if is_long else gap.group()

    return _GAP.sub(close, printable(text))


def describe_ending(ended: RunEnded) -> str:
    """Return why an agent stopped, and what to do; empty if it is done and nothing went wrong."""
    return ended.problem if ended.ending == "done" else ENDINGS[ended.ending]


def describe_retry(retried: RequestRetried, most: int) -> str:
    """Return when a request is retried, and why, in one line."""
    when = f" in {retried.wait_seconds:.0f} s" if retried.wait_seconds >= LONG_WAIT_SECONDS else ""
    return f"retrying{when}: {one_line(retried.problem, most)}"
