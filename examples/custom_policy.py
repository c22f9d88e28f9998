"""A policy of your own: when to compact, how far down, and how much of the newest work stays word for word.
The same history of 120 messages is fitted under the preset and under two changes of it; no model is needed."""

from msgspec.structs import replace

from infold import fit, preset, share
from infold.core.policy import TailPolicy

WINDOW = 32_000


def history() -> list[dict]:
    """A rule, then sixty commands with their output."""
    messages: list[dict] = [{"role": "user", "content": "Make the build pass. Never touch vendor/."}]
    for n in range(60):
        call = {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": "bash", "arguments": f'{{"command": "make {n}"}}'},
        }
        output = "".join(f"step {n}.{line}: compiled berth_{line}.c without warnings\n" for line in range(50))
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": f"c{n}", "content": output}]
    return messages


standard = preset("infold")
policies = {
    "infold": standard,
    "early": replace(standard, name="early", trigger=share(0.5), target=share(0.2)),
    "long tail": replace(
        standard,
        name="long tail",
        tail=TailPolicy(rule="tokens", size=share(0.5), maximum_tokens=16_000, split_turns=True),
    ),
}

print(f"{'policy':10} {'trigger':>8} {'sent':>5} {'tokens':>7} {'kept word for word':>19}")
for name, policy in policies.items():
    fitted = fit(history(), window=WINDOW, policy=policy)
    whole = sum(source is not None for source in fitted.sources) - len(fitted.report.edited)
    line = f"{name:10} {policy.trigger.value:8.0%} {len(fitted.messages):5} {fitted.report.tokens_after:7,} {whole:19}"
    print(line)
    assert "Never touch vendor/." in str(fitted.messages)
print("\nThe user's rule is in every one of them. `infold replay` shows what a policy costs on your own transcripts.")
