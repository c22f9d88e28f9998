"""Callers are told apart by their credentials, which are not kept."""

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infold.errors import UsageError
from infold.gateway.tenants import TENANT_HEADER, Tenants, secret_for

TENANTS = Tenants(b"a secret")


def test_each_credential_is_a_tenant() -> None:
    """B28: two credentials never give one tenant, wherever they stand; the same gives the same."""
    given = [
        TENANTS.of({"authorization": "Bearer one"}, {}),
        TENANTS.of({"authorization": "Bearer two"}, {}),
        TENANTS.of({"x-api-key": "one"}, {}),
        TENANTS.of({"x-goog-api-key": "one"}, {}),
        TENANTS.of({"api-key": "one"}, {}),
        TENANTS.of({}, {"key": "one"}),
        TENANTS.of({}, {}),
    ]

    assert len(set(given)) == len(given)
    assert TENANTS.of({"authorization": "Bearer one"}, {}) == given[0]
    assert given[-1] == "anonymous"


def test_a_tenant_does_not_tell_the_credential() -> None:
    """B28: without the secret nobody can tell whose hash it is."""
    headers = {"authorization": "Bearer one"}

    assert "one" not in TENANTS.of(headers, {})
    assert Tenants(b"another").of(headers, {}) != TENANTS.of(headers, {})


OLD, NEW = "sk-the-old-one-of-ada", "sk-the-new-one-of-ada"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ({"authorization": f"Bearer {OLD}"}, {"authorization": f"Bearer {NEW}"}, OLD),
        ({"authorization": f"Bearer {OLD}"}, {"authorization": f"Bearer {NEW}"}, f"Bearer {OLD}"),
        ({"authorization": f"bearer {OLD}"}, {"authorization": f"bearer {NEW}"}, OLD),
        ({"authorization": OLD}, {"authorization": NEW}, OLD),
        ({"x-api-key": OLD}, {"x-api-key": NEW}, OLD),
        ({"x-goog-api-key": OLD}, {"x-goog-api-key": NEW}, OLD),
        ({"authorization": f"Bearer {OLD}", "api-key": OLD}, {"authorization": f"Bearer {NEW}", "api-key": NEW}, OLD),
    ],
)
def test_the_old_credential_shows_whose_the_new_one_is(old: dict[str, str], new: dict[str, str], named: str) -> None:
    """B28: sent along in `x-infold-tenant`, as a key or as the header held it, it names the tenant that it always named."""
    assert TENANTS.of({**new, TENANT_HEADER: named}, {}) == TENANTS.of(old, {})
    assert TENANTS.of(new, {}) != TENANTS.of(old, {})


def test_a_secret_of_its_own_names_a_caller_whatever_its_credential() -> None:
    """B28: a client with a token for an hour sends the same secret with each; nobody without it is the same tenant."""
    secret = {TENANT_HEADER: "a secret that only Ada knows"}
    hourly = [TENANTS.of({"authorization": f"Bearer token-{hour}", **secret}, {}) for hour in range(3)]
    others = [
        TENANTS.of({"authorization": "Bearer token-0"}, {}),
        TENANTS.of({"authorization": "Bearer token-0", TENANT_HEADER: "a secret that only Eve knows"}, {}),
        TENANTS.of({}, {}),
    ]

    assert len(set(hourly)) == 1
    assert hourly[0] not in others
    assert TENANTS.of(secret, {}) == hourly[0]
    assert TENANTS.of({TENANT_HEADER: OLD}, {"key": NEW}) == TENANTS.of({}, {"key": OLD})


@pytest.mark.parametrize("text", ["a", "anonymous", "x" * 15])
def test_a_secret_that_can_be_guessed_is_refused(text: str) -> None:
    """B28: the error says how long it has to be."""
    with pytest.raises(UsageError, match="16 or more"):
        TENANTS.of({"authorization": "Bearer x", TENANT_HEADER: text}, {})


def test_an_operator_may_have_one_tenant() -> None:
    """B28: under `gateway.tenant` every credential, old or new, is that tenant; what a client says of itself changes nothing."""
    one = Tenants(b"a secret", "ada")
    given: tuple[dict[str, str], ...] = ({}, {"authorization": "Bearer one"}, {"x-api-key": "two", TENANT_HEADER: "a"})

    assert {one.of(headers, {}) for headers in given} == {"ada"}


def test_odd_credentials_are_tenants_too() -> None:
    """Text that cannot be encoded is no reason to fail."""
    assert TENANTS.of({"authorization": "caf\xe9 \udcff"}, {}) != "anonymous"


def test_a_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    """Beside a SQLite file, readable by its owner alone, the same for every process on it."""
    place = tmp_path / "new" / "sessions.db"
    secret = secret_for(str(place), {})
    kept = tmp_path / "new" / "sessions.db-secret"

    assert secret_for(f"sqlite:{place}", {}) == secret
    assert len(secret) == 32
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 or sys.platform == "win32"
    assert [path.name for path in kept.parent.iterdir()] == ["sessions.db-secret"]


def test_processes_that_start_at_once_share_it(tmp_path: Path) -> None:
    """Whoever is faster, all have the same one, and nobody reads half of it."""
    place = str(tmp_path / "sessions.db")
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: secret_for(place, {}), range(8)))

    assert len(found) == 1


@pytest.mark.parametrize("text", ["", "00ff", "no secret"])
def test_a_broken_secret_is_told(tmp_path: Path, text: str) -> None:
    """A file without a whole secret is never taken for one."""
    (tmp_path / "sessions.db-secret").write_text(text)

    with pytest.raises(UsageError, match="holds no secret; delete it"):
        secret_for(str(tmp_path / "sessions.db"), {})


def test_a_place_without_room_for_a_secret_is_told(tmp_path: Path) -> None:
    """Where nothing can be written, or a folder stands in its place."""
    (tmp_path / "file").touch()
    (tmp_path / "sessions.db-secret").mkdir()

    for place in (tmp_path / "file" / "sessions.db", tmp_path / "sessions.db"):
        with pytest.raises(UsageError, match="name another store, or set INFOLD_SECRET"):
            secret_for(str(place), {})


def test_the_environment_wins() -> None:
    """`INFOLD_SECRET` is the secret wherever sessions are kept."""
    assert secret_for("postgresql://host/db", {"INFOLD_SECRET": "shared"}) == b"shared"


def test_replicas_must_share_a_secret() -> None:
    """Without one, each replica would have tenants of its own."""
    with pytest.raises(UsageError, match="INFOLD_SECRET, the same for all replicas"):
        secret_for("postgresql://host/db", {})


def test_memory_needs_no_file() -> None:
    """What is not kept has a secret that is not kept."""
    before = os.listdir()  # noqa: PTH208 - the names are all there is to compare
    assert secret_for("memory", {}) != secret_for("memory", {})
    assert os.listdir() == before  # noqa: PTH208


def test_an_account_is_the_credential_whichever_tenant_it_belongs_to() -> None:
    """B32: what a refusal shows is of a credential, so that one tenant for all callers does not mix accounts."""
    fixed, one, two = Tenants(b"a secret", "all"), {"x-api-key": "one"}, {"x-api-key": "two", TENANT_HEADER: "x" * 20}

    assert fixed.account_of(one, {}) == TENANTS.account_of(one, {}) == TENANTS.of(one, {})
    assert len({fixed.account_of(one, {}), fixed.account_of(two, {}), fixed.account_of({}, {"key": "one"})}) == 3
    assert fixed.account_of({}, {}) == ""
