"""The prompt: history, several lines, completion of commands, the status line below; and questions with a few answers.

The only module that needs prompt_toolkit.
"""

import os
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from infold.cli.agent_options import discard_typed
from infold.cli.chat.commands import COMMANDS
from infold.cli.chat.status import StatusPiece
from infold.formats.codec import replace_surrogates
from infold.settings.schema import make_private_folder

LONGEST_KEPT = 20_000
"""Characters of a prompt that the history keeps; a longer one was probably pasted."""

STYLE = Style.from_dict({"bottom-toolbar": "noreverse", "prompt": "ansicyan bold"})
AGAIN = "Ctrl-C again, or Ctrl-D, leaves"


class PromptLine:
    """Where the user types; `status` returns the pieces of the line below for a width."""

    def __init__(
        self,
        history: History,
        status: Callable[[int], tuple[StatusPiece, ...]],
        *,
        mark: str = "› ",
        source: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._status = status
        self._mark = mark
        self._is_leaving = False
        self._session: PromptSession[str] = PromptSession(
            history=history,
            multiline=True,
            key_bindings=self._keys(),
            completer=_CommandCompleter(),
            complete_while_typing=Condition(_is_command),
            bottom_toolbar=self._below,
            prompt_continuation=lambda width, *_: " " * width,
            reserve_space_for_menu=len(COMMANDS),
            enable_suspend=True,
            style=STYLE,
            input=source,
            output=output,
        )
        self._session.default_buffer.on_text_changed += self._stay
        self._question: PromptSession[str] = PromptSession(style=STYLE, input=source, output=output)

    def read(self) -> str | None:
        """Return what the user types, or `None` if they leave.

        Ctrl-C is handled as a key; an interrupt from before that passes through.
        """
        self._is_leaving = False
        try:
            return replace_surrogates(self._session.prompt([("class:prompt", self._mark)]))
        except EOFError:
            return None

    def ask(self, question: str, answers: Iterable[str]) -> str | None:
        """Return one of these answers, typed in full or by its first letter; `None` for Ctrl-D.

        What was typed before the question is discarded. Ctrl-C passes through as an interrupt.
        """
        known = {word: answer for answer in answers for word in (answer, answer[0])}
        discard_typed(sys.stdin)
        clear_typeahead(self._question.input)
        while True:
            try:
                typed = self._question.prompt([("class:prompt", question)])
            except EOFError:
                return None
            if typed.strip().lower() in known:
                return known[typed.strip().lower()]

    # Keys.

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("enter")(self._send)
        keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
        keys.add("c-c")(self._interrupt)
        keys.add("<sigint>")(self._interrupt)
        keys.add("c-d", filter=Condition(lambda: not get_app().current_buffer.text))(self._leave)
        return keys

    def _send(self, event: KeyPressEvent) -> None:
        if event.current_buffer.text.strip():
            event.current_buffer.validate_and_handle()

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Clear the line; twice in a row, leave."""
        if self._is_leaving:
            self._leave(event)
        event.current_buffer.reset()
        self._is_leaving = True

    def _leave(self, event: KeyPressEvent) -> None:
        event.app.exit(exception=EOFError)

    def _stay(self, buffer: Buffer) -> None:
        if buffer.text:
            self._is_leaving = False

    def _below(self) -> StyleAndTextTuples:
        if self._is_leaving:
            return [("", AGAIN)]
        width = get_app().output.get_size().columns
        return [(f"fg:ansi{piece.colour}" if piece.colour else "", piece.text) for piece in self._status(width - 1)]


class _CommandCompleter(Completer):
    """Complete the names of commands."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield the commands that begin so."""
        del complete_event
        typed = document.text_before_cursor
        for command in COMMANDS.values() if _is_first_word(typed) else ():
            if command.name.startswith(typed[1:]):
                yield Completion(f"/{command.name}", -len(typed), display_meta=command.does)


def _is_command() -> bool:
    return _is_first_word(get_app().current_buffer.text)


def _is_first_word(text: str) -> bool:
    return text.startswith("/") and not any(character.isspace() for character in text)


# History.


class PromptHistory(FileHistory):
    """Prompts of earlier chats, in a file; if it cannot be written, prompts are kept for this chat only."""

    def store_string(self, string: str) -> None:
        """Store a prompt unless it is very long."""
        if len(string) <= LONGEST_KEPT:
            with suppress(OSError):
                super().store_string(replace_surrogates(string))


def open_history(path: Path) -> History:
    """Open the history in a file with mode 0600, or in memory if that fails."""
    try:
        make_private_folder(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
        return PromptHistory(path)
    except OSError:
        return InMemoryHistory()


# The terminal while the agent works.


@contextmanager
def without_echo() -> Iterator[None]:
    """Do not echo what is typed while the agent works; it waits for the next prompt, also after Ctrl-C."""
    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError):
        yield
        return
    silent = [*before]
    silent[3] = silent[3] & ~termios.ECHO | termios.NOFLSH  # Ctrl-C must not discard what was typed ahead
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
