"""The demo's session: an `infold.Session` on a SQLite file, played request by request through a scene.

Does what an agent's loop would do, `prepare_new` before each request and `record` after it, with a provider that counts and a
summariser that plays back what was recorded. Decides nothing; what it shows for each request is a `Request`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import time

from msgspec import Struct

from infold.api.session import Session
from infold.api.session_settings import SessionSettings
from infold.cli.demo_checks import Count, faults_of, read
from infold.cli.demo_scene import FORMAT, Scene, item_of, reply_body, steps_of
from infold.cli.demo_session import RecordedSummariser
from infold.core.entries import Verdict
from infold.core.events import Event
from infold.core.messages import AssistantMessage, Message
from infold.engine.keeper import Ready
from infold.errors import WindowExceeded
from infold.testing.builders import numbered, replies, user
from infold.wiring import open_store

FAREWELL = numbered(
    (user("Thank you. What of all this should the others know first?"), replies("How the new feed is read.")),
    prefix="farewell",
)
"""What is asked after the session, so that the last request waits for an answer like every other."""

STEP_MS = 60_000
"""What a request and its answer take in the session that is played, so that pauses end in it as they would."""


class Request(Struct, frozen=True):
    """One request as the demo shows it, and what is wrong with it, if anything.

    `whole_tokens` is what it would have been without infold, `extends` whether it begins with all of the one before, `verdict`
    what the judge found of the newest summary, `sent` what would have gone out.
    """

    number: int
    tokens: Mapping[str, int]
    whole_tokens: int
    events: tuple[Event, ...]
    extends: bool
    checkpoint: str
    verdict: Verdict | None
    faults: tuple[str, ...]
    sent: Sequence[object]

    @property
    def total_tokens(self) -> int:
        """What the request takes of the window, counted afresh."""
        return sum(self.tokens.values())


class Stage:
    """A session in a file, from its first request on; `close` it when the play is over.

    `stopped` says why the play ended before its time, where a policy left no way on.
    """

    def __init__(self, scene: Scene, path: Path, name: str = "demo") -> None:
        self.scene = scene
        self.path = path
        self.name = name
        self.count = Count(scene.system)
        self.stopped = ""
        self._recording = RecordedSummariser()
        self._whole_tokens = 0
        self._sent: Sequence[object] = []
        self._number = 0
        self._began_ms = round(time() * 1_000) - STEP_MS * len(scene.history)
        self._open()

    def requests(self) -> Iterator[Request]:
        """Every request of the session in turn; each reply reports the usage of the request it answers."""
        for step in steps_of((*self.scene.history, *FAREWELL)):
            try:
                request = self.prepare(step.new, end=step.end)
            except WindowExceeded as error:
                self.stopped = f"request {self._number + 1}: {error}"
                return
            yield request
            if step.reply is not FAREWELL[-1]:
                self.answer(step.reply, request)

    def go_on(self, reply: Message, request: Request, new: Sequence[Message]) -> Request:
        """Answer a request and make another, after the session's own end."""
        assert isinstance(reply, AssistantMessage)
        self.answer(reply, request)
        return self.prepare(new, end=len(self.scene.history))

    def ready(self, new: Sequence[Message] = ()) -> Ready:
        """What would be sent now, with these messages added."""
        return self.session.prepare_new([item_of(message) for message in new], system=self.scene.system)

    @property
    def is_played(self) -> bool:
        """Whether the file holds this session already."""
        return self.session.log.next_sequence > 0

    @property
    def verdict(self) -> Verdict | None:
        """What the judge found of the newest summary."""
        checkpoint = self.session.log.checkpoint
        return checkpoint.verdict if checkpoint else None

    def prepare(self, new: Sequence[Message], *, end: int) -> Request:
        """Make the next request, after the first `end` messages of the session, and look at it from the outside."""
        ready = self.ready(new)
        self._number += 1
        self._whole_tokens += self.count.messages(new)
        return self._looked_at(ready, end)

    def answer(self, reply: AssistantMessage, request: Request) -> None:
        """Let the provider answer, and record it."""
        output_tokens = self.count.messages((reply,))
        self._whole_tokens += output_tokens
        self.session.record(reply_body(reply, input_tokens=request.total_tokens, output_tokens=output_tokens))

    def tokens_of(self, messages: Sequence[object]) -> int:
        """What a request of these messages takes, as the provider counts."""
        return sum(self.count.request(read(messages), "").values())

    def reopen(self) -> None:
        """Close the file, and go on from it as another process would."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def _open(self) -> None:
        self._store = open_store(str(self.path))
        settings = SessionSettings(
            window=self.scene.window,
            policy=self.scene.policy,
            summariser=self._recording,
            format=FORMAT,
            recall=True,
            environ={},
            now_ms=lambda: self._began_ms + STEP_MS * self._number,
        )
        self.session = Session(self._store, self.name, settings)

    def _looked_at(self, ready: Ready, end: int) -> Request:
        checkpoint = self.session.log.checkpoint
        summary = checkpoint.text if checkpoint else ""
        tokens = self.count.request(read(ready.messages), summary)
        faults = faults_of(ready.messages, tokens, self.scene, end)
        before, self._sent = self._sent, ready.messages
        return Request(
            number=self._number,
            tokens=tokens,
            whole_tokens=tokens["system"] + self._whole_tokens,
            events=ready.events,
            extends=ready.messages[: len(before)] == before,
            checkpoint=summary,
            verdict=self.verdict,
            faults=tuple(f"request {self._number}: {fault}" for fault in faults),
            sent=ready.messages,
        )
