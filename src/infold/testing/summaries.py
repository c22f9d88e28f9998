"""Recorded summaries of `coding_session`, and a summariser that plays them back: for the demo, where no model can be asked.

Each line was written for a moment of the session and is true from then on, so the same recording serves every window: a summary
has the lines of the moments that its record shows, after those that the earlier notes had. On the way the summariser goes wrong
as models do: once it names a file that nobody ever wrote, once it will not answer.
"""

from msgspec import Struct

from infold.core.judge import Answer, Told, record_text
from infold.core.messages import Usage
from infold.core.summary_request import SummaryRequest
from infold.core.tokens import estimate_tokens

INVENTED_PATH = "ferry/feed/json_reader.py"
"""A file that the session never heard of."""

INVENTION = f"- The parser of the feed was moved to {INVENTED_PATH}, with its tests."
REFUSAL = "I'm sorry, but I can't go on with this conversation."
INVENTS_AT, REFUSES_AT = 2, (3, 4)
"""Which answers go wrong, counted from 1; the fourth is the second try after the third."""

HEADING = "Notes for whoever goes on:"
LARGEST_SHARE = 0.25
"""Of the room a summary is given; code writes what must not be lost into the rest."""

INPUT_PRICE, OUTPUT_PRICE = 3e-6, 15e-6
"""Dollars a token, as models of middle size ask."""

SECONDS_A_TOKEN, SECONDS_TO_BEGIN = 0.012, 0.9
"""How fast the model was that wrote the recording."""


class Note(Struct, frozen=True):
    """A line of a summary, and words of the session from which on it holds."""

    mark: str
    line: str


NOTES = (
    Note("Port ferry/feed.py", "- ferry/feed.py is being ported to the new JSON feed; CSV stays in use."),
    Note("empty tide at minute", "- An empty tide made tests/test_tide.py fail while it was ported."),
    Note("Decided to track the buoy", "- In ferry/cache.py the buoy is tracked, not the sailing; the tests passed."),
    Note("Decided to close the route", "- The same was done for the route in ferry/models.py."),
    Note("late sailings are shown twice", "- Then the planner, which shows late sailings twice."),
    Note("seasonal crossing at minute", "- Seasonal crossings were the hard case (test_fetch_seasonal)."),
    Note("Decided to render the deck", "- The deck is rendered in ferry/importer.py; the duplicates are gone since."),
    Note("The harbour master called", "- The harbour master wants quiet hours for notices, from 22:00 to 06:00."),
    Note("doubled sailing at minute", "- A doubled sailing broke test_schedule_doubled while the quiet hours were put in."),
    Note("Decided to merge the pilot", "- The quiet hours are in; ferry/exports.py merges the pilot for them."),
    Note("A full import takes 9 minutes", "- The import takes 9 minutes and is to be made faster with what is installed."),
    Note("Name 'tide' is unused", "- make lint still complains about an unused name in ferry/cache.py."),
    Note("Decided to collect the manifest", "- The manifest is collected once, in ferry/notices.py, which saves most of it."),
    Note("The night job failed", "- The night job failed; its log is logs/import.log."),
    Note("remote vessel at minute", "- The cause was a remote vessel (test_load_remote)."),
    Note("Decided to close the ticket", "- ferry/models.py closes the ticket now, so that the night job gets through."),
    Note("/sailings needs paging", "- /sailings gets paging without any change to its public fields."),
    Note("late anchor at minute", "- Late anchors came twice across pages at first (test_route_late)."),
    Note("Decided to render the tide", "- Paging is done; the tide is rendered in ferry/notices.py."),
    Note("Billing counts cancelled crossings", "- Billing counted cancelled crossings; money stays in integers."),
    Note("seasonal harbour at minute", "- The correction had to spare seasonal harbours (test_split_seasonal)."),
    Note("Decided to close the timetable", "- ferry/planner.py closes the timetable before billing looks at it."),
    Note("Clean up the exports", "- The exports are being cleaned up, dead code deleted."),
    Note("partial buoy at minute", "- One deletion went too far and was taken back (test_load_partial)."),
    Note("Decided to store the ticket", "- What was left of the exports stores its ticket in ferry/feed.py."),
    Note("write down in docs/feed.md", "- Last comes docs/feed.md, which explains the new feed to the others."),
)  # fmt: skip
"""The recording, in the order of the session."""


class Recording:
    """A summariser that answers from the recording, at the price and in the time that its words would have taken."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, request: SummaryRequest) -> Told:
        """The recorded summary of what the request shows."""
        self.asked += 1
        asked = record_text(request.messages)
        written = self._written(asked, int(request.output_tokens * LARGEST_SHARE))
        usage = Usage(input=estimate_tokens(request.system) + estimate_tokens(asked), output=estimate_tokens(written))
        return Told(
            Answer(written),
            model="recorded",
            usage=usage,
            cost=usage.input * INPUT_PRICE + usage.output * OUTPUT_PRICE,
            duration_ms=round((SECONDS_TO_BEGIN + usage.output * SECONDS_A_TOKEN) * 1000),
        )

    def _written(self, asked: str, most_tokens: int) -> str:
        if self.asked in REFUSES_AT:
            return REFUSAL
        lines = _within(most_tokens, _lines(asked))
        return "\n".join((HEADING, *lines, *((INVENTION,) if self.asked == INVENTS_AT else ())))


def _lines(asked: str) -> list[str]:
    """What the earlier notes had, and what the record shows; what follows the record is none of a summary's business."""
    record = asked.partition("</record>")[0]
    earlier = asked.partition("<earlier-notes>")[2].partition("</earlier-notes>")[0] or record
    return [note.line for note in NOTES if note.line in earlier or note.mark in record]


def _within(most_tokens: int, lines: list[str]) -> list[str]:
    """The newest lines that there is room for; one at least."""
    kept = lines[-1:]
    for line in reversed(lines[:-1]):
        if estimate_tokens("\n".join((line, *kept))) > most_tokens:
            break
        kept.insert(0, line)
    return kept
