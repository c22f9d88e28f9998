"""The off switches of the environment."""

import pytest

from infold.core.policy import PRESETS, Policy, apply_switches, preset
from infold.errors import SettingsError

OPENCODES = [*(name for name in PRESETS if name.startswith("opencode-")), "proactive"]


def off(policy: Policy, **variables: str) -> tuple[bool, bool]:
    """Whether compacting and pruning are off under these variables."""
    made = apply_switches(policy, variables)
    return not made.auto, not made.prune.enabled


@pytest.mark.parametrize("name", PRESETS)
def test_each_switch_turns_its_own_work_off(name: str) -> None:
    """S8.2: each switch turns one thing off under every preset; one that says no, or nothing, changes nothing."""
    policy = preset(name)
    prunes_not = not policy.prune.enabled

    assert off(policy, INFOLD_DISABLE_AUTOCOMPACT="1") == (True, prunes_not)
    assert off(policy, INFOLD_DISABLE_PRUNE=" Yes ") == (False, True)
    assert apply_switches(policy, {"INFOLD_DISABLE_AUTOCOMPACT": "off", "INFOLD_DISABLE_PRUNE": " "}) == policy


@pytest.mark.parametrize("name", PRESETS)
def test_opencodes_spellings_count_for_opencodes_presets(name: str) -> None:
    """S8.2: OpenCode's spellings count under its presets and `proactive`, and nowhere else."""
    policy = preset(name)
    words = {"OPENCODE_DISABLE_AUTOCOMPACT": "true", "OPENCODE_DISABLE_PRUNE": "1"}

    assert off(policy, **words) == ((True, True) if name in OPENCODES else (False, not policy.prune.enabled))


def test_a_switch_says_yes_or_no() -> None:
    """S8.2: any other word is an error that names the variable and what to give."""
    with pytest.raises(SettingsError, match="INFOLD_DISABLE_PRUNE: 'perhaps' is neither yes nor no; give 1, true"):
        apply_switches(preset("infold"), {"INFOLD_DISABLE_PRUNE": "perhaps"})
    assert apply_switches(preset("infold"), {"OPENCODE_DISABLE_PRUNE": "perhaps"}) == preset("infold")
