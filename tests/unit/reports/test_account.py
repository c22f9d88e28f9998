"""The account of a session: what was sent in place of what, rules, recall and money."""

from msgspec.structs import replace

from infold.catalogue import Prices
from infold.core.entries import Checkpoint, Handle, Pruning, Restoration
from infold.core.ledger import Ledger, Quote
from infold.core.messages import AssistantMessage, ModelRef, SessionId
from infold.reports.account import KeptRule, Money, RecallUse, SessionAccount, session_account
from infold.reports.timeline import build_timeline
from infold.testing.builders import calls, replies, result, user

from .stored_sessions import earlier_of, entries_of, reported

PRICES = Prices(input=10.0, output=50.0, cache_read=1.0, cache_write=12.0)
LONG = user("word " * 4_000)


def account(*things: object, limit: int = 0, start: int = 0) -> SessionAccount:
    """The account of the entries from a number on."""
    entries = entries_of(*things)  # type: ignore[arg-type]  # messages and entries
    return session_account(
        build_timeline(SessionId("s"), entries[start:], earlier_of(entries)),
        entries[start:],
        limit_of=lambda _: limit,
        prices_of={"priced": PRICES}.get,
    )


def priced(text: str, prompt: int, cached: int = 0) -> AssistantMessage:
    """A reply of a model with known prices."""
    return replace(reported(replies(text), prompt, cached=cached), model=ModelRef("", "priced"))


def test_sent_and_whole_are_the_same_until_something_is_folded() -> None:
    """Both are sums over all requests; what was folded is left out of what was sent only."""
    plain = account(LONG, replies("a"), user("b"), replies("c"))
    folded = account(LONG, replies("a"), user("b"), Checkpoint("x", first_kept=2), replies("c"))

    assert plain.sent_tokens == plain.whole_tokens == folded.whole_tokens
    assert (plain.left_out_tokens, plain.requests) == (0, 2)
    assert folded.left_out_tokens > 3_000


def test_requests_that_would_not_have_fitted_are_counted() -> None:
    """Against the limit of each request; without a known limit none is."""
    things = (LONG, replies("a"), user("b"), Checkpoint("x", first_kept=2), replies("c"))

    assert [account(*things, limit=limit).over_limit for limit in (0, 1_000, 100_000)] == [0, 2, 0]


def test_rules_are_those_that_the_checkpoint_quotes_in_full() -> None:
    """A rule that the checkpoint has no room for is not called kept; line breaks do not matter, nor do broken handles."""
    rules = (Quote("0.0", "Never touch\nvendor/."), Quote("?", "Run the tests."), Quote("0.0", "Be brief."))
    checkpoint = Checkpoint(
        "- Never touch vendor/. [0.0]\n- Run the tests.", first_kept=2, ledger=Ledger(constraints=rules)
    )

    assert account(LONG, replies("a"), user("b"), checkpoint).rules == (
        KeptRule("Never touch\nvendor/.", 0),
        KeptRule("Run the tests.", None),
    )


def test_recall_is_told_with_what_it_asked_for() -> None:
    """Calls that were answered, under each name of the tool, and whether something was found."""
    found = account(
        *(user("a"), calls("recall", arguments='{"query": "the quay"}'), result(output="[0.0] user\na")),
        *(calls("mcp__infold__recall", arguments="{"), result(output="nothing mentions it")),
        *(calls("read"), result(output="[0.0]"), calls("recall", arguments='{"query": "open"}')),
    )

    assert found.recalls == (RecallUse(1, "the quay", has_found=True), RecallUse(3, "", has_found=False))


def test_money_is_counted_at_the_least() -> None:
    """Tokens left out at the price of cached input; after a fold, what the cache did not have and was not new."""
    fold = Checkpoint("x", first_kept=2, cost=0.5)
    found = account(LONG, priced("a", 9_000, 8_000), user("b"), fold, priced("c", 3_000, 1_000))
    new_tokens = 10

    assert found.money is not None
    assert found.money.left_out == found.left_out_tokens * 1.0 / 1_000_000
    assert found.money.summaries == 0.5
    assert 0 < (3_000 - 1_000) * 11.0 / 1_000_000 - found.money.cache_misses < new_tokens * 11.0 / 1_000_000
    assert found.money.saved == found.money.left_out - 0.5 - found.money.cache_misses


def test_without_a_cache_nothing_is_missed() -> None:
    """A provider that never served anything from a cache would not have done so without a fold either."""
    found = account(LONG, priced("a", 9_000), user("b"), Checkpoint("x", first_kept=2), priced("c", 3_000))

    assert found.money is not None
    assert found.money.cache_misses == 0


def test_without_prices_there_is_no_money() -> None:
    """Neither for a reply without usage, nor for a model whose price is not known."""
    unknown = replace(reported(replies("a"), 900), model=ModelRef("", "unknown"))

    assert account(LONG, replies("a")).money is None
    assert account(LONG, unknown).money is None
    assert account(LONG, priced("a", 900)).money == Money(0.0, 0.0, 0.0)


def test_a_part_of_a_session_says_so() -> None:
    """Where the timeline begins later, the account is of its requests."""
    things = (LONG, replies("a"), user("b"), replies("c"))

    assert [account(*things, start=start).is_partial for start in (0, 2)] == [False, True]
    assert account(*things, start=2).requests == 1
    assert account(user("a")).requests == 0


def test_a_part_counts_its_own_changes_alone() -> None:
    """Compactions, shortenings and the price of summaries are those between the requests shown; what was undone is left out."""
    first, second = Checkpoint("x", first_kept=2, cost=0.5), Checkpoint("y", first_kept=5, cost=0.25)
    things = (LONG, priced("a", 900), user("b"), first, priced("c", 900), user("d"), second, priced("e", 900))
    undone = (LONG, replies("a"), user("b"), Checkpoint("x", first_kept=2), replies("c"), Restoration(3), replies("d"))

    def counted(one: SessionAccount) -> tuple[int, int, float]:
        return one.compactions, one.shortenings, one.money.summaries if one.money else 0.0

    assert counted(account(*things)) == (2, 0, 0.75)
    assert counted(account(*things, start=5)) == (1, 0, 0.25)
    assert counted(account(*undone)) == (0, 0, 0.0)
    assert counted(
        account(user("a"), calls("read"), result(9_000), Pruning((Handle("2.0"),), 9_000), replies("b"))
    ) == (
        0,
        1,
        0.0,
    )
