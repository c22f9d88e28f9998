"""A chat: read a line, let the agent work on it or carry out a command, and repeat until the user leaves."""

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
from infold.agent.permissions import Consent
from infold.agent.run import AgentRun, RunEvent, UserInterface
from infold.agent.tools.tool import ActionRequest
from infold.agent.trust import default_store
from infold.cli.agent_options import (
    AgentOptions,
    PermissionQuestion,
    decide_trust,
    exit_on_signals,
    name_to_open,
    new_key,
    open_agent,
    open_agent_on,
    trust_prompt,
)
from infold.cli.chat.actions import ChatActions
from infold.cli.chat.commands import QUIT, parse_command
from infold.cli.chat.input import PromptLine, open_history, without_echo
from infold.cli.chat.pages import last_turn, turn_page
from infold.cli.chat.screen import Screen
from infold.cli.chat.status import Status, StatusPiece, read_status, status_pieces
from infold.cli.render import open_console
from infold.errors import InfoldError
from infold.ports import SessionKey
from infold.reports.listing import Tallies
from infold.reports.text import printable
from infold.wiring import EMBEDDED

SMALL = "No model is set, so a very small one answers. Name a better one with --model."

CONSENTS: dict[str, Consent] = {"yes": "once", "always": "always", "no": "no"}


def run_chat(options: AgentOptions) -> None:
    """Chat until the user leaves; raise `InfoldError` if it cannot begin."""
    console = open_console()
    with exit_on_signals(), ExitStack() as stack:
        options = decide_trust(options, trust_prompt(sys.stdin, console))
        chat = Chat(options, console)
        with console.status("opening the session"):
            work = stack.enter_context(open_agent(options, chat.person))
        stack.callback(chat.close)
        chat.start(work)
        chat.run()


class Chat:
    """One chat in one terminal."""

    def __init__(self, options: AgentOptions, console: Console) -> None:
        self._options = options
        self._ascii_only = console.options.ascii_only
        self._mark = "> " if self._ascii_only else "› "
        self._status = Status("", "")
        self._screen = Screen(console, options.root, self._pieces)
        prompts = Path(default_store(os.environ)).with_name("prompts")
        self._prompt = PromptLine(open_history(prompts), self._pieces, mark=self._mark)
        self._switches: dict[str, Callable[[str], None]] = {"new": self._start_new, "model": self._change_model}
        self._switched = ExitStack()
        self._work: AgentRun
        self._actions: ChatActions
        self._tallies: Tallies

    def start(self, work: AgentRun) -> None:
        """Begin with a session."""
        self._use(work)
        self._greet()

    def _use(self, work: AgentRun) -> None:
        self._work = work
        self._tallies = Tallies(work.store)
        self._actions = ChatActions(work, self._screen, lambda: self._status, store=self._options.store)
        self._update_status()

    def close(self) -> None:
        """Close what this chat opened itself."""
        self._switched.close()

    @property
    def person(self) -> UserInterface:
        """The user, for the agent."""
        return UserInterface(self.observe, self.ask_permission)

    def run(self) -> None:
        """Handle line after line until the user leaves, then print the command to come back."""
        try:
            while self._next():
                pass
        finally:
            self._print_resume_command(self._work)

    # One line.

    def _next(self) -> bool:
        """Handle the next line; false if the user leaves. An interrupt between two lines is ignored."""
        try:
            self._screen.space()
            line = self._prompt.read()
            return line is not None and self._handle(line)
        except KeyboardInterrupt:
            return True

    def _handle(self, line: str) -> bool:
        """Let the agent work on a line, or carry out its command; false for the command to leave."""
        try:
            command = parse_command(line)
            if command is not None and command.name == QUIT:
                return False
            with without_echo():
                if command is not None and command.name in self._switches:
                    self._switches[command.name](command.argument)
                elif command is not None:
                    self._actions.carry_out(command)
                else:
                    with self._screen.working("thinking"):
                        self._work.run(line.strip())
        except KeyboardInterrupt:
            self._screen.note("stopped", "yellow")
        except (InfoldError, OSError) as error:
            self._screen.note(" ".join(str(error).split()), "red")
        self._update_status()
        return True

    def _update_status(self) -> None:
        try:
            self._status = read_status(self._work, self._tallies)
        except InfoldError as error:
            self._screen.note(" ".join(str(error).split()), "red")

    def _pieces(self, width: int) -> tuple[StatusPiece, ...]:
        return status_pieces(self._status, width, ascii_only=self._ascii_only)

    # Another session, another model.

    def _start_new(self, _: str) -> None:
        before, options = self._work, self._options
        named = options.model or name_to_open(before.model.ref, options.base_url) or None
        self._switch(replace(options, model=named), new_key())
        self._print_resume_command(before)
        self._greet()

    def _change_model(self, name: str) -> None:
        if name:
            self._switch(replace(self._options, model=name), self._work.key)
        self._screen.note(f"{self._work.model.ref.id} answers")

    def _switch(self, options: AgentOptions, key: SessionKey) -> None:
        """Switch to another session or model; if it cannot be opened, nothing changes."""
        with ExitStack() as opening:
            with self._screen.console.status("opening the session"):
                work = opening.enter_context(open_agent_on(options, self.person, self._work.store, key))
            self._switched.close()
            self._switched = opening.pop_all()
        self._options = options
        self._use(work)

    # The agent.

    def observe(self, event: RunEvent) -> None:
        """Show an event."""
        self._screen.show(event)
        if isinstance(event, StepFinished):
            self._update_status()

    def ask_permission(self, action: ActionRequest) -> Consent:
        """Ask the user whether the agent may do this."""
        question = PermissionQuestion.of(action)
        always = "(a)lways in this chat, " if question.granted else ""
        with self._screen.paused():
            self._screen.print(*_show_question(question))
            answers = [word for word, consent in CONSENTS.items() if consent != "always" or always]
            answer = self._prompt.ask(f"  (y)es, {always}(n)o: ", answers)
        return CONSENTS[answer or "no"]

    # Beginning and end.

    def _greet(self) -> None:
        log, ref = self._work.session.log, self._work.model.ref
        facts = f"  {printable(ref.id)}, session {printable(log.session_id)}; /help lists commands"
        is_unset = EMBEDDED in (ref.provider, ref.id) and not self._options.model
        note = (Text(SMALL, style="dim"),) if is_unset else ()
        self._screen.print(Text.assemble(("infold", "bold"), facts), *note)
        turn = last_turn(log)
        if turn is not None:
            self._screen.print(Text(printable(self._actions.title()), style="bold"))
            for piece in turn_page(turn, self._mark):
                self._screen.print(piece)

    def _print_resume_command(self, work: AgentRun) -> None:
        """Print the command that continues a session, unless the session is empty."""
        log = work.session.log
        command = self._options.resume_command("chat", log.session_id) if log.next_sequence else ""
        if command:
            self._screen.print_command(f"continue with: {command}")


def _show_question(question: PermissionQuestion) -> Iterator[RenderableType]:
    """Yield the action, and what "always" would allow if it is offered."""
    yield Text(f"? {question.tool}", style="bold yellow")
    yield Padding(Text(question.action), (0, 0, 0, 4), expand=False)
    if question.granted:
        yield Text(f"  always would allow {question.granted}", style="dim")
