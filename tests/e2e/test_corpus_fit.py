"""`fit` over every transcript: the invented ones, and the real ones where they are at hand."""

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
from msgspec import Struct
from tests.support.corpus import each_transcript
from tests.support.provider_rules import problems

from infold import Fitted, WindowExceeded, fit
from infold.core.messages import Message, TextPart, UserMessage, calls_of, results_of
from infold.formats.registry import ANTHROPIC_MESSAGES, OPENAI_CHAT, WireFormat
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import read_transcript
from infold.transcripts.write import to_anthropic, to_openai_chat

WINDOWS = (8_000, 32_000, 128_000)
MOST_SESSIONS = 10
"""tau and tau2 hold hundreds of dialogues of one kind; the longest are enough."""
LATER = re.compile(r' \(later: "[^\n]*?"\)(?=\s|\Z|""")')
"""What the user said later, which stands behind a sentence."""

STUB_CHARACTERS = 150
"""How much of an instruction a one-line stub shows, a little less than the fold's own figure."""

TOO_LARGE_A_PROMPT = {
    ("codex/agentv_019ed99c.jsonl.gz", "openai-chat", 8_000),
    ("codex/agentv_019f03e0.jsonl.gz", "openai-chat", 8_000),
    ("copilot-cli/agentv_269e1b9e.jsonl.gz", "openai-chat", 8_000),
    ("copilot-cli/agentv_269e1b9e.jsonl.gz", "anthropic-messages", 8_000),
}
"""Sessions whose recorded system prompt alone is larger than the window leaves: nothing can make them fit."""

pytestmark = pytest.mark.slow

Case: TypeAlias = tuple[str, str, int]


class Request(Struct, frozen=True):
    """What a session would be sent as: a format, its items, and what goes beside them."""

    wire: WireFormat
    items: list[Any]
    system: str
    tools: str

    def fit(self, window: int) -> Fitted:
        """The request, made to fit."""
        return fit(self.items, window=window, system=self.system, tools=self.tools, format=self.wire.name)


def requests(entry: dict[str, Any]) -> Iterator[Request]:
    """The sessions of a file in both shapes."""
    sessions = sorted(read_transcript(entry["path"]).sessions, key=lambda session: -len(session.messages))
    for session in sessions[: MOST_SESSIONS if entry["fmt"].startswith("tau") else None]:
        yield from shapes(session)


def shapes(session: RecordedSession) -> Iterator[Request]:
    """A session as OpenAI's chat and as Anthropic's Messages have it."""
    yield Request(OPENAI_CHAT, to_openai_chat(session), "", session.tools)
    written = to_anthropic(session)
    yield Request(ANTHROPIC_MESSAGES, written["messages"], written["system"], session.tools)


@each_transcript()
def test_every_session_fits_every_window(entry: dict[str, Any]) -> None:
    """B8, B9, B12: each request fits and is acceptable, or the system prompt alone is too large and the error says so."""
    exceeded: set[Case] = set()
    for request in requests(entry):
        for window in WINDOWS:
            try:
                fitted = request.fit(window)
            except WindowExceeded as error:
                check_numbers(error, window)
                exceeded.add((entry["file"], request.wire.name, window))
            else:
                check_laws(request, fitted)

    assert exceeded == {case for case in TOO_LARGE_A_PROMPT if case[0] == entry["file"]}


def check_numbers(error: WindowExceeded, window: int) -> None:
    """The error's numbers are true: the part that cannot be folded is over what is usable."""
    assert error.floor_tokens > error.usable_tokens
    assert error.floor_tokens >= error.overhead_tokens > error.usable_tokens
    assert error.usable_tokens < window


def check_laws(request: Request, fitted: Fitted) -> None:
    """The request is within its limit, whole, and holds what the user first asked for."""
    assert fitted.report.upper_tokens <= fitted.report.budget.limit_tokens
    assert problems(request.wire, fitted.messages) == ()
    sent = request.wire.decode(fitted.messages).messages
    assert pairs(sent) == sorted(call.call_id for message in sent for call in calls_of(message))
    check_first_request(fitted, sent)


def pairs(messages: tuple[Message, ...]) -> list[str]:
    """The calls that were answered."""
    return sorted(result.call_id for message in messages for result in results_of(message))


def check_first_request(fitted: Fitted, sent: tuple[Message, ...]) -> None:
    """The first thing a person asked for stands in the request, word for word, clipped or as a stub."""
    wanted = next(genuine_texts(fitted.report.history), "")
    text = " ".join(part.text for message in sent for part in message.parts if isinstance(part, TextPart))

    assert flat(wanted)[:STUB_CHARACTERS] in flat(LATER.sub("", text))


def genuine_texts(messages: tuple[Message, ...]) -> Iterator[str]:
    """What a person said, without what a harness put beside it."""
    for message in messages:
        for part in message.parts:
            if isinstance(message, UserMessage) and isinstance(part, TextPart) and not part.synthetic:
                yield part.text


def flat(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())
