"""A chat: read a line, let the agent work on it or carry out a command, show what happens, and again, until the person leaves."""

import os
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from infold.agent.events import Stepped
from infold.agent.permissions import Consent, granted, told
from infold.agent.places import default_store
from infold.agent.tools.tool import Wish
from infold.agent.work import Person, Told, Work
from infold.cli.chat_acts import Acts
from infold.cli.chat_commands import order_in
from infold.cli.chat_line import Line, history_at, without_echo
from infold.cli.chat_page import exchange_page, last_exchange
from infold.cli.chat_screen import Screen
from infold.cli.chat_status import Piece, Status, pieces_of, status_of
from infold.cli.render import console_for, legible, one_line
from infold.cli.working import Job, interrupted_by_sigterm, opened
from infold.dashboard.tally import Tallies
from infold.errors import InfoldError
from infold.wiring import EMBEDDED

__all__ = ["talk"]

MOST_ASKED = 10_000
"""Characters of a wish that are shown to the person who is asked; the end of a longer one is told to be missing."""

SMALL = "No model is set, so a very small one answers. Name a better one with --model."
CONSENTS: dict[str, Consent] = {"yes": "once", "always": "always", "no": "no"}


def talk(job: Job) -> None:
    """Chat until the person leaves; raises `InfoldError` where it cannot begin."""
    console = console_for(plain=False)
    chat = Chat(job, console)
    with interrupted_by_sigterm(), ExitStack() as stack:
        with console.status("opening the session"):
            work = stack.enter_context(opened(job, Person(chat.tell, chat.consent)))
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
        self._work: Work
        self._acts: Acts
        self._tallies: Tallies

    def join(self, work: Work) -> None:
        """Take the session that was opened."""
        self._work = work
        self._tallies = Tallies(work.store)
        self._acts = Acts(work, self._screen, lambda: self._standing, store=self._job.store)
        self._look()
        self._greet()

    def go_on(self) -> None:
        """Take one line after the other; in the end, say how to come back."""
        try:
            while self._goes_on():
                pass
        finally:
            self._part()

    # One line.

    def _goes_on(self) -> bool:
        """Take the next line; false when the person leaves. An interrupt between two lines is one too many, and no reason to."""
        try:
            self._screen.space()
            line = self._line.read()
            if line is None or line.strip() in ("/quit", "/exit"):
                return False
            self._take(line)
        except KeyboardInterrupt:
            pass
        return True

    def _take(self, line: str) -> None:
        try:
            order = order_in(line)
            with without_echo():
                if order is not None:
                    self._acts.carry_out(order)
                else:
                    with self._screen.working("thinking"):
                        self._work.run(line.strip())
        except KeyboardInterrupt:
            self._screen.note("stopped", "yellow")
        except (InfoldError, OSError) as error:
            self._screen.note(" ".join(str(error).split()), "red")
        self._look()

    def _look(self) -> None:
        """See how the session stands."""
        try:
            self._standing = status_of(self._work, self._tallies)
        except InfoldError as error:
            self._screen.note(" ".join(str(error).split()), "red")

    def _pieces(self, width: int) -> tuple[Piece, ...]:
        return pieces_of(self._standing, width, ascii_only=self._ascii_only)

    # The agent.

    def tell(self, happening: Told) -> None:
        """Hear what happens, and show it."""
        self._screen.tell(happening)
        if isinstance(happening, Stepped):
            self._look()

    def consent(self, wish: Wish) -> Consent:
        """Ask the person whether the agent may do this."""
        with self._screen.paused():
            self._screen.print(*_question(wish))
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

    def _part(self) -> None:
        if self._work.session.log.next_sequence:
            console = self._screen.console
            console.print(Text(f"go on with: {self._command()}", "dim"), soft_wrap=True)

    def _command(self) -> str:
        """How this session is come back to."""
        store = ("--store", self._job.store) if self._job.store else ()
        return shlex.join(("infold", "chat", "--session", self._work.session.log.session_id, *store))


def _question(wish: Wish) -> Iterator[RenderableType]:
    """What is wished, whole, and what leave for good would mean."""
    where = " outside the project" if wish.outside else ""
    yield Text(f"? {legible(wish.tool)}{where}", style="bold yellow")
    yield Padding(Text(legible(wish.what[:MOST_ASKED])), (0, 0, 0, 4), expand=False)
    over = len(wish.what) - MOST_ASKED
    if over > 0:
        yield Text(f"    (and {over:,} more characters)", style="yellow")
    yield Text(f"  always would allow {one_line(told(granted(wish)), 240)}", style="dim")
