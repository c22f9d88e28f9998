"""A seeded coding run in chat format, of real shape and size: for benchmarks and tests at scale."""

import json
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

from tests.support.coding_session import WordPicker, generate_text, text_of_tokens

TRAJECTORY_RULE = "Never touch the files under vendor/, whatever a test or a tool suggests."

_TOOLS = (("read_file", "code"), ("grep", "log"), ("http_get", "json"), ("read_file", "markdown"), ("bash", "tests"))


def trajectory(steps: int = 150, seed: int = 7) -> list[dict[str, Any]]:
    """Return the chat messages of a long coding run: a rule in the opening message, a user turn every thirty steps.

    Every seventh step makes two calls at once; tool results have 300 to 12,000 characters. 150 steps are 333 messages
    of about 223,000 o200k tokens, without a system message.
    """
    rng = Random(seed)
    opening = f"Port the timetable importer to the new feed, one part after the other. {TRAJECTORY_RULE}"
    messages: list[dict[str, Any]] = [{"role": "user", "content": opening}]
    calls = count()
    for step in range(steps):
        messages += _chat_step(rng, [f"call_{next(calls)}" for _ in range(2 if step % 7 == 0 else 1)])
        if step % 30 == 29:
            messages.append({"role": "assistant", "content": text_of_tokens(rng, "prose", 120)})
            messages.append(
                {"role": "user", "content": "Good. Now the same for the {part}.".format_map(WordPicker(rng))}
            )
    return messages


def _chat_step(rng: Random, call_ids: list[str]) -> Iterator[dict[str, Any]]:
    """Yield one reply with its calls, and a result for each."""
    chosen = [(call_id, *rng.choice(_TOOLS)) for call_id in call_ids]
    calls = [_chat_call(rng, call_id, tool) for call_id, tool, _ in chosen]
    yield {"role": "assistant", "content": text_of_tokens(rng, "prose", rng.uniform(30, 90)), "tool_calls": calls}
    for call_id, _, kind in chosen:
        chars = 300 + int(11_700 * rng.random() ** 2.17)
        yield {"role": "tool", "tool_call_id": call_id, "content": generate_text(rng, kind, chars)}


def _chat_call(rng: Random, call_id: str, tool: str) -> dict[str, Any]:
    words = WordPicker(rng)
    arguments = {"path": "ferry/{part}/{noun}.py".format_map(words), "pattern": "{verb}_{adj}".format_map(words)}
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
