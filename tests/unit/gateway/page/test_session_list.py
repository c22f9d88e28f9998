"""The list of sessions that programs read."""

from infold.errors import StoreBroken
from infold.ports import SessionKey
from infold.testing.builders import replies, user

from ...reports.stored_sessions import stored  # noqa: TID252 - `tests` is no package to name
from .page_client import RecordedActions, client


def test_programs_read_the_list_as_json() -> None:
    """The newest sessions with their numbers, as many as are asked for."""
    got = client(stored(user("Mend the ferry"), replies("Done."))).get("/sessions.json?most=1")
    (one,) = got.json()["sessions"]

    assert got.headers["content-type"] == "application/json"
    assert (one["title"], one["requests"]) == ("Mend the ferry", 1)
    assert (one["window_tokens"], one["usable_tokens"]) == (8_000, 7_200)
    assert got.json()["has_more"] is False
    assert client(stored(user("a"))).get("/sessions.json?most=many").status_code == 400


def test_a_damaged_session_is_listed_with_its_problem() -> None:
    """The list stays of use while one of its sessions cannot be read."""

    def broken(_: SessionKey) -> int | None:
        raise StoreBroken("here", "entry 3 is damaged", remedy="restore it")

    got = client(stored(user("a")), RecordedActions(window_of=broken)).get("/sessions.json")

    assert got.json()["sessions"][0]["problem"] == "here: entry 3 is damaged; restore it"
