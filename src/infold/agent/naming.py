"""Give a session its title: by a model, in the hidden agent's name, or by code."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

from infold.agent.agents import TITLE
from infold.agent.events import Happening, Stepped, Titled
from infold.api.session import Session
from infold.core.messages import MessageId, TextPart, UserMessage
from infold.core.summary_request import inert
from infold.engine.titles import title_from_reply, title_from_text
from infold.errors import ModelError
from infold.formats.registry import format_named
from infold.ports import Model, ModelRequest, Said

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
