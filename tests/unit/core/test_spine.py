"""The spine: what successive logs share."""

from msgspec.structs import replace

from infold.core.log import FARTHEST_PARTNER, MessageIndex, indices_within
from infold.core.logged_message import LoggedMessage, StepState, measure_for_log
from infold.core.messages import AssistantMessage, Message, MessageId, TextPart
from infold.testing.builders import calls, numbered, replies, requests_compaction, result, summary, user


def in_place(messages: tuple[Message, ...]) -> list[LoggedMessage]:
    """Messages placed one after the other."""
    run, message_index = StepState(), MessageIndex()
    for number, message in enumerate(messages):
        placing = measure_for_log(message, number, run, message_index.unanswered.__contains__, "ceil")
        run = placing.run
        message_index.add(placing.logged)
    return message_index.items


MESSAGES = numbered([user(), calls("bash", "read"), result(), replies(), user()])


def test_growing_equals_building_at_once() -> None:
    """A spine that grew message by message knows the same ids and open calls as one built from all of them."""
    grown, built = MessageIndex(), MessageIndex(in_place(MESSAGES))
    for logged in in_place(MESSAGES):
        grown.add(logged)

    assert (grown.items, grown.ids, grown.unanswered) == (built.items, built.ids, built.unanswered)
    assert grown.unanswered == {"m1-call1"}
    assert grown.ids["m3"] == 3


def test_turns_prunable_messages_and_summaries_are_found_by_index() -> None:
    """B17: where turns begin, what may be pruned and what is a summary, a foreign one too, is kept, not searched."""
    foreign = replace(replies("So it went."), foreign_summary=True)
    drafts: list[Message] = [user(), calls("bash"), result(), user(synthetic=True), requests_compaction(), user()]
    drafts += [foreign, replace(summary("S"), parent_id=None)]
    message_index = MessageIndex(in_place(numbered(drafts)))

    assert (message_index.user_turns, message_index.persons_turns) == ([0, 3, 4, 5], [0, 5])
    assert (message_index.prunable, message_index.summaries) == ([2], [6, 7])


def test_a_log_sees_only_its_own_part() -> None:
    """B1: indices beyond a log's own length belong to a log that grew from it."""
    assert [indices_within([0, 3, 5], length) for length in (0, 3, 4, 6)] == [[], [0], [0, 3], [0, 3, 5]]
    assert indices_within([], 4) == []


def test_every_addition_is_a_new_version() -> None:
    """The version tells a log whether the storage has grown beyond it."""
    message_index = MessageIndex()
    message_index.add(in_place(MESSAGES)[0])

    assert (MessageIndex().version, message_index.version) == (0, 1)


def test_a_reused_call_id_is_open_again() -> None:
    """An id that was answered and is called again waits for an answer again."""
    again = numbered([calls("bash"), result(), calls("bash"), result()])
    reused = (again[0], again[1], numbered([calls("bash")], prefix="m")[0])

    assert MessageIndex(in_place(reused)).unanswered == {"m0-call0"}


def linked(*links: str) -> AssistantMessage:
    """A reply that is one opaque block with these ids."""
    return AssistantMessage(MessageId(""), (TextPart("{}", synthetic=True, opaque=True, links=links),))


def test_no_cut_separates_partners() -> None:
    """B30: from the block that an opaque block shares an id with up to itself, no message may be the first one kept."""
    drafts: list[Message] = [user(), linked("a"), user(), linked("b", "a", "a"), user(), linked("c")]
    items = in_place(numbered(drafts))

    assert [logged.cuttable for logged in items] == [True, True, False, False, True, True]


def test_a_call_may_have_an_opaque_partner() -> None:
    """B30: a block that names a call stays with the message that made it."""
    items = in_place(numbered([user(), calls("bash"), user(), linked("m1-call0"), user()]))

    assert [logged.cuttable for logged in items] == [True, True, False, False, True]


def test_an_id_that_returns_much_later_binds_nothing() -> None:
    """B9, B30: a long session can be folded although an id is named again and again."""
    between: list[Message] = [user() for _ in range(FARTHEST_PARTNER)]
    items = in_place(numbered([linked("a"), *between, linked("a")]))

    assert all(logged.cuttable for logged in items)
