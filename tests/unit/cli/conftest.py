"""Files to run the verbs on: our own transcripts, small requests of each wire format, and long invented sessions."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.corpus import INVENTED

DATA = Path(__file__).parents[2] / "data" / "transcripts"

CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
LONG = "kite flock " * 400

REQUESTS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "You count kites."},
            {"role": "user", "content": "Count the kites. Never touch the string."},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": LONG},
            {"role": "assistant", "content": "Sixteen."},
            {"role": "user", "content": "And the red ones?"},
        ],
        "tools": [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}],
    },
    "openai-responses": {
        "model": "gpt-5",
        "instructions": "You count kites.",
        "input": [
            {"role": "user", "content": "Count the kites."},
            {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": LONG},
            {"role": "user", "content": "And the red ones?"},
        ],
    },
    "anthropic-messages": {
        "model": "claude-sonnet-4-5",
        "system": "You count kites.",
        "messages": [
            {"role": "user", "content": "Count the kites."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "bash", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": LONG}]},
            {"role": "assistant", "content": "Sixteen."},
            {"role": "user", "content": "And the red ones?"},
        ],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "You count kites."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Count the kites."}]},
            {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {"output": LONG}}}]},
            {"role": "user", "parts": [{"text": "And the red ones?"}]},
        ],
    },
}


@pytest.fixture
def data() -> Path:
    """The folder of our own transcripts."""
    return DATA


@pytest.fixture
def corpus() -> Path:
    """The folder of long invented transcripts."""
    return INVENTED


@pytest.fixture(params=sorted(REQUESTS))
def request_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A request body in each wire format in turn, named after it."""
    path = tmp_path / f"{request.param}.json"
    path.write_text(json.dumps(REQUESTS[request.param], indent=2), "utf-8")
    return path


@pytest.fixture
def chat_file(tmp_path: Path) -> Path:
    """A request body of OpenAI's chat API."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(REQUESTS["openai-chat"]), "utf-8")
    return path
