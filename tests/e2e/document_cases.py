"""The worked cases of documents 000, 001, 002 and 004 that an agent's loop can show: presets, windows and usage."""

from msgspec import Struct

from infold.core.budget import Window
from infold.core.compact import CONTINUE_TEXT
from infold.core.messages import Usage
from infold.core.view import REQUEST_TEXT

__all__ = ["CASES", "CONTINUE", "FIRST", "SECOND", "THIRD", "Case"]


class Case(Struct, frozen=True):
    """A preset, the window it is held against, usage that is just below its trigger, and usage that is just over it.

    `tail` is what stays word for word of the three turns before the compaction, in lines; `prefix` opens the summary's text;
    `continues`: a message asks to go on after it.
    """

    preset: str
    wire: str
    window: Window
    usable: int
    below: Usage
    over: Usage
    tail: tuple[str, ...] = ()
    prefix: str = ""
    continues: bool = True

    def shows_notes(self, notes: str) -> list[str]:
        """How a view opens after a compaction."""
        return [f"user: {REQUEST_TEXT}", f"assistant: {self.prefix}{notes}"]


FIRST = ("user: Read page one.", "calls fetch", "gets 6000", "assistant: Page one is read.")
SECOND = ("user: Read page two.", "calls fetch", "gets 6000", "assistant: Page two is read.")
THIRD = ("user: Read page three.", "calls fetch", "gets 6000", *("calls fetch", "gets 10") * 2)
CONTINUE = f"user: {CONTINUE_TEXT}"

CASES = (
    # S1.4: 200k less a reply of 32k; cache writes and reasoning do not count, and the number itself is no overflow.
    Case(
        "opencode-1.1.23",
        "anthropic-messages",
        Window(200_000, output_tokens=32_000),
        168_000,
        Usage(8_000, 10_000, cache_read=150_000, cache_write=5_000),
        Usage(8_001, 10_000, cache_read=150_000, cache_write=5_000),
    ),
    # S1.5: 200k less a reply of 8k; the provider's total counts, and the number itself is overflow.
    Case(
        "opencode-1.1.57",
        "openai-chat",
        Window(200_000, output_tokens=8_000),
        192_000,
        Usage(180_000, 11_999),
        Usage(180_000, 12_000),
        THIRD,
    ),
    # S1.6: the same with an input limit of 120k and a reply of 10k.
    Case(
        "proactive",
        "openai-responses",
        Window(200_000, 120_000, 10_000),
        110_000,
        Usage(100_000, 9_999),
        Usage(100_000, 10_000),
        (*SECOND, *THIRD),
        "[Conversation Summary]\n",
        continues=False,
    ),
    # S1.9: the reply's ceiling again; two fetched pages are within the tail's 15,000 tokens, which begins inside the first turn.
    Case(
        "opencode-1.18",
        "gemini",
        Window(200_000, output_tokens=32_000),
        168_000,
        Usage(160_000, 7_999),
        Usage(160_000, 8_000),
        (FIRST[-1], *SECOND, *THIRD),
    ),
)
