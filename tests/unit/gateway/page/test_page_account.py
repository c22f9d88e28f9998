"""What the page says of a session in a few sentences, and which figures it leaves out."""

import re

from msgspec.structs import replace

from infold.core.entries import Checkpoint
from infold.core.ledger import Ledger, Quote
from infold.core.messages import ModelRef
from infold.testing.builders import calls, replies, result, user

from ...reports.stored_sessions import reported, stored  # noqa: TID252 - `tests` is no package to name
from .page_client import HERE, client


def plain(html: str) -> str:
    """A page without its markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def shown(*things: object, path: str = "", status: int = 200) -> str:
    """A page of a session, as markup."""
    page = client(stored(*things)).get(f"{HERE}{path}")  # type: ignore[arg-type]  # messages and entries
    assert page.status_code == status
    return page.text


def test_a_session_opens_with_what_happened() -> None:
    """Requests, compactions, what was sent in place of what, the rules that were kept, and what recall found."""
    rule, other = "Never touch vendor/.", "Always run the tests."
    ledger = Ledger(constraints=(Quote("0.0", rule), Quote("0.0", other)))
    text = shown(
        *(user(f"{rule} {'word ' * 9_000}"), replies("a"), user("b")),
        Checkpoint(f"Rules:\n- {rule}", first_kept=2, ledger=ledger),
        *(calls("recall", arguments='{"query": "the old harbour"}'), result(output="[0.0] user\nword")),
        *(calls("infold_recall", arguments="{"), result(output="nothing mentions it"), replies("c")),
    )
    account = plain(text[text.index('id="account"') : text.index('id="figures"')])

    assert re.search(
        r"In 4 requests infold compacted this session once and sent about [\d.]+k tokens instead of 3\d.\dk\.", account
    )
    assert "Without it, 4 requests would not have fitted." in account
    assert f"Rule of the user, kept word for word {rule} message&nbsp;0" in account
    assert other not in account
    assert "Found again by recall the old harbour message&nbsp;4 " in account
    assert "Money" not in account


def test_a_session_with_room_says_that_all_was_sent() -> None:
    """Before anything is compacted there is nothing to account for; before the first reply neither."""
    assert "1 request; the whole history was sent each time" in plain(shown(user("a"), replies("b")))
    assert "No reply is recorded yet." in plain(shown(user("a")))
    assert 'id="account"' not in shown(user("a"), replies("b"), user("c"), path="?before=2")


def test_a_long_session_is_accounted_for_by_its_newest_requests() -> None:
    """Every number of a sentence is of the same requests: three compactions are in the log, one between those shown."""
    turns = [one for _ in range(400) for one in (user("word " * 20), replies("b"))]
    folds = [Checkpoint("x", first_kept=2), user("b"), replies("c"), Checkpoint("y", first_kept=4), *turns[:2]]
    last = (Checkpoint("z", first_kept=800), user("d"), replies("e"))
    text = plain(shown(user("word " * 9_000), replies("a"), *folds, *turns, *last))
    quiet = plain(shown(user("word " * 9_000), replies("a"), *folds, *turns))

    assert "In the newest 400 requests infold compacted this session once and sent about" in text
    assert "instead of at least" in text
    assert re.search(r"Without it, at least \d+ requests would not have fitted", text)
    assert "In the newest 400 requests infold changed nothing more and sent about" in quiet


def test_money_saved_and_lost_is_told() -> None:
    """What sending everything would have cost, what summaries and cache misses did, and the difference."""
    sent, folded = (
        replace(reported(replies("b"), prompt, cached=cached), model=ModelRef("", "priced"))
        for prompt, cached in ((9_000, 8_000), (3_000, 1_000))
    )
    things = (user("word " * 9_000), sent, user("c"), Checkpoint("x", first_kept=2, cost=0.001), folded)
    text = plain(shown(*things))

    assert re.search(
        r"Money Sending everything would have cost at least \$0\.00\d+ more\. Summaries cost \$0\.0010\.", text
    )
    assert "Cache misses after compactions cost $0.018." in text
    assert re.search(r"Spent by infold \$0\.01\d", text)
    assert "d by infold" not in plain(shown(user("a"), sent))


def test_what_is_not_known_does_not_stand_in_the_list() -> None:
    """Without a cost or a cache hit there is no such column, and no dash; the list says what infold does."""
    bare = plain(client(stored(user("a"), replies("b"))).get("/").text)
    priced = plain(client(stored(user("a"), reported(replies("b"), 900, cached=450))).get("/").text)

    assert [word in bare for word in ("Cost", "From cache", "–")] == [False, False, False]
    assert [word in priced for word in ("Cost", "From cache", "50%")] == [True, True, True]
    assert "infold keeps each session inside its model's window." in bare
    assert "Connect an agent" in bare


def test_a_cost_that_is_known_in_part_says_so() -> None:
    """On the session's page and in the list."""
    said = client(
        stored(user("a"), reported(replies("b"), 900, cost=0.25), user("c"), reported(replies("d"), 900, cost=0.0))
    )

    assert ["≥ $0.250" in plain(said.get(path).text) for path in ("/", HERE)] == [True, True]
