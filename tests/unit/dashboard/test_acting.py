"""The forms that change something."""

import pytest

from infold.errors import StoreConflict, UsageError
from infold.testing.builders import user

from .desks import HERE, KEY, Acted, client, stored


def test_each_form_is_passed_on() -> None:
    """B20: compact with a focus up to a message, undo, pin and release; each leads back to a page that says what was done."""
    acts = Acted()
    page = client(stored(user("a")), acts)
    answers = [
        page.post(f"{HERE}/compact", data={"focus": " the parser ", "up_to": "4"}),
        page.post(f"{HERE}/compact", data={"focus": ""}),
        page.post(f"{HERE}/undo", data={"sequence": "7"}),
        page.post(f"{HERE}/undo", data={"sequence": ""}),
        page.post(f"{HERE}/pin", data={"handle": "0.0", "pinned": "yes"}),
        page.post(f"{HERE}/pin", data={"handle": "0.0", "pinned": "no", "back": "message"}),
    ]

    assert [answer.status_code for answer in answers] == [303] * 6
    assert acts.asked == [
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
    page = client(stored(user("a")), Acted(is_done=False))
    answer = page.post(f"{HERE}/compact", data={"focus": ""})

    assert answer.headers["location"] == f"{HERE}?done=not-compacted"
    assert (
        "Nothing was compacted: what would stand in its place is no smaller."
        in page.get(f"{HERE}?done=not-compacted").text
    )


@pytest.mark.parametrize(
    ("refusal", "status"),
    [(UsageError("there is nothing to fold"), 400), (StoreConflict("s", expected=1, actual=2), 409)],
)
def test_a_refusal_is_shown_in_its_own_words(refusal: UsageError, status: int) -> None:
    """What cannot be done is a page with the reason and a way back to the session."""
    page = client(stored(user("a")), Acted(refusal)).post(f"{HERE}/compact", data={"focus": "x"})

    assert page.status_code == status
    assert str(refusal)[1:20].replace("'", "&#39;") in page.text
    assert "Back to the session" in page.text


def test_nothing_is_done_for_what_is_no_form() -> None:
    """Another body, a handle that is none, or a link instead of a form change nothing."""
    acts = Acted()
    page = client(stored(user("a")), acts)

    assert page.post(f"{HERE}/undo", json={"sequence": 1}).status_code == 400
    assert page.post(f"{HERE}/pin", data={"handle": "0/../x", "pinned": "yes"}).status_code == 400
    assert page.post(f"{HERE}/compact", data={"up_to": "x"}).status_code == 400
    assert page.post("/sessions/nope/undo", data={"sequence": "1"}).status_code == 404
    assert page.get(f"{HERE}/undo").status_code == 405
    assert acts.asked == []
