"""Give each example a model: a real provider if its key is set, else a scripted server on this machine.
The scripted server speaks the provider's own API, and refuses requests over the window as a provider does."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from infold.testing import Script, ScriptedServer

FILES = {f"src/part_{n:02}.py": "".join(f"def berth_{n}_{i}(ship): ...\n" for i in range(90)) for n in range(30)}
"""A project to work on: thirty files of about 900 tokens."""


@contextmanager
def openai_model(script: Script, window: int) -> Iterator[tuple[Any, str]]:
    """Yield a client and a model's name; set OPENAI_API_KEY (and OPENAI_BASE_URL, MODEL) for a real one."""
    from openai import OpenAI

    if os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"):
        with OpenAI(api_key=os.environ.get("OPENAI_API_KEY", "none")) as client:
            yield client, os.environ.get("MODEL", "gpt-5.4-mini")
        return
    print("A scripted model answers; set OPENAI_API_KEY to use a real one.\n")
    with (
        ScriptedServer(script, window_tokens=window) as server,
        OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
    ):
        yield client, "scripted"


@contextmanager
def anthropic_model(script: Script, window: int) -> Iterator[tuple[Any, str]]:
    """Yield a client and a model's name; set ANTHROPIC_API_KEY (and ANTHROPIC_BASE_URL, MODEL) for a real one."""
    from anthropic import Anthropic

    if os.environ.get("ANTHROPIC_API_KEY"):
        with Anthropic() as client:
            yield client, os.environ.get("MODEL", "claude-sonnet-5-5")
        return
    print("A scripted model answers; set ANTHROPIC_API_KEY to use a real one.\n")
    with (
        ScriptedServer(script, window_tokens=window) as server,
        Anthropic(base_url=server.url, api_key="none") as client,
    ):
        yield client, "scripted"
