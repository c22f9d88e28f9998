"""Where the cut falls."""

import pytest
from msgspec.structs import replace

from infold.core.cut import Cut, Room, choose_cut, newest_turns_within, turn_starts
from infold.core.entries import Checkpoint
from infold.core.log import Log
from infold.core.logged_message import LoggedMessage
from infold.core.messages import Message, ReasoningPart
from infold.core.policy import INFOLD, Policy, TailPolicy, preset
from infold.testing.builders import (
    calls,
    replies,
    requests_compaction,
    result,
    session,
    summary,
    tokens_of_text,
    user,
)

TODAY = preset("opencode-1.18")


def turns(number: int, *, tokens: int = 10) -> list[Message]:
    """So many turns of a user message and a reply, which together have that many tokens."""
    return [draft for _ in range(number) for draft in (user(tokens_of_text(tokens - 1)), replies(tokens_of_text(1)))]


def cut(log: Log, policy: Policy, *, tail_tokens: int = 0) -> Cut | None:
    """The cut by a preset's tail rule."""
    return choose_cut(log, policy.tail, Room(tail_tokens))


@pytest.mark.parametrize(
    "name", ["infold", "opencode-1.1.23", "opencode-1.1.57", "opencode-1.18", "proactive", "turn-window"]
)
def test_nothing_is_cut_from_nothing(name: str) -> None:
    """S4.5: an empty history has no cut."""
    assert cut(session(), preset(name), tail_tokens=1_000) is None


def test_1_1_23_keeps_nothing() -> None:
    """S1.4: no tail stays verbatim."""
    assert cut(session(*turns(5)), preset("opencode-1.1.23")) == Cut(10, None)


@pytest.mark.parametrize(("name", "kept"), [("opencode-1.1.57", 1), ("proactive", 2), ("turn-window", 6)])
def test_whole_turns_are_kept(name: str, kept: int) -> None:
    """S1.5, S1.6, S1.7: the last turn, the last two, the last six."""
    assert cut(session(*turns(9)), preset(name)) == Cut(18 - 2 * kept, 18 - 2 * kept)


@pytest.mark.parametrize(("name", "kept"), [("opencode-1.1.57", 1), ("proactive", 2)])
def test_a_history_that_would_all_be_tail_is_folded_whole(name: str, kept: int) -> None:
    """S1.5, S1.6: where nothing is older than the tail, everything is head."""
    assert cut(session(*turns(kept)), preset(name)) == Cut(2 * kept, None)
    assert cut(session(replies()), preset(name)) == Cut(1, None)


@pytest.mark.parametrize("number", [1, 5, 6])
def test_an_empty_old_part_is_not_cut(number: int) -> None:
    """S4.5: with six turns or fewer `turn-window` has nothing to fold."""
    assert cut(session(*turns(number)), preset("turn-window")) is None


def test_what_stands_before_the_first_turn_is_old() -> None:
    """S4.5: *splitByTurns* cuts at a user message; a reply before the first one belongs to the old part."""
    assert cut(session(replies(), *turns(6)), preset("turn-window")) == Cut(1, 1)


def test_turns_begin_at_user_messages() -> None:
    """S4.5: a turn begins where anything was said in the user's role, not at a request or a result."""
    log = session(user(), calls("bash"), result(), user("x", synthetic=True), requests_compaction(), user())

    assert turn_starts(log.live) == [0, 3, 5]


# Tails by tokens, as OpenCode's own suite has them (its cases with a limit of turns have no counterpart here).


def test_the_newest_turns_within_the_budget_stay() -> None:
    """S1.9: turns are kept while they fit; one token more and the oldest goes."""
    log = session(*turns(4, tokens=100), policy=TODAY)

    assert cut(log, TODAY, tail_tokens=200) == Cut(4, 4)
    assert cut(log, TODAY, tail_tokens=199) == Cut(5, 5)


def test_shrink() -> None:
    """S1.9: users `first`, 2,000 x's and `tiny` with a budget of 100: the tail is `tiny`."""
    assert cut(session(user("first"), user("x" * 2_000), user("tiny"), policy=TODAY), TODAY, tail_tokens=100) == Cut(
        2, 2
    )


def test_too_big() -> None:
    """S1.9: users `first` and 2,000 y's with a budget of 20: no tail, everything is head."""
    assert cut(session(user("first"), user("y" * 2_000), policy=TODAY), TODAY, tail_tokens=20) == Cut(2, None)


def test_split() -> None:
    """S1.9: a turn too large is kept from its first message that fits, here the last reply."""
    log = session(user("older"), user("do it"), replies("z" * 2_000), replies("keep tail"), policy=TODAY)

    assert cut(log, TODAY, tail_tokens=100) == Cut(3, 3)


def test_kept_from_the_first_message_is_no_tail() -> None:
    """S1.9: where everything would fit the tail, everything is head."""
    assert cut(session(*turns(3), policy=TODAY), TODAY, tail_tokens=10_000) == Cut(6, None)


def test_older_summaries_do_not_count() -> None:
    """S1.9: a summary that came to nothing, 800 words long, takes none of the tail's budget of 500."""
    log = session(
        *(user("older"), user("keep"), replies("reply"), requests_compaction(), summary("word " * 800, finish=None)),
        *(user("recent"), replies("reply")),
        policy=TODAY,
    )

    assert cut(log, TODAY, tail_tokens=500) == Cut(7, None)
    assert cut(log, TODAY, tail_tokens=5) == Cut(1, 1)


# OpenCode 1.18's own cases for `tail_turns`, with their numbers.


def limited(log: Log, turns: int, budget: int) -> Cut | None:
    """The cut of `opencode-1.18` with so many turns of tail at most, within that budget."""
    return choose_cut(log, replace(TODAY.tail, turns=turns), Room(budget))


@pytest.mark.parametrize(("turns", "index"), [(1, 4), (2, 2), (9, None)])
def test_a_tail_has_no_more_turns_than_are_given(turns: int, index: int | None) -> None:
    """S1.9: of three turns that would all fit, the last so many stay; with room for all, everything is head."""
    log = session(user("first"), replies("a"), user("second"), replies("b"), user("third"), replies("c"))

    assert limited(log, turns, 10_000) == (Cut(6, None) if index is None else Cut(index, index))


def test_a_limit_of_turns_does_not_widen_the_budget() -> None:
    """S1.9: a turn that is too large is left out or split although the limit has room for it."""
    shrinks = session(user("first"), user("x" * 2_000), user("tiny"), policy=TODAY)
    too_big = session(user("first"), user("y" * 2_000), policy=TODAY)
    splits = session(user("older"), user("recent"), replies("z" * 2_000), replies("keep tail"), policy=TODAY)

    assert limited(shrinks, 2, 100) == Cut(2, 2)
    assert limited(too_big, 1, 20) == Cut(2, None)
    assert limited(splits, 1, 100) == Cut(3, 3)


def test_an_older_summary_is_not_counted_within_a_limit_of_turns() -> None:
    """S1.9: a long summary between two turns neither takes up the budget nor counts as a turn."""
    log = session(
        *(user("older"), user("keep"), replies("reply"), summary("word " * 800), user("recent"), replies("reply")),
        policy=TODAY,
    )

    assert limited(log, 2, 500) == Cut(1, 1)


def test_a_turn_may_be_kept_whole_only() -> None:
    """S4.5, B12: without `split_turns` a tail begins at a user message."""
    tail = TailPolicy(rule="tokens", split_turns=False)
    log = session(
        user(tokens_of_text(9)), replies(tokens_of_text(50)), user(tokens_of_text(10)), replies("done"), policy=TODAY
    )

    assert choose_cut(log, tail, Room(60)) == Cut(2, 2)
    assert choose_cut(log, tail, Room(10)) == Cut(4, None)


# Legal places.


def test_a_call_is_not_parted_from_its_result() -> None:
    """B12: a tail that would begin at a result begins later or not at all."""
    log = session(user(), replies(), calls("bash"), result(10), replies("done"), policy=TODAY)

    assert cut(log, TODAY, tail_tokens=12) == Cut(4, 4)
    assert cut(log, TODAY, tail_tokens=13) == Cut(2, 2)


def test_a_sealed_loop_is_not_cut_into() -> None:
    """B12: what signed reasoning opened is kept from there on or goes with its whole loop."""
    thought = replace(calls("bash"), parts=(ReasoningPart("", provider_data='"s"'), *calls("bash").parts))
    log = session(user(), thought, result(10), calls("bash"), result(10), replies("done"))

    assert [logged.cuttable for logged in log.live] == [True, True, False, False, False, False]


def test_infold_keeps_the_shortest_tail_even_if_it_is_too_large() -> None:
    """B7, B9: `infold` never folds the newest step for its size alone; a document folds everything then."""
    log = session(user(), replies(), user(tokens_of_text(90_000)), replies("done"))

    assert cut(log, INFOLD, tail_tokens=1) == Cut(3, 3)
    assert cut(session(user(), calls("bash"), result(90_000)), INFOLD, tail_tokens=1) == Cut(1, 1)


def test_infold_folds_nothing_where_everything_is_tail() -> None:
    """B9: what fits the tail is left alone."""
    assert cut(session(*turns(3)), INFOLD, tail_tokens=100_000) is None


def ten_each(logged: LoggedMessage) -> int:
    """Ten tokens, whatever the message."""
    assert logged.measured > 0
    return 10


def test_a_sizer_of_the_callers_own() -> None:
    """B8: the caller may size messages by what they can be at most."""
    log = session(*turns(4))

    assert choose_cut(log, INFOLD.tail, Room(30), sizer=ten_each) == Cut(5, 5)


# The newest turns within a target.


@pytest.mark.parametrize(("tail_tokens", "index"), [(32_000, 6), (31_999, 8), (8_000, 12), (100, 12), (1_000_000, 2)])
def test_the_newest_whole_turns_that_fit(tail_tokens: int, index: int) -> None:
    """S4.5: *takeLastTurns* keeps the newest whole turns after the cut that fit, at least the last one."""
    policy = preset("turn-window")
    log = session(*turns(7, tokens=8_000), policy=policy)

    assert newest_turns_within(log, Cut.at(log, 2), tail_tokens=tail_tokens, measured_of=log.measured_of) == Cut(
        index, index
    )


def test_every_turn_may_fit() -> None:
    """S4.5: where everything fits the target, everything stays."""
    log = session(*turns(3), policy=preset("turn-window"))

    assert newest_turns_within(log, Cut.at(log, 0), tail_tokens=1_000, measured_of=log.measured_of) == Cut(0, 0)


def test_without_a_turn_after_the_cut_it_stays() -> None:
    """S1.0, S4.5: a cut inside the last turn, beyond the window, is not moved to drop the rest of it."""
    log = session(user(), replies(), replies())

    assert newest_turns_within(log, Cut.at(log, 2), tail_tokens=1_000, measured_of=log.measured_of) == Cut(2, 2)


def test_a_cut_beyond_the_last_message_keeps_nothing() -> None:
    """S1.4: the cut after everything has no first kept message, and numbers are those of the entries."""
    log = session(*turns(2)).append(Checkpoint("text", first_kept=2))

    assert Cut.at(log, 2) == Cut(2, None)
    assert Cut.at(log, 0) == Cut(0, 2)


def test_a_tail_under_the_least_takes_one_step_more() -> None:
    """B16: a tail that whole steps leave under the least is one step longer, where the target still has room for it."""
    log = session(*(draft for _ in range(6) for draft in (user(), replies())))

    def ten_each(_: LoggedMessage) -> int:
        return 10

    assert choose_cut(log, INFOLD.tail, Room(35), sizer=ten_each) == Cut(9, 9)
    assert choose_cut(log, INFOLD.tail, Room(35, least_tokens=35, most_tokens=60), sizer=ten_each) == Cut(8, 8)
    assert choose_cut(log, INFOLD.tail, Room(35, least_tokens=35, most_tokens=38), sizer=ten_each) == Cut(9, 9)
