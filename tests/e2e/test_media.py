"""Media over a long session, behind a gateway and a wrapped client, read back by another process."""

import base64
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import pytest
from tests.support.policies import FOLDS, FOLDS_SETTING

from infold import SessionSettings, wrap
from infold.core.events import Compacted, Event
from infold.stores.sqlite import SqliteStore
from infold.testing.script import Say, ScriptedAnswer, ScriptedRequest
from infold.testing.scripted_server import ScriptedServer

from ..unit.gateway.stage import Stage  # noqa: TID252 - `tests` is no package to name
from .gateway_stage import serving

pytestmark = pytest.mark.slow

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 200
WINDOW = 12_000
READ = """
import hashlib, sys
from infold.session.recall import recall_media
from infold.stores.sqlite import SqliteStore
with SqliteStore(sys.argv[1]) as store:
    for tenant in store.tenants():
        for session in store.sessions(tenant):
            [medium] = recall_media(store, session.key, "0.1")
            print(medium.media_type, hashlib.sha256(medium.data).hexdigest())
"""
FIRST: dict[str, Any] = {
    "role": "user",
    "content": [
        {"type": "text", "text": "Rebuild this page as in the mock-up."},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PICTURE).decode()},
        },
    ],
}


def works(request: ScriptedRequest) -> ScriptedAnswer:
    """A model that runs one command after the other."""
    return Say(calls=(("bash", {"command": f"make step-{len(request.messages)}"}),))


@pytest.mark.parametrize("way", ["wrap", "gateway"])
def test_a_folded_image_is_listed_and_recalled(way: str, tmp_path: Path) -> None:
    """B35: after folds the request still says that an image was attached, and another process gets its bytes from the store."""
    place, events = tmp_path / "sessions.db", list[Event]()
    with ScriptedServer(works) as server, SqliteStore(place) as store:
        bare = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
        if way == "wrap":
            settings = SessionSettings(window=WINDOW, policy=FOLDS, on_event=events.append)
            _work(wrap(bare, settings, store=store))
        else:
            stage = Stage(server.url, store=store, window=WINDOW, variables=FOLDS_SETTING)
            with serving(stage.app) as url:
                _work(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0))
            events += stage.events
        first, last = server.requests[0].body["messages"], server.requests[-1].body["messages"]
    read = subprocess.run([sys.executable, "-c", READ, str(place)], capture_output=True, text=True, check=True)

    assert first == [FIRST]
    assert any(isinstance(event, Compacted) for event in events)
    assert "[attached: image/png (51 kB)]" in str(last[0])
    assert base64.b64encode(PICTURE).decode() not in str(last)
    assert read.stdout.splitlines() == [f"image/png {hashlib.sha256(PICTURE).hexdigest()}"]


def _work(client: anthropic.Anthropic) -> None:
    items: list[Any] = [FIRST]
    for _ in range(30):
        reply = client.messages.create(model="scripted", max_tokens=200, messages=items)
        [call] = reply.content
        assert call.type == "tool_use"
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "compiling the module, no warnings\n" * 90}
        items += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
