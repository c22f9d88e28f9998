"""One source agrees with itself."""

import pytest

from infold.errors import SettingsError
from infold.settings.load import Stated, Written, agreed, read_value
from infold.settings.schema import BY_NAME


def written(name: str, value: int | None) -> Written:
    """A window under one of its names."""
    return Written("a.toml", "window", name, Stated(value, "a.toml"))


def test_equal_values_agree() -> None:
    """S8.1: the first of several equal values is kept."""
    assert agreed([written("window", 9), written("CONTEXT_WINDOW_TOKENS", 9)]) == {"window": Stated(9, "a.toml")}


def test_different_values_are_told_with_both_names() -> None:
    """S8.1: the error has both names, both values and the source."""
    told = r"window \(a\.toml\): window is 9 and CONTEXT_WINDOW_TOKENS is unset, .*; keep one of the two"
    with pytest.raises(SettingsError, match=told):
        agreed([written("window", 9), written("CONTEXT_WINDOW_TOKENS", None)])


def test_a_wrong_value_is_told_with_its_place() -> None:
    """S8.1: name, place, problem and remedy."""
    with pytest.raises(SettingsError, match=r"window \(a\.toml\): 'x' is no number; give a number of tokens"):
        read_value(BY_NAME["window"], "x", name="window", where="a.toml")
