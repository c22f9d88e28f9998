"""Whether a session was at work."""

import pytest

from infold.core.compact import awaits_model
from infold.core.messages import MessageId, SystemMessage, TextPart
from infold.testing.builders import Draft, calls, replies, result, session, user


@pytest.mark.parametrize(
    ("history", "under_way"),
    [
        ((), False),
        ((user("Port it."),), True),
        ((user("Port it."), calls("bash")), True),
        ((user("Port it."), calls("bash"), result(10)), True),
        ((user("Port it."), replies("Done.")), False),
        ((user("Port it."), replies("Shall I?"), user("Yes.")), True),
        ((user("Port it."), replies("As I was say", finish="length")), True),
    ],
)
def test_what_awaits_the_model_is_work(history: tuple[Draft, ...], under_way: bool) -> None:
    """B21: a request, a call, a result or a reply that was cut off is work; a finished answer is not."""
    assert awaits_model(session(*history)) is under_way


def test_instructions_of_a_program_are_no_work() -> None:
    """B21: a system message after the answer does not set a waiting session to work."""
    assert not awaits_model(
        session(user("Port it."), replies("Done."), SystemMessage(MessageId("x"), (TextPart("be kind"),)))
    )
