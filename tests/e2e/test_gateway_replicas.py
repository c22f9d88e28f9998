"""Several gateways on one PostgreSQL: the same as one, and one may be killed at any moment."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx2
import pytest

from infold.core.entries import Checkpoint, MessageEntry
from infold.core.messages import SessionId, text_of
from infold.gateway.tenants import Tenants
from infold.ports import SessionKey
from infold.stores.postgres import PostgresStore
from infold.testing.script import Hang, Say, ScriptedAnswer, ScriptedRequest, Trouble
from infold.testing.scripted_server import ScriptedServer

from ..contract.postgres_server import database, postgres_server  # noqa: TID252 - `tests` is no package to name
from ..unit.gateway.raw_upstream import RawRequest, RawUpstream, whole  # noqa: TID252
from ..unit.gateway.stage import Stage  # noqa: TID252
from .gateway_stage import Worker, ended, serving, worker
from .gateway_worker import SECRET
from .wrap_scenes import CHAT, Item, shown

pytestmark = pytest.mark.slow

PATH = "/v1/chat/completions"
HEADERS = {"authorization": "Bearer k", "x-infold-session": "one"}
NOTES = (
    "The user wants every part ported, and the assistant has run make for each of them in turn, without trouble. " * 2
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A PostgreSQL server, started once."""
    with postgres_server() as address:
        yield address


@pytest.fixture
def address(server: str) -> Iterator[str]:
    """An empty database."""
    with database(server) as made:
        yield made


def said(request: RawRequest) -> list[bytes]:
    """A reply that depends on nothing but how many messages there are: the same to every gateway."""
    number = request.body.count(b'"role"')
    text = f"Part {number} is done."
    return [
        whole(
            b'{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"%b"}}],'
            b'"usage":{"prompt_tokens":%d,"completion_tokens":9,"total_tokens":%d}}'
            % (text.encode(), len(request.body) // 4, len(request.body) // 4 + 9)
        )
    ]


def talk(urls: list[str], turns: int) -> None:
    """A session of so many turns, each request to the next of these gateways."""
    items: list[Item] = []
    with httpx2.Client(headers=HEADERS) as client:
        for turn, url in zip(range(turns), cycle(urls), strict=False):
            items.append({"role": "user", "content": f"Part {turn}, please. {shown(turn)}"})
            answer = client.post(f"{url}{PATH}", json={**CHAT, "messages": items})
            assert answer.headers["x-infold"] == "managed"
            items.append(answer.json()["choices"][0]["message"])


def bytes_sent(addresses: list[str], turns: int) -> list[bytes]:
    """What arrives upstream when so many gateways, each with a store of its own, take turns."""
    with RawUpstream(said) as upstream, ExitStack() as stack:
        stores = [stack.enter_context(PostgresStore(address)) for address in addresses]
        stages = [Stage(upstream.url, window=6_000, store=store) for store in stores]
        talk([stack.enter_context(serving(stage.app)) for stage in stages], turns)
        assert sum(len(stage.events) for stage in stages) > 1
        return [request.body for request in upstream.requests]


def test_two_replicas_send_what_one_would(server: str) -> None:
    """B14, B29: with requests going round, every byte that arrives upstream is that of a single gateway."""
    with database(server) as alone, database(server) as shared:
        one = bytes_sent([alone], 40)
        two = bytes_sent([shared, shared], 40)

    assert len(one) == 40
    assert two == one


class Upstream:
    """A model whose summaries never come, until they may."""

    def __init__(self) -> None:
        self.asked = Event()
        self.hangs = True

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """Answer one request."""
        if "Write notes on the conversation so far" not in str(request.body):
            return Say("Noted.")
        self.asked.set()
        return Hang(60) if self.hangs else Say(NOTES)


def asked(url: str, items: list[Item]) -> httpx2.Response:
    """One request of the session, with a model that is asked for its own summaries."""
    body: dict[str, Any] = {**CHAT, "model": "gpt-4o", "messages": items}
    return httpx2.post(f"{url}{PATH}", json=body, headers=HEADERS, timeout=60)


def test_a_replica_killed_in_a_compaction_loses_nothing(address: str) -> None:
    """B13, B14: while one waits for a summary it is killed; the session goes on at the other with all that was said."""
    script = Upstream()
    variables = {"INFOLD_WINDOW": "16000", "INFOLD_COMPACTION_BACKGROUND": "false"}
    items: list[Item] = []
    with (
        ScriptedServer(script) as upstream,
        worker(address, upstream.url, **variables) as first,
        worker(address, upstream.url, **variables) as second,
    ):
        caller = spoken_until(script, first.url, items)
        first.kill()
        script.hangs = False
        go_on(second.url, items, upstream)
        caller.join()

    check_log(address, items)


def go_on(url: str, items: list[Item], upstream: ScriptedServer) -> None:
    """Turn after turn until one is sent that was compacted: the database may need a moment to see that its client is gone."""
    for _ in range(20):
        answer = asked(url, items)
        assert (answer.status_code, answer.headers["x-infold"]) == (200, "managed")
        if len(upstream.requests[-1].messages) < len(items):
            return
        items += [{"role": "assistant", "content": "Noted."}, {"role": "user", "content": "Go on."}]
    raise AssertionError("nobody compacted it")


def spoken_until(script: Upstream, url: str, items: list[Item]) -> Thread:
    """Turn after turn until a summary is asked for; whoever waits for that turn's answer."""
    for _ in range(100):
        items.append({"role": "user", "content": f"Part {len(items)}, please. {shown(len(items))}"})
        caller = Thread(target=left_alone, args=(url, list(items)))
        caller.start()
        while caller.is_alive() and not script.asked.wait(0.01):
            pass
        if script.asked.is_set():
            return caller
        items.append({"role": "assistant", "content": "Noted."})
    raise AssertionError("no summary was asked for")


def left_alone(url: str, items: list[Item]) -> None:
    """A request whose gateway may be killed under it."""
    try:
        assert asked(url, items).status_code == 200
    except httpx2.HTTPError:
        return


def check_log(address: str, items: list[Item]) -> None:
    """Every message is in the store once, in order, with one checkpoint and the last reply."""
    tenant = Tenants(SECRET).of(HEADERS, {})
    with PostgresStore(address) as store:
        entries = [entry for _, entry in store.newest_first(SessionKey(tenant, SessionId("one")))][::-1]
    texts = [text_of(entry.message) for entry in entries if isinstance(entry, MessageEntry)]

    assert [text for text in texts if text] == [*(item["content"] for item in items), "Noted."]
    assert sum(isinstance(entry, Checkpoint) for entry in entries) == 1


def test_a_stream_is_finished_before_the_end(tmp_path: Path) -> None:
    """A gateway that is asked to end first finishes what it streams; nobody new is let in."""
    text = "All of this was said slowly, and all of it arrived. " * 3
    slow = Say(text, trouble=Trouble(chunk_delay_seconds=0.1))
    with ScriptedServer(lambda _: slow) as upstream, worker(str(tmp_path / "log.db"), upstream.url) as gateway:
        heard = streamed(gateway)
        status, _, errors = ended(gateway.process)

    assert heard.count("data:") == len(text) // 12 + 3
    assert heard.endswith("data: [DONE]\n\n")
    assert "Traceback" not in errors
    assert status in (0, -15)


def streamed(gateway: Worker) -> str:
    """What a client hears of a stream during which its gateway is asked to end."""
    body = {**CHAT, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    heard = ""
    with httpx2.stream("POST", f"{gateway.url}{PATH}", json=body, timeout=60) as response:
        for piece in response.iter_text():
            if not heard:
                gateway.terminate()
            heard += piece
            if len(heard) > 2_000:
                with pytest.raises(httpx2.ConnectError):
                    httpx2.get(f"{gateway.url}/healthz")
    return heard
