"""Replies that ended in an error."""

import pytest

from infold.core.messages import Finish
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.testing.builders import replies, session, user


@pytest.mark.parametrize(("finish", "shown"), [("error", False), ("stop", True), ("length", True)])
def test_half_an_answer_is_not_gone_on_from(finish: Finish, shown: bool) -> None:
    """B12, B13, B30: a reply that broke off is not at the end of a request, unless the caller brings it there itself."""
    log = session(user(), replies("half an", finish=finish))
    later = session(user(), replies("half an", finish=finish), user("again"))

    assert len(view(log, INFOLD.summary)) == 1 + shown
    assert len(view(later, INFOLD.summary)) == 3
    assert len(view(log, INFOLD.summary, brought=True)) == 2
    assert log.length == 2
