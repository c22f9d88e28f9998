"""What the settings of a process make of a session."""

from pathlib import Path

import pytest

from infold.errors import UsageError
from infold.session.process_settings import plugins_from, settings_from
from infold.settings import Settings, read_settings


def read(folder: Path, **variables: str) -> Settings:
    """The settings of a process in a folder without a file of its own."""
    return read_settings({"HOME": str(folder), **variables}, folder)


def test_a_session_is_kept_as_the_process_says(tmp_path: Path) -> None:
    """S8.1: window, policy and who summarises come from the settings; a model named by the caller wins."""
    process = read(tmp_path, INFOLD_WINDOW="64k", INFOLD_COMPACTION_MODEL="gpt-4o-mini", INFOLD_MODEL="gpt-5")
    kept = settings_from(process, model="gpt-4o")

    assert (kept.model, kept.window, kept.summariser) == ("gpt-4o", 64_000, "gpt-4o-mini")
    assert settings_from(process).model == "gpt-5"


def test_plugins_are_those_asked_for(tmp_path: Path) -> None:
    """S3.5, S8.4: the bundled template is one of them where it is switched on; a name that nobody offers is told."""
    template = plugins_from(read(tmp_path, INFOLD_PLUGINS_ENABLED="none", INFOLD_PLUGINS_SEVEN_SECTIONS="yes"))

    assert [plugin.name for plugin in template] == ["seven-sections"]  # type: ignore[attr-defined]
    assert plugins_from(read(tmp_path, INFOLD_PLUGINS_ENABLED="none")) == ()
    with pytest.raises(UsageError, match="nobody"):
        plugins_from(read(tmp_path, INFOLD_PLUGINS_ENABLED="nobody"))
