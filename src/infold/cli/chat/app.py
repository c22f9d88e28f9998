"""A chat: read a line, let the agent work on it or carry out a command, show what happens, and again, until the person leaves."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from infold.agent.events import StepFinished
from infold.agent.permissions import Consent, format_rules, granted_rules
from infold.agent.run import AgentRun, RunEvent, UserInterface
from infold.agent.tools.tool import ActionRequest
from infold.agent.trust import default_store
from infold.cli.agent_options import Job, at_work, ended_by_signals, new_key, opened, with_trust
from infold.cli.chat.actions import Acts
from infold.cli.chat.commands import QUIT, order_in
from infold.cli.chat.input import Line, history_at, without_echo
from infold.cli.chat.pages import exchange_page, last_exchange
from infold.cli.chat.screen import Screen
from infold.cli.chat.status import Piece, Status, pieces_of, status_of
from infold.cli.permission_prompt import trust_for
from infold.cli.render import console_for, legible, one_line
from infold.dashboard.tally import Tallies
from infold.errors import InfoldError
from infold.ports import SessionKey
from infold.wiring import EMBEDDED

MOST_ASKED = 10_000
"""Characters of a wish that are shown to the person who is asked; the end of a longer one is told to be missing."""


SMALL = "No model is set, so a very small one answers. Name a better one with --model."


CONSENTS: dict[str, Consent] = {"yes": "once", "always": "always", "no": "no"}


def talk(job: Job) -> None:
    """Chat until the person leaves; raises `InfoldError` where it cannot begin."""
    console = console_for(plain=False)
    with ended_by_signals(), ExitStack() as stack:
        job = with_trust(job, trust_for(sys.stdin, console))
        chat = Chat(job, console)
        with console.status("opening the session"):
            work = stack.enter_context(opened(job, chat.person))
        stack.callback(chat.leave)
        chat.join(work)
        chat.go_on()


class Chat:
    """One chat in one terminal."""

    def __init__(self, job: Job, console: Console) -> None:
        self._job = job
        self._ascii_only = console.options.ascii_only
        self._mark = "> " if self._ascii_only else "› "
        self._standing = Status("", "")
        self._screen = Screen(console, job.folder or Path.cwd(), self._pieces)
        prompts = Path(default_store(os.environ)).with_name("prompts")
        self._line = Line(history_at(prompts), self._pieces, mark=self._mark)
        self._moves: dict[str, Callable[[str], None]] = {"new": self._begin_anew, "model": self._change_model}
        self._moved = ExitStack()
        self._work: AgentRun
        self._acts: Acts
        self._tallies: Tallies

    def join(self, work: AgentRun) -> None:
        """Take the session that was opened, and say so."""
        self._take_up(work)
        self._greet()

    def _take_up(self, work: AgentRun) -> None:
        self._work = work
        self._tallies = Tallies(work.store)
        self._acts = Acts(work, self._screen, lambda: self._standing, store=self._job.store)
        self._look()

    def leave(self) -> None:
        """Close what this chat opened by itself."""
        self._moved.close()

    @property
    def person(self) -> UserInterface:
        """Who sits here, as the agent knows them."""
        return UserInterface(self.tell, self.consent)

    def go_on(self) -> None:
        """Take one line after the other; in the end, say how to come back."""
        try:
            while self._goes_on():
                pass
        finally:
            self._part(self._work)

    # One line.

    def _goes_on(self) -> bool:
        """Take the next line; false when the person leaves. An interrupt between two lines is one too many, and no reason to."""
        try:
            self._screen.space()
            line = self._line.read()
            return line is not None and self._take(line)
        except KeyboardInterrupt:
            return True

    def _take(self, line: str) -> bool:
        """Let the agent work on a line, or carry out the command it gives; false where that is to leave."""
        try:
            order = order_in(line)
            if order is not None and order.name == QUIT:
                return False
            with without_echo():
                if order is not None and order.name in self._moves:
                    self._moves[order.name](order.rest)
                elif order is not None:
                    self._acts.carry_out(order)
                else:
                    with self._screen.working("thinking"):
                        self._work.run(line.strip())
        except KeyboardInterrupt:
            self._screen.note("stopped", "yellow")
        except (InfoldError, OSError) as error:
            self._screen.note(" ".join(str(error).split()), "red")
        self._look()
        return True

    def _look(self) -> None:
        """See how the session stands."""
        try:
            self._standing = status_of(self._work, self._tallies)
        except InfoldError as error:
            self._screen.note(" ".join(str(error).split()), "red")

    def _pieces(self, width: int) -> tuple[Piece, ...]:
        return pieces_of(self._standing, width, ascii_only=self._ascii_only)

    # Another session, another model.

    def _begin_anew(self, _: str) -> None:
        before = self._work
        self._move(self._job, new_key())
        self._part(before)
        self._greet()

    def _change_model(self, name: str) -> None:
        if name:
            self._move(replace(self._job, model=name), self._work.key)
        self._screen.note(f"{self._work.model.ref.id} answers")

    def _move(self, job: Job, key: SessionKey) -> None:
        """Work on with another session or model; where that cannot be opened, all stays as it is."""
        with ExitStack() as opening:
            with self._screen.console.status("opening the session"):
                work = opening.enter_context(at_work(job, self.person, self._work.store, key))
            self._moved.close()
            self._moved = opening.pop_all()
        self._job = job
        self._take_up(work)

    # The agent.

    def tell(self, happening: RunEvent) -> None:
        """Hear what happens, and show it."""
        self._screen.tell(happening)
        if isinstance(happening, StepFinished):
            self._look()

    def consent(self, action: ActionRequest) -> Consent:
        """Ask the person whether the agent may do this."""
        with self._screen.paused():
            self._screen.print(*_question(action))
            answer = self._line.ask("  (y)es, (a)lways in this chat, (n)o: ", CONSENTS)
        return CONSENTS[answer or "no"]

    # Beginning and end.

    def _greet(self) -> None:
        log, ref = self._work.session.log, self._work.model.ref
        told = f"  {legible(ref.id)}, session {legible(log.session_id)}; /help lists commands"
        is_unset = EMBEDDED in (ref.provider, ref.id) and not self._job.model
        note = (Text(SMALL, style="dim"),) if is_unset else ()
        self._screen.print(Text.assemble(("infold", "bold"), told), *note)
        exchange = last_exchange(log)
        if exchange is not None:
            self._screen.print(Text(legible(self._acts.title()), style="bold"))
            for piece in exchange_page(exchange, self._mark):
                self._screen.print(piece)

    def _part(self, work: AgentRun) -> None:
        """Say how to come back to a session, if there is anything in it."""
        command = self._job.going_on("chat", work.session.log.session_id) if work.session.log.next_sequence else ""
        if command:
            self._screen.tell_command(f"go on with: {command}")


def _question(action: ActionRequest) -> Iterator[RenderableType]:
    """What is wished, whole, and what leave for good would mean."""
    where = f" ({action.why or 'outside the project'})" if action.outside else ""
    yield Text(f"? {legible(action.tool)}{where}", style="bold yellow")
    yield Padding(Text(legible(action.what[:MOST_ASKED])), (0, 0, 0, 4), expand=False)
    over = len(action.what) - MOST_ASKED
    if over > 0:
        yield Text(f"    (and {over:,} more characters)", style="yellow")
    yield Text(f"  always would allow {one_line(format_rules(granted_rules(action)), 240)}", style="dim")
