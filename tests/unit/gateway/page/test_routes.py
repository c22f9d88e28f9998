"""The pages that show something."""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from infold.core.entries import (
    Checkpoint,
    Clip,
    Clipping,
    Handle,
    KeptStep,
    MessageEntry,
    Pin,
    Pruning,
    Rejection,
    Restoration,
    SummariserFailures,
    Title,
    Verdict,
)
from infold.core.ledger import Ledger, Quote
from infold.core.messages import (
    AssistantMessage,
    CacheLoss,
    FilePart,
    MessageId,
    ModelRef,
    Overhead,
    SessionId,
    TextPart,
    ToolSchema,
    UserMessage,
)
from infold.errors import StoreBroken, StoreConflict, UsageError
from infold.gateway.page.routes import (
    CONTENT_POLICY,
    MOST_ROWS,
    RecalledPassage,
    encode_key,
    page_routes,
    split_passages,
)
from infold.ports import SessionKey
from infold.session.compaction import Preview
from infold.session.recall import recall
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, replies, result, user

from ...reports.stored_sessions import KEY, reported, stored  # noqa: TID252 - `tests` is no package to name
from .page_client import HERE, EventList, RecordedActions, client

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)> {{ 7 * 7 }} \u202egpj.exe"


def plain(html: str) -> str:
    """A page without its markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def shown(*things: object, path: str = "", status: int = 200) -> str:
    """A page of a session, as markup."""
    page = client(stored(*things)).get(f"{HERE}{path}")  # type: ignore[arg-type]  # messages and entries
    assert page.status_code == status
    return page.text


# The list.


def test_the_list_tells_what_each_session_comes_to() -> None:
    """Requests, compactions, cost, cache hits, size, when it changed, and how full its window is."""
    named = replace(reported(replies("b"), 4_000, cached=3_600, cost=0.25), model=ModelRef("", "gpt-5"))
    text = plain(client(stored(user("a"), named, Checkpoint("x"))).get("/").text)

    for told in ("ferry-42", "gpt-5", "of 7.2k", "$0.250", "90%", "1 min ago"):
        assert told in text


def test_money_lost_to_an_expired_cache_is_told() -> None:
    """B22: a session's page and that of the reply say what was read again after a pause; without a loss there is no such row."""
    lost = replace(reported(replies("b"), 4_000), cache_loss=CacheLoss(3_600, 0.25))
    unpriced = replace(lost, cache_loss=CacheLoss(3_600))

    for path in ("", "/messages/1"):
        assert re.search(
            r"Lost to cache expiry \$0.250 3.6k tokens read again", plain(shown(user("a"), lost, path=path))
        )
        assert re.search(r"Lost to cache expiry 3.6k tokens", plain(shown(user("a"), unpriced, path=path)))
        assert "cache expiry" not in shown(user("a"), reported(replies("b"), 4_000), path=path)


def test_titles_are_shown_and_harmless() -> None:
    """S6.2: a session's title stands in the list and on its page, whatever a model wrote into it."""
    things = (user("a"), replies("b"), Title(f"Ferry timetable {HOSTILE}"))
    pages = (client(stored(*things)).get("/").text, shown(*things))

    for page in pages:
        assert "Ferry timetable" in page
        assert "<script>alert" not in page


def test_first_words_stand_for_a_title() -> None:
    """S6.2: a session that nobody titled is known by what was asked first, on one line of bounded length."""
    spoken = client(stored(user("Port the importer.\nThen rest."), replies("b")))
    titled = client(stored(user("a"), Title("word " * 300))).get("/").text

    assert re.search(r'<a class="open" dir="auto" href="[^"]*">Port the importer\.</a>', spoken.get("/").text)
    assert '<span dir="auto">Port the importer.</span>' in spoken.get(HERE).text.partition("</h1>")[0]
    assert "<title>Port the importer. · infold</title>" in spoken.get(HERE).text
    assert titled.count("word ") < 30


def test_only_clients_of_routed_providers_are_offered() -> None:
    """For the other providers the page has the option that routes them; a page without a gateway has neither."""
    openai, bare = (client(MemoryStore(), routed=routed).get("/").text for routed in (("openai",), ()))

    assert "OPENAI_BASE_URL=http://testserver/v1" in openai
    assert "ANTHROPIC_BASE_URL" not in openai
    assert "<code>--upstream anthropic=https://api.anthropic.com</code>" in openai
    assert ["BASE_URL" in bare, "--upstream" in bare] == [False, False]


def test_an_empty_list_says_how_to_begin() -> None:
    """Without sessions the page says what infold is and where to point a client; a search without success leads back."""
    empty = client(MemoryStore())

    assert "infold stands between an agent and its model" in plain(empty.get("/").text)
    assert "infold demo --keep" in empty.get("/").text
    assert "OPENAI_BASE_URL=http://testserver/v1" in empty.get("/").text
    assert "ANTHROPIC_BASE_URL=http://testserver claude</code>" in empty.get("/").text
    assert "ANTHROPIC_BASE_URL=http://testserver/t/$INFOLD_TOKEN claude</code>" in behind_token(empty)
    assert "Show all sessions" in empty.get("/?q=ferry").text
    assert "no further sessions" in empty.get("/?page=4").text
    assert empty.get("/?page=x").status_code == 400


def behind_token(browser: TestClient) -> str:
    """The list as a server shows it that asks for a token."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        await browser.app({**scope, "infold.token": True}, receive, send)

    return TestClient(served).get("/").text


def test_many_sessions_come_in_pages() -> None:
    """Each page leads to the next, and the search stays."""
    store = MemoryStore()
    for number in range(60):
        stored(user("a"), key=SessionKey("", SessionId(f"ferry & {number}")), store=store)
    page = client(store)

    assert "page=2&amp;q=ferry%20%26" in page.get("/?q=ferry+%26").text
    assert 'rel="prev"' in page.get("/?page=2").text
    assert 'rel="next"' not in page.get("/?page=3").text


def test_tenants_are_told_apart_where_there_are_several() -> None:
    """B28: a few characters of whose a session is, and none where there is nobody else."""
    store = stored(user("a"), key=SessionKey("0123456789abcdef", SessionId("ferry-42")))
    alone = client(store).get("/").text
    stored(user("a"), store=store)

    assert "01234567" not in alone
    assert "01234567" in client(store).get("/").text
    assert "0123456789abcdef" not in client(store).get("/").text
    own = encode_key(SessionKey("0123456789abcdef", SessionId("ferry-42")))
    assert "01234567" in client(store).get(f"/sessions/{own}").text.partition("</h1>")[0]


def test_a_damaged_session_is_told_on_its_line() -> None:
    """The list stays of use while one of its sessions cannot be read."""

    def broken(_: SessionKey) -> int | None:
        raise StoreBroken("here", "entry 3 is damaged", remedy="restore it")

    page = client(stored(user("a")), RecordedActions(window_of=broken)).get("/")

    assert page.status_code == 200
    assert "Here: entry 3 is damaged; restore it." in page.text


# One session.


def test_a_session_is_figures_a_picture_and_its_log() -> None:
    """The window with its limit, the picture with its numbers as a table, and every entry, the newest first."""
    text = shown(
        *(user("port it"), reported(calls("bash"), 3_000), result(300), reported(replies("done"), 4_000, cached=3_000))
    )
    words = plain(text)

    assert "of 7.2k tokens" in words
    assert "The model's window has 8k." in words
    assert "infold&#39;s limit 7.2k" in text
    assert "model&#39;s window 8k" in text
    assert text.count('class="area ') == 5
    assert text.count("data-readout=") == 3
    assert "request 2 · " in text
    assert words.index("done") < words.index("port it", words.index("The log"))


def test_marks_lead_to_what_was_done() -> None:
    """Compactions, prunings and clippings are opened from the picture, the log and the list of changes."""
    text = shown(
        user("a " * 99),
        calls("t"),
        result(300),
        Pruning((Handle("2.0"),), 300),
        user("b"),
        Checkpoint("x", first_kept=4),
    )

    for number in (3, 5):
        assert text.count(f'href="{HERE}/changes/{number}"') == 3
    assert text.count(">undo</button>") == 1
    assert "Undo the newest compaction" in text


def test_undone_changes_are_shown_as_undone() -> None:
    """B1: crossed out in the list, hollow in the picture, and nothing is left to undo."""
    text = shown(user("a"), user("b"), Checkpoint("x", first_kept=1), Restoration(2))

    assert "mark compaction undone" in text
    assert "Undo the newest compaction" not in text
    assert text.count("undone") > 3


def test_a_session_can_be_seen_as_it_stood() -> None:
    """Before an entry: the log and the view of then, with nothing to press, and a way to now."""
    things = (user("a"), replies("b"), user("later"), Checkpoint("x", first_kept=2), replies("c"))
    text = shown(*things, path="?before=2")

    assert "as it stood before entry 2" in text
    assert "later" not in text
    assert "Window then" in text
    assert "<dt>Requests" not in text
    assert "<dt>Requests" in shown(*things)
    assert 'method="post"' not in text
    assert "Go to now" in text
    assert "?before=0" not in shown(*things)
    assert shown(*things, path="?before=0", status=404)
    assert shown(*things, path="?before=soon", status=400)


@pytest.mark.slow
def test_long_sessions_are_shown_in_pieces() -> None:
    """The newest requests and entries, with links to the older ones, and a sentence that says so."""
    many = [message for turn in range(410) for message in (user(f"turn {turn}"), replies("done"))]
    text = shown(*many)

    assert "the newest 400 requests" in plain(text)
    assert f'href="{HERE}?before=20"' in text
    assert text.count('<li class="row') == MOST_ROWS
    assert f'href="{HERE}?before={820 - MOST_ROWS}"' in text


def test_a_long_session_is_walked_both_ways() -> None:
    """From older entries a link leads to newer ones, and from the last of those to the session as it stands."""
    page = client(stored(*(user(str(number)) for number in range(3 * MOST_ROWS))))
    oldest, middle = (page.get(f"{HERE}?before={count * MOST_ROWS}").text for count in (1, 2))

    assert f'rel="prev" href="{HERE}?before={2 * MOST_ROWS}">Newer' in oldest
    assert 'rel="next"' not in oldest
    assert f'rel="prev" href="{HERE}">Newer' in page.get(f"{HERE}?before={3 * MOST_ROWS - 1}").text
    assert f'rel="next" href="{HERE}?before={MOST_ROWS}">Older' in middle
    assert 'rel="prev"' not in page.get(HERE).text


def test_the_table_has_all_that_is_in_the_picture() -> None:
    """Each request's limit, and what was done before it, are told in words too; so are those of the next one."""
    large = replace(reported(replies("b"), 3_000), window_tokens=9_000)
    text = shown(
        *(
            user("a"),
            large,
            user("c"),
            Checkpoint("x", first_kept=2, tokens_before=3_000, tokens_after=1_000),
            Restoration(3),
        ),
        *(reported(replies("d"), 3_000), Rejection(9_500, limit_tokens=9_000)),
    )
    first, second, now = re.findall(r'<tr data-readout="(.*?)".*?</tr>', text, re.DOTALL)

    assert "after" not in first
    assert second.endswith(" · after compaction: 3k → 1k tokens (undone); restoration: entry 3 undone")
    assert now.endswith(" · after rejection: the provider refused 9.5k tokens, 9k are allowed")
    assert [text.count(f"<td>{limit}</td>") for limit in ("8,100", "9,000", "7,200", "8,000")] == [1, 1, 2, 2]
    assert "of 8.1k tokens" in plain(client(stored(user("a"), large, user("c"))).get(f"{HERE}?before=2").text)


def test_the_picture_says_what_fills_the_window_now() -> None:
    """Without scripts too: by band, those that hold nothing left out."""
    text = plain(shown(user("port it"), calls("bash"), result(300)))

    assert re.search(r"now · \d+ tokens estimated \(user \d+, assistant \d+, tool results \d+\) ", text)


def test_models_and_endings_are_told() -> None:
    """Who answered before the model that does now, and which replies did not come to their end."""
    small, large = (replace(replies("so far"), model=ModelRef("", name)) for name in ("small", "large"))
    failed = replace(large, parts=(), error="overloaded")
    things = (user("a"), replace(small, finish="length"), user("b"), failed)

    assert "large before it small" in plain(shown(*things))
    assert [ending in shown(*things) for ending in (">cut off</span>", ">failed</span>")] == [True, True]
    assert "Ended cut off" in plain(shown(*things, path="/messages/1"))
    assert "Overloaded." in plain(shown(*things, path="/messages/3"))


def test_pins_can_be_set_from_the_log() -> None:
    """A pinned part offers its release, another its pin."""
    text = shown(user("a"), user("b"), Pin(Handle("0.0")))

    assert 'aria-label="Release part 0.0"' in text
    assert 'aria-label="Pin part 1.0"' in text


def test_a_window_that_is_too_full_says_so() -> None:
    """In words, not by a colour alone, and what happens next."""
    store = stored(user("word " * 4_000), replies("b"))

    assert "Over the limit" in client(store, RecordedActions(window_of=lambda _: 2_000)).get(HERE).text
    assert "Over the limit" not in client(store).get(HERE).text


def test_an_unknown_window_is_said_to_be_unknown() -> None:
    """Without a limit there is no bar and no line; one far away is told in words."""
    store = stored(user("a"), replies("b"))

    assert "the limit is not known" in client(store, RecordedActions(window_of=lambda _: None)).get(HERE).text
    assert "far above this chart" in client(store, RecordedActions(window_of=lambda _: 1_000_000)).get(HERE).text
    assert "of the window" not in client(store, RecordedActions(window_of=lambda _: None)).get("/").text


# Messages, changes, recall.


def test_a_message_opens_with_all_its_text() -> None:
    """B1: as it was said, with what the model sees instead, and a pin; very long ones on request."""
    things = (user("x" * 30_000), calls("t"), result(output="the key is 4711 " * 40), Pruning((Handle("2.0"),), 300))
    text = shown(*things, path="/messages/2")

    assert text.count("the key is 4711") == 40
    assert "The model sees instead" in text
    assert "[pruned: " in text
    assert "10,000 characters more" in shown(*things, path="/messages/0.0")
    assert "characters more" not in shown(*things, path="/messages/0?all=yes")
    assert "(empty" not in shown(*things)


def test_a_compaction_opens_as_before_and_after() -> None:
    """B5, B22: what was folded and kept, the text in its place, the judge's verdict, the ledger, the price, and undo."""
    fold = Checkpoint(
        "By code.\n\nAll was told.",
        narrative="All was told.",
        first_kept=3,
        reason="price",
        saving=0.39,
        tokens_before=54_000,
        tokens_after=13_000,
        summariser="gpt-5-mini",
        cost=0.0042,
        duration_ms=2_900,
        ahead=True,
        verdict=Verdict("All was told.", ("invented",), ("It is in lost/city.py.",), ("lost/city.py",)),
        ledger=Ledger(requests=(Quote("0.0", "port it"),)),
    )
    said = (user("port it"), calls("t"), result(90), user("go on"))
    words = plain(shown(*said, fold, reported(replies("b"), 1_000, cached=250), path="/changes/4"))

    for told in (
        *(
            "3 messages left the view because continuing without it would have cost more; it is expected to save",
            "$0.39; 1 stayed.",
            "54k → 13k",
            "24% remain",
        ),
        *(
            "gpt-5-mini",
            "written ahead",
            "$0.0042",
            "2.9 s",
            "25% from cache, 750 tokens not cached",
            "by code By code.",
            "by gpt-5-mini All was told.",
        ),
        *("Accepted with remarks", "It is in lost/city.py.", "Not found in the session", "Requests 1", "Undo"),
    ):
        assert told in words, told


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (None, "no model wrote a summary"),
        (Verdict("fine"), "Accepted unchanged"),
        (Verdict("fine", judged=False), "Accepted as it was written: the preset has no judge."),
        (Verdict("", ("refused",)), "Rejected: the model declined"),
        (Verdict("", ("too-short", "repetitive")), "Rejected: it was too short to say anything; it repeated itself"),
        (Verdict("", ("failed",), error="m: status 401: no key"), "Error of the summariser: m: status 401: no key"),
        (Verdict("", ("invented", "invented")), "Rejected: it named things that occur nowhere in the session. Code"),
    ],
)
def test_the_judge_is_quoted(verdict: Verdict | None, words: str) -> None:
    """B5: whether a summary was accepted, repaired or rejected, and why."""
    assert words in plain(shown(user("a"), Checkpoint("x", verdict=verdict), path="/changes/1"))


def test_a_pause_of_the_summariser_is_shown() -> None:
    """B36: how often it failed in a row, and when it is asked again."""
    words = plain(
        shown(user("a"), Checkpoint("x", failing=SummariserFailures(2, 1_700_000_000_000)), path="/changes/1")
    )

    assert "Summaries failed in 2 compactions in a row. The next attempt is after" in words


def test_a_compaction_names_the_steps_that_it_kept() -> None:
    """B52: next to the text stands which messages the view shows in their own form."""
    reply = AssistantMessage(MessageId("kept-1"), (TextPart("Ported."),))
    fold = Checkpoint("All told.", first_kept=3, steps=(KeptStep(1, (reply,)),), tokens_before=900, tokens_after=300)
    words = plain(shown(user("port it"), replies("Ported."), user("go on"), user("now"), fold, path="/changes/4"))

    assert "Earlier steps in their own form 1 step, results left out" in words
    assert "Messages 1." in words


def test_earlier_compactions_say_why_they_cannot_be_undone() -> None:
    """What a later one stands on, or what was undone already, has no button and says so."""
    things = (
        user("a"),
        Checkpoint("first told"),
        user("b"),
        Checkpoint(""),
        Restoration(3),
        user("c"),
        Checkpoint("second"),
    )

    assert "A later compaction builds on it" in shown(*things, path="/changes/1")
    assert "It was undone" in shown(*things, path="/changes/3")
    assert "no text replaces them" in shown(*things, path="/changes/3")
    assert "Checkpoint of an earlier compaction" in shown(*things, path="/changes/6")


def test_a_long_fold_is_shown_by_its_ends() -> None:
    """The first and last messages that were folded, and the others on a click."""
    text = shown(*(user(f"said {number}") for number in range(60)), Checkpoint("x"), path="/changes/60")

    assert "36 messages more" in plain(text)
    assert text.count("said ") == 60


def test_prunings_and_clippings_open_as_what_they_hid() -> None:
    """Each part leads to its whole text; the change can be undone while it hides anything."""
    things = (
        user("word " * 99),
        calls("t"),
        result(300),
        Pruning((Handle("2.0"),), 300),
        Clipping((Clip(Handle("0.0"), 9, 9),)),
    )
    pruning, clipping = (shown(*things, path=f"/changes/{number}") for number in (3, 4))

    assert f'href="{HERE}/messages/2.0#p0"' in pruning
    assert ("became stubs" in pruning, "lost their middle" in clipping) == (True, True)
    assert ("data-undo" in pruning, "data-undo" in clipping) == (True, True)
    assert "folded later" in shown(*things, Checkpoint("x"), path="/changes/3")
    assert "It was undone." in shown(*things, Restoration(3), path="/changes/3")


def test_recall_finds_what_left_the_view() -> None:
    """B6: by words or by handle, each passage leading to its message; what is wrong is said in place."""
    things = (user("the harbour key is quay-4711"), user("b"), Checkpoint("x", first_kept=1))

    assert "quay-4711" in shown(*things, path="/recall?q=harbour+key")
    assert f'href="{HERE}/messages/0.0"' in shown(*things, path="/recall?q=0.0")
    assert "Nothing of this session mentions" in shown(*things, path="/recall?q=submarine")
    assert "Words find passages" in shown(*things, path="/recall")
    assert 'role="alert"' in shown(*things, path="/recall?q=9.9", status=404)
    assert (
        client(stored(*things))
        .get(f"/sessions/{encode_key(SessionKey('', SessionId('gone')))}/recall?q=key")
        .status_code
        == 404
    )


def test_a_compaction_can_be_looked_at_before() -> None:
    """B20: what it would fold and leave; where nobody can tell, or it cannot be done, the form says so."""
    store = stored(user("a"))
    seen = client(store).get(f"{HERE}/compact?focus=the+parser&up_to=4").text
    refused = client(store, RecordedActions(UsageError("there is nothing to fold"))).get(f"{HERE}/compact")

    assert "3 messages would be folded" in plain(seen)
    assert "9k → 1k" in plain(seen)
    assert ">the parser</textarea>" in seen
    assert 'value="4"' in seen
    assert (refused.status_code, "There is nothing to fold." in refused.text) == (400, True)
    assert "not become smaller" not in seen
    assert (
        "not become smaller"
        in client(store, RecordedActions(preview=Preview(2, 3, 68, 134, "x"))).get(f"{HERE}/compact").text
    )
    pruned = client(store, RecordedActions(preview=Preview(0, None, 9_000, 7_000, ""))).get(f"{HERE}/compact").text
    assert "Pruning would be enough" in pruned
    assert "The checkpoint" not in pruned
    idle = client(store, RecordedActions(preview=Preview(0, None, 900, 900, ""))).get(f"{HERE}/compact").text
    assert "Nothing would be done: the checkpoint would not be smaller" in idle
    assert "Pruning would be enough" not in idle


def test_what_was_done_is_said_once() -> None:
    """After a form the page says what was done, in words of ours alone."""
    assert "infold compacts again" in shown(user("a"), path="?done=undone")
    assert "pinned" in shown(user("a"), path="/messages/0?done=pinned").lower()
    assert "hacked" not in shown(user("a"), path="?done=hacked")


def test_what_was_done_to_a_line_is_said_there() -> None:
    """After a pin the page opens at its line, so the words stand in it; where the line is on another page, at the top."""
    here, elsewhere = (shown(user("a"), user("b"), path=f"?done=pinned&at={at}") for at in (1, 7))

    assert "Pinned:" in here.partition('id="e1"')[2].partition("</li>")[0]
    assert (here.count("Pinned:"), elsewhere.count("Pinned:")) == (1, 1)
    assert "Pinned:" in elsewhere.partition("<section")[0]


def test_a_focus_is_asked_for_where_a_model_reads_it() -> None:
    """Where code alone writes, there is no field that does nothing, and a word on what to set."""
    store = stored(user("a"))
    for path in (HERE, f"{HERE}/compact"):
        by_code, by_model = (client(store, RecordedActions(summarises=one)).get(path).text for one in (False, True))
        assert ('name="focus"' in by_code, 'name="focus"' in by_model) == (False, True)
        assert ("compaction.model" in by_code, "compaction.model" in by_model) == (True, False)
        assert "data-compact" in by_code


def test_what_is_no_number_is_told_in_words() -> None:
    """An address that somebody typed is answered in words of the page, not of the program."""
    assert "No message &#39;abc&#39;" in shown(user("a"), path="/messages/abc", status=404)
    assert "The first message to keep must be a number" in shown(user("a"), path="/compact?up_to=abc", status=400)


# Hostile content.


def test_nothing_that_was_said_becomes_markup() -> None:
    """Ids, text, tool names, outputs, ledgers and queries are text on every page, whatever they hold."""
    key = SessionKey("<b>", SessionId(HOSTILE))
    quotes = Ledger(requests=(Quote("0.0", HOSTILE),), constraints=(Quote(HOSTILE, HOSTILE),))
    verdict = Verdict(HOSTILE, ("invented",), (HOSTILE,), (HOSTILE,))
    things = (
        *(user(HOSTILE), calls(HOSTILE, arguments=HOSTILE), result(output=HOSTILE * 9), Pruning((Handle("2.0"),), 9)),
        *(replace(replies(HOSTILE), model=ModelRef("", HOSTILE)), user("b")),
        Checkpoint(HOSTILE, first_kept=5, summariser=HOSTILE, verdict=verdict, ledger=quotes),
    )
    store = stored(*things, key=key)
    stored(user("a"), store=store)
    here, page = f"/sessions/{encode_key(key)}", client(store, RecordedActions(UsageError(HOSTILE)))
    paths = ("", "/messages/0", "/messages/1", "/messages/2", "/changes/3", "/changes/6", "/recall?q=alert", "/compact")
    for path in ("/", "/?q=<script>alert", *(f"{here}{path}" for path in paths), f"{here}/recall?q=<img src=x>"):
        text = page.get(path).text
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path
        assert "\u202e" not in text, path
        assert "{{ 7" not in text or "49" not in plain(text), path


@pytest.mark.parametrize("make", [lambda: "x" * 400_000, lambda: "\n" * 400_000, lambda: "\x00\x1b" * 200_000])
def test_huge_messages_do_not_make_huge_pages(make: Callable[[], str]) -> None:
    """A message of any size is a short line in the log, and is opened in a piece of bounded size."""
    things = (user(make()), replies("b"))

    assert len(shown(*things)) < 60_000
    assert len(shown(*things, path="/messages/0")) < 200_000


# Media.


def test_a_medium_can_be_downloaded() -> None:
    """B35: a message's page links each stored medium, which comes as a file and never as a page of its own."""
    store = MemoryStore()
    key = SessionKey("", SessionId("ferry-42"))
    store.keep_media(key, {"d": b"<svg onload=alert(1)>"})
    kept = FilePart("image/svg+xml", 9, 'a "b".svg', byte_size=21, digest="d")
    message = UserMessage(MessageId("m"), (kept, FilePart("image/png", 9)))
    store.append(key, [MessageEntry(message)], expected=0)
    page = client(store).get(f"{HERE}/messages/0").text
    file = client(store).get(f"{HERE}/media/0.0?n=7")
    missing = client(store).get(f"{HERE}/media/0.1")

    assert page.count("/media/0.0?n=0") == 1
    assert "/media/0.1" not in page
    assert (file.status_code, file.content) == (200, b"<svg onload=alert(1)>")
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20%22b%22.svg"
    assert file.headers["x-content-type-options"] == "nosniff"
    assert missing.status_code == 404


# Forms.


def test_each_form_is_passed_on() -> None:
    """B20: compact with a focus up to a message, undo, pin and release; each leads back to a page that says what was done."""
    actions = RecordedActions()
    page = client(stored(user("a")), actions)
    answers = [
        page.post(f"{HERE}/compact", data={"focus": " the parser ", "up_to": "4"}),
        page.post(f"{HERE}/compact", data={"focus": ""}),
        page.post(f"{HERE}/undo", data={"sequence": "7"}),
        page.post(f"{HERE}/undo", data={"sequence": ""}),
        page.post(f"{HERE}/pin", data={"handle": "0.0", "pinned": "yes"}),
        page.post(f"{HERE}/pin", data={"handle": "0.0", "pinned": "no", "back": "message"}),
    ]

    assert [answer.status_code for answer in answers] == [303] * 6
    assert actions.asked == [
        ("compact", KEY, "the parser", 4),
        ("compact", KEY, "", None),
        ("undo", KEY, 7),
        ("undo", KEY, None),
        ("pin", KEY, "0.0", True),
        ("pin", KEY, "0.0", False),
    ]
    assert [answer.headers["location"] for answer in answers[1:]] == [
        f"{HERE}?done=compacted",
        f"{HERE}?done=undone",
        f"{HERE}?done=undone",
        f"{HERE}?done=pinned&at=0#e0",
        f"{HERE}/messages/0?done=released",
    ]


def test_nothing_done_is_not_called_done() -> None:
    """B20: where what would stand for the messages is no smaller, the page says that nothing was compacted."""
    page = client(stored(user("a")), RecordedActions(is_done=False))
    answer = page.post(f"{HERE}/compact", data={"focus": ""})

    assert answer.headers["location"] == f"{HERE}?done=not-compacted"
    assert "Nothing was compacted: the checkpoint would not be smaller." in page.get(f"{HERE}?done=not-compacted").text


@pytest.mark.parametrize(
    ("refusal", "status"),
    [(UsageError("there is nothing to fold"), 400), (StoreConflict("s", expected=1, actual=2), 409)],
)
def test_a_refusal_is_shown_in_its_own_words(refusal: UsageError, status: int) -> None:
    """What cannot be done is a page with the reason and a way back to the session."""
    page = client(stored(user("a")), RecordedActions(refusal)).post(f"{HERE}/compact", data={"focus": "x"})

    assert page.status_code == status
    assert str(refusal)[1:20].replace("'", "&#39;") in page.text
    assert "Back to the session" in page.text


def test_nothing_is_done_for_what_is_no_form() -> None:
    """Another body, a handle that is none, or a link instead of a form change nothing."""
    actions = RecordedActions()
    page = client(stored(user("a")), actions)

    assert page.post(f"{HERE}/undo", json={"sequence": 1}).status_code == 400
    assert page.post(f"{HERE}/pin", data={"handle": "0/../x", "pinned": "yes"}).status_code == 400
    assert page.post(f"{HERE}/compact", data={"up_to": "x"}).status_code == 400
    assert page.post("/sessions/nope/undo", data={"sequence": "1"}).status_code == 404
    assert page.get(f"{HERE}/undo").status_code == 405
    assert actions.asked == []


# All pages.

THINGS = (
    *(user("a"), reported(calls("t"), 900), result(300), Pruning((Handle("2.0"),), 300), reported(replies("b"), 700)),
    *(Clipping((Clip(Handle("0.0"), 1, 1),)), Checkpoint("x", first_kept=4), user("c")),
)
PAGES = (
    *(
        "/",
        HERE,
        f"{HERE}?before=4",
        f"{HERE}/messages/2",
        f"{HERE}/changes/3",
        f"{HERE}/changes/5",
        f"{HERE}/changes/6",
    ),
    *(f"{HERE}/recall", f"{HERE}/recall?q=word", f"{HERE}/compact", "/?q=nothing"),
)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_works_under_the_strict_policy(path: str) -> None:
    """No inline script, style or handler, and nothing from elsewhere, so that the strictest content policy holds."""
    page = client(stored(*THINGS)).get(path)

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script(?! src=\"/static/)", page.text)
    assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", page.text)
    assert set(re.findall(r"<(\w+)[^>]*\sid=\"main\"", page.text)) == {"main"}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_sound_for_assistive_technology(path: str) -> None:
    """A language, one main heading, ids that occur once, a label for every field, and names for pictures."""
    text = client(stored(*THINGS)).get(path).text
    ids = re.findall(r"\sid=\"([^\"]+)\"", text)

    assert '<html lang="en">' in text
    assert text.count("<h1") == 1
    assert len(ids) == len(set(ids))
    for field in re.findall(r"<(?:input(?! type=\"hidden\")|textarea)[^>]*\sid=\"([^\"]+)\"", text):
        assert f'<label for="{field}"' in text
    assert all("aria-label" in found for found in re.findall(r"<svg[^>]*role=\"img\"[^>]*>", text))


def test_the_policy_allows_nothing_inline_and_nothing_foreign() -> None:
    """The policy is the strictest that these pages need."""
    assert "unsafe" not in CONTENT_POLICY
    assert "http" not in CONTENT_POLICY
    assert CONTENT_POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'")


def test_style_and_scripts_are_in_the_package() -> None:
    """Each file the pages name is served, under a name that changes with its content."""
    page = client(stored(*THINGS))
    files = set(re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", page.get("/").text))

    assert {name.partition("?")[0].rpartition("/")[2] for name in files} == {
        "mark.svg",
        "page.css",
        "page.js",
        "theme.js",
    }
    assert all(re.search(r"\?[0-9a-f]{10}$", name) and page.get(name).status_code == 200 for name in files)


def test_the_page_may_stand_below_another_path() -> None:
    """Mounted elsewhere, all its links stay where it is."""
    routes = page_routes(stored(*THINGS), RecordedActions(), EventList())
    page = TestClient(Starlette(routes=[Mount("/infold", routes=routes)]), follow_redirects=False)
    text = page.get(f"/infold{HERE}").text

    assert all(
        link.startswith("/infold/") for link in re.findall(r"(?:href|action|src|data-events)=\"(/[^\"]*)\"", text)
    )
    assert page.post(f"/infold{HERE}/undo", data={"sequence": "6"}).headers["location"].startswith("/infold/sessions/")


def test_events_are_a_stream() -> None:
    """A page of a session, or the list, hears news as server-sent events."""
    page = client(stored(*THINGS))
    heard = page.get(f"/events?session={HERE.rpartition('/')[2]}")

    assert heard.headers["content-type"].startswith("text/event-stream")
    assert heard.text.startswith("retry: ")
    assert page.get("/events").status_code == 200
    assert page.get("/events?session=nope").status_code == 404


def test_what_has_a_version_is_kept() -> None:
    """A browser asks once for the style that a page names, and anew where no version is named or another."""
    page = client(stored(user("a")))
    [named] = re.findall(r'href="(/static/page\.css\?\w+)"', page.get("/").text)
    kept = [page.get(path).headers["cache-control"] for path in (named, "/static/page.css", "/static/page.css?other")]

    assert kept == ["private, max-age=31536000, immutable", "no-cache", "no-cache"]


# Passages of recall.


def test_passages_are_told_apart_by_their_handles() -> None:
    """Each begins with its handle and title; words of recall's own have none."""
    answer = "[2.0] bash ls\nharbour.txt\n\nquay.txt\n\n[0.0]\nlook\n\n[also found in 7.1; ask for a handle to read its part]"

    assert split_passages(answer) == (
        RecalledPassage("2.0", "bash ls", "harbour.txt\n\nquay.txt"),
        RecalledPassage("0.0", "", "look"),
        RecalledPassage("", "", "[also found in 7.1; ask for a handle to read its part]"),
    )
    assert split_passages("[2.0] x\nlook\n\n[passages only; ask for a handle to read its part]")[0].text == "look"
    assert split_passages("[2.0] x\n[passages only; ask for a handle to read its part]\n\nlook")[0].text.endswith(
        "look"
    )
    assert split_passages("") == ()


def test_what_recall_says_is_understood() -> None:
    """B6: an answer of the engine's own comes apart into the parts it names; that nothing was found is a remark."""
    store = stored(user("where is the harbour key?"), calls("bash"), result(output="harbour key: quay-4711"))

    assert {passage.handle for passage in split_passages(recall(store, KEY, "harbour key"))} == {"0.0", "2.0"}
    assert [passage.handle for passage in split_passages(recall(store, KEY, "submarine"))] == [""]


def test_the_tools_of_each_request_are_listed() -> None:
    """B8: each tool's share of the window, the largest first, which were never called, and the working window."""
    schemas = (ToolSchema("read", 100), *(ToolSchema(f"mcp__{n}", 40 - n) for n in range(12)), ToolSchema(HOSTILE, 400))
    reply = replace(reported(calls("read"), 500), overhead=Overhead(10, 900, schemas))
    later = replace(reported(replies("b"), 700), overhead=Overhead(10, 900))
    store = stored(user("a"), reply, result(10), later)
    actions = RecordedActions()
    actions.working_window = 2_000
    page = client(store, actions).get(HERE).text
    text = plain(page)

    assert "Tools in each request" in text
    assert re.search(r"read 100 · 1\.\d% mcp__0 40 · 0\.5% never called", text)
    assert "6 smaller tools" in text
    assert "The model's window has 8k, the working window 2k." in text
    assert "<script>alert" not in page
    bare = replace(later, overhead=Overhead(10))
    assert "Tools in each request" not in shown(user("a"), reply, result(10), bare)
