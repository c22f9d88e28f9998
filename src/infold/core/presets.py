"""The named policies: `infold`'s own and those of the source documents (S1.4 to S1.9).

The documents' numbers are theirs; the origin of each of `infold`'s is given in `docs/reference/behaviour.md`.
"""

from msgspec.structs import replace

from infold.core.policy import Policy, PrunePolicy, SummaryPolicy, TailPolicy, share
from infold.errors import UnknownPreset

INFOLD = Policy(
    name="infold",
    trigger=share(0.95),
    target=share(0.45),
    prune=PrunePolicy(
        timing="at-trigger", keep=share(0.1), minimum=share(0.1), enough=share(0.6), genuine_turns=True, arguments=True
    ),
    tail=TailPolicy(
        rule="tokens",
        size=share(0.15),
        minimum_tokens=8_000,
        maximum_tokens=20_000,
        split_turns=True,
        whole_head=False,
    ),
    summary=SummaryPolicy(shape="marked", ledger=True, size=share(0.12), minimum_tokens=200, maximum_tokens=8_000),
    force_on_length=True,
    clip=True,
    priced=True,
    continue_always=False,
)

_OPENCODE_1_1_23 = Policy(
    name="opencode-1.1.23",
    estimate="round",
    count="input+cache-read+output",
    usable="input-else-less-ceiling",
    reached=False,
    summary=SummaryPolicy(fallback="stop", judged=False, shows="messages"),
    stub="[Old tool result content cleared]",
)

_OPENCODE_1_1_57 = Policy(
    name="opencode-1.1.57",
    estimate="ceil",
    count="total",
    usable="less-reserve",
    tail=TailPolicy(rule="turns", turns=1),
    summary=SummaryPolicy(fallback="stop", judged=False, shows="messages"),
    stub="[output truncated by compaction]",
    less_freed=True,
)

_PROACTIVE = replace(
    _OPENCODE_1_1_57,
    name="proactive",
    estimate="round",
    tail=TailPolicy(rule="turns", turns=2),
    summary=SummaryPolicy(prefix="[Conversation Summary]", judged=False, shows="messages"),
    stub="[Output pruned]",
)

_TURN_WINDOW = Policy(
    name="turn-window",
    estimate="ceil",
    count="estimate",
    usable="whole",
    window_tokens=64_000,
    trigger=share(0.75),
    target=share(0.5),
    prune=PrunePolicy(enabled=False),
    tail=TailPolicy(rule="turns", turns=6, whole_head=False, recut=True),
    summary=SummaryPolicy(shape="alone", prefix="[COMPACTED_CONTEXT]", fallback="clean", judged=False, shows="head"),
    attempts=2,
    force_on_length=True,
)

_OPENCODE_1_18 = replace(
    _OPENCODE_1_1_23,
    name="opencode-1.18",
    count="total",
    usable="input-less-reserve",
    reached=True,
    prune=PrunePolicy(enabled=False),
    tail=TailPolicy(rule="tokens", size=share(0.25), minimum_tokens=2_000, maximum_tokens=15_000, split_turns=True),
    summary=SummaryPolicy(fallback="stop", judged=False, shows="head"),
)

PRESETS: dict[str, Policy] = {
    policy.name: policy
    for policy in (INFOLD, _OPENCODE_1_1_23, _OPENCODE_1_1_57, _OPENCODE_1_18, _PROACTIVE, _TURN_WINDOW)
}


def preset(name: str) -> Policy:
    """The preset of that name; raises `UnknownPreset` with the names there are."""
    if name not in PRESETS:
        raise UnknownPreset(name, known=tuple(sorted(PRESETS)))
    return PRESETS[name]
