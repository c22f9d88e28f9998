"""The policy that settings amount to."""

import pytest

from infold.core.policy import PRESETS, Amount, Policy, preset, remaining, share, tokens
from infold.errors import SettingsError
from infold.settings.load import Chain, Layer, StatedValue
from infold.settings.resolve import build_policy, preset_value, select_values
from infold.settings.schema import Value


def chain(*layers: dict[str, Value]) -> Chain:
    """Layers of stated values, strongest first."""
    return Chain(
        tuple(Layer("general", {key: StatedValue(value, "a.toml") for key, value in one.items()}) for one in layers)
    )


def policy(name: str, **compaction: Value) -> Policy:
    """What becomes of a preset under these values."""
    base = preset(name)
    return build_policy(
        base, select_values(base, chain({f"compaction.{key}": value for key, value in compaction.items()}))
    )


@pytest.mark.parametrize("name", PRESETS)
def test_without_settings_a_preset_is_itself(name: str) -> None:
    """S1.0: where nothing is set, nothing of a preset changes."""
    assert build_policy(preset(name), select_values(preset(name), chain())) == preset(name)


def test_each_value_takes_its_place() -> None:
    """S8.1: every key of a policy ends where the policy has it, and the rest stays the preset's."""
    stated: dict[str, Value] = {
        "window": 32_000,
        "compaction.auto": False,
        "compaction.prune": False,
        "compaction.reserved": 0,
        "compaction.trigger": share(0.8),
        "compaction.target": share(0.3),
        "compaction.keep_turns": 4,
        "compaction.attempts": 3,
    }
    base = preset("proactive")
    made = build_policy(base, select_values(base, chain(stated)))

    assert (made.window_tokens, made.reserve_tokens, made.attempts) == (32_000, 0, 3)
    assert (made.auto, made.prune.enabled, made.tail.turns) == (False, False, 4)
    assert (made.trigger, made.target) == (share(0.8), share(0.3))
    assert (made.name, made.stub, made.prune.keep) == (base.name, base.stub, base.prune.keep)


def test_opencodes_tail_can_be_set() -> None:
    """S1.9, S8.1: 1.18's `tail_turns` and `preserve_recent_tokens` take their places together, and 0 turns are no tail."""
    made = policy("opencode-1.18", tail_turns=2, preserve_recent_tokens=10_000)
    exact = [policy("opencode-1.18", preserve_recent_tokens=n).tail.budget_tokens(168_000) for n in (0, 20, 30_000)]

    assert (made.tail.rule, made.tail.turns, made.tail.budget_tokens(168_000)) == ("tokens", 2, 10_000)
    assert exact == [0, 20, 30_000]
    assert policy("opencode-1.18", tail_turns=0).tail.rule == "none"
    assert policy("infold", tail_turns=3).tail.turns == 3


@pytest.mark.parametrize("key", ["tail_turns", "preserve_recent_tokens"])
def test_a_tail_by_turns_has_no_use_for_tokens(key: str) -> None:
    """S8.1: a preset that counts its tail otherwise refuses the key and names those that have a use for it."""
    with pytest.raises(SettingsError, match=rf"compaction\.{key} .*tokens \(infold, opencode-1\.18\)"):
        policy("turn-window", **{key: 3})


def test_pruning_can_be_switched_on() -> None:
    """S8.1: a preset without pruning prunes where somebody says so."""
    assert not policy("turn-window").prune.enabled
    assert policy("turn-window", prune=True).prune.enabled


@pytest.mark.parametrize(
    ("trigger", "target"),
    [
        (tokens(95_000), tokens(45_000)),
        (share(0.8), share(0.45)),
        (share(0.19), share(0.09)),
        (remaining(20_000), share(0.45)),
    ],
)
def test_a_trigger_can_be_set_alone(trigger: Amount, target: Amount) -> None:
    """B19: a trigger in any unit is enough; a target that it leaves no room for follows in the preset's proportion."""
    assert policy("infold", trigger=trigger).target == target
    assert policy("opencode-1.18", trigger=trigger).target is None


def test_a_target_of_ones_own_is_kept() -> None:
    """B19: what is stated is not moved."""
    assert policy("infold", trigger=tokens(95_000), target=tokens(10_000)).target == tokens(10_000)


def test_contradictions_name_both_places() -> None:
    """S8.1: a target above the trigger is told with the key, where it was set and what to do."""
    told = r"compaction\.target \(compaction\.trigger from a\.toml, compaction\.target from a\.toml\): .*; lower the target"
    with pytest.raises(SettingsError, match=told):
        policy("infold", trigger=share(0.5), target=share(0.6))
    with pytest.raises(SettingsError, match=r"\(compaction\.target from a\.toml\)"):
        policy("infold", target=share(0.97))
    with pytest.raises(SettingsError, match=r"compaction\.keep_turns .*: 20000; give 0 to 10,000 turns"):
        policy("proactive", keep_turns=20_000)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("infold", "keep_turns", 4),
        ("opencode-1.18", "keep_turns", 4),
        ("turn-window", "reserved", 9),
        ("opencode-1.1.23", "reserved", 9),
    ],
)
def test_what_a_preset_has_no_use_for_is_told(name: str, key: str, value: int) -> None:
    """S8.1: a number that would change nothing is an error, not a disappointment."""
    with pytest.raises(
        SettingsError, match=rf"compaction\.{key} \(a\.toml\): the preset {name} has no use for it; remove it"
    ):
        policy(name, **{key: value})


def test_what_was_meant_for_another_preset_is_left_out() -> None:
    """B19: a stronger place may choose another preset without tripping over the numbers of the weaker one."""
    weaker: dict[str, Value] = {"preset": "turn-window", "compaction.keep_turns": 3}

    assert select_values(preset("infold"), chain({"preset": "infold"}, weaker)) == {}
    with pytest.raises(SettingsError, match="has no use"):
        select_values(preset("infold"), chain({"compaction.keep_turns": 3}, {"preset": "infold"}))


def test_a_presets_own_values_are_told() -> None:
    """A value that nobody states is shown as the preset has it."""
    window = preset("turn-window")

    assert preset_value("compaction.keep_turns", window) == StatedValue(6, "preset turn-window")
    assert preset_value("compaction.keep_turns", preset("infold")) == StatedValue(None, "preset infold")
    assert preset_value("working_window", window) == StatedValue(64_000, "preset turn-window")
    assert preset_value("window", window) is None
    assert preset_value("compaction.model", window) is None
