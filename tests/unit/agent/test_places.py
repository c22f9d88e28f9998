"""Where sessions and snapshots are kept where nobody says otherwise."""

from pathlib import Path

import pytest

from infold.agent.trust import default_snapshot_folder, default_store


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/users/ada"}, "/users/ada/.local/share/infold"),
        ({"HOME": "/users/ada", "XDG_DATA_HOME": "/srv/data"}, "/srv/data/infold"),
        ({"HOME": "/users/ada", "XDG_DATA_HOME": "data"}, "/users/ada/.local/share/infold"),
        ({"HOME": "/users/ada", "XDG_DATA_HOME": ""}, "/users/ada/.local/share/infold"),
    ],
)
def test_what_is_kept_is_in_the_users_data_folder(environ: dict[str, str], folder: str) -> None:
    """`XDG_DATA_HOME` says where, if it is a path from the top; else it is below the home folder."""
    assert default_store(environ) == f"{folder}/sessions.sqlite3"
    assert default_snapshot_folder(environ) == Path(folder) / "snapshots"


def test_without_a_home_the_system_is_asked() -> None:
    """A process started without HOME still has one."""
    assert Path(default_store({})).is_absolute()
