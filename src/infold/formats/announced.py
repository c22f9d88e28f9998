"""Marks texts that a harness announces and then puts under the user's role unmarked: a skill's, a slash command's (B2, B26).

A skill's text comes after the result that tells of its launch, in the same message or the next; a slash command's in the next
block of its message. One text comes of each, so that what a person says after it stays the person's.
"""

from msgspec.structs import replace

from infold.core.messages import Message, MessageId, Part, TextPart, ToolMessage, ToolResultPart, UserMessage
from infold.formats.injected import LOCAL_OUTPUT, announces_text, is_wrapped

LAUNCH = "Launching skill:"
"""How the result of a skill's call begins."""


class Announced:
    """The texts still to come; decoding feeds it block by block."""

    __slots__ = ("_command", "skills")

    def __init__(self) -> None:
        self.skills = 0
        self._command: MessageId | None = None

    def copy(self) -> "Announced":
        """The same state, for a decoding that may not be kept."""
        copied = Announced()
        copied.skills = self.skills
        return copied

    def pass_over(self, message: Message) -> None:
        """Go on after a message that was decoded and marked before."""
        is_users = isinstance(message, UserMessage | ToolMessage)
        for part in message.parts:
            self.marked((part,), message.id, is_users=is_users)

    def marked(self, parts: tuple[Part, ...], message_id: MessageId, *, is_users: bool) -> tuple[Part, ...]:
        """The parts of one block, synthetic if they are a text that was announced; as many as before, in any case."""
        if not parts:
            return parts
        first = parts[0]
        if type(first) is ToolResultPart:
            self.skills += first.output.startswith(LAUNCH)
        elif not is_users:
            self.skills = 0
        elif type(first) is TextPart and (first.synthetic or self.skills or self._command is not None):
            return self._marked_text(parts, message_id)
        return parts

    def _marked_text(self, parts: tuple[Part, ...], message_id: MessageId) -> tuple[Part, ...]:
        text = "".join([part.text for part in parts if isinstance(part, TextPart)])
        self._command = self._command if self._command == message_id else None
        if announces_text(text):
            self._command = message_id
        elif text.lstrip().startswith(LOCAL_OUTPUT):
            self._command = None
        elif (self.skills or self._command) and text.strip() and not is_wrapped(text):
            self._take()
            return tuple([replace(part, synthetic=True) if isinstance(part, TextPart) else part for part in parts])
        return parts

    def _take(self) -> None:
        """One announced text has come: a command's if it was named last."""
        if self._command is None:
            self.skills -= 1
        self._command = None
