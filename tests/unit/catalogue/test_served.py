"""Servers are asked for their window before one is assumed."""

import json
from threading import Thread
from time import sleep

import pytest

from infold.catalogue.served import (
    ASK_SECONDS,
    KNOWN_SECONDS,
    LOADING_SECONDS,
    MOST_REMEMBERED,
    UNKNOWN_SECONDS,
    Question,
    ServedWindow,
    ServedWindows,
    is_local_host,
)

LOCAL, MODEL = "http://127.0.0.1:8000/v1/chat/completions", "my-own-model"
REMOTE = "https://api.example.com/v1/chat/completions"


class Server:
    """Answers questions by path, and remembers them; time passes as it says."""

    def __init__(self, answers: dict[str, object], *, takes: float = 0.0) -> None:
        self.answers = answers
        self.takes = takes
        self.now = 0.0
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> bytes | None:
        """Answer one question."""
        self.asked.append(question)
        self.now += self.takes
        answer = next((value for path, value in self.answers.items() if question.url.endswith(path)), None)
        return answer if answer is None or isinstance(answer, bytes) else json.dumps(answer).encode()

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for."""
        return [question.url.partition("/v1")[2] or question.url for question in self.asked]

    def clock(self) -> float:
        """Return the time."""
        return self.now


def found(answers: dict[str, object], *, url: str = LOCAL, model: str = MODEL) -> int | None:
    """The window that a server with these answers is found to have."""
    window = ServedWindows().find(url, model, Server(answers))
    return None if window is None else window.tokens


WRONG: tuple[object, ...] = (None, True, "8192", -1, 0, 1.5, 10**12, [], {})
LISTED = {"id": MODEL, "object": "model"}


@pytest.mark.parametrize(
    ("answers", "tokens"),
    [
        ({"/v1/models": {"data": [{**LISTED, "max_model_len": 65_536}]}}, 65_536),
        (
            {"/v1/models": {"data": [{"id": "other", "max_model_len": 9_000}, {**LISTED, "max_model_len": 8_192}]}},
            8_192,
        ),
        ({"/v1/models": {"data": [{"id": "under another name", "max_model_len": 8_192}]}}, 8_192),
        ({"/v1/models": [{**LISTED, "context_length": 131_072}]}, 131_072),
        ({"/v1/models": {"data": [LISTED]}, "/props": {"default_generation_settings": {"n_ctx": 16_384}}}, 16_384),
        ({"/api/ps": {"models": [{"name": f"{MODEL}:latest", "context_length": 4_096}]}}, 4_096),
        ({"/api/show": {"parameters": "stop  x\nnum_ctx                        12288\n"}}, 12_288),
        ({"/api/show": {"model_info": {"qwen3.context_length": 8_192}}}, 8_192),
        ({"/api/show": {"model_info": {"qwen3.context_length": 262_144}}}, None),
        (
            {"/api/v0/models": {"data": [{**LISTED, "max_context_length": 131_072, "loaded_context_length": 4_096}]}},
            4_096,
        ),
        ({"/api/v0/models": {"data": [{**LISTED, "state": "not-loaded", "max_context_length": 131_072}]}}, None),
        ({}, None),
    ],
)
def test_each_server_is_understood(answers: dict[str, object], tokens: int | None) -> None:
    """B11: vLLM, SGLang, llama.cpp, Ollama and LM Studio report their window each in its own way."""
    assert found(answers) == tokens


@pytest.mark.parametrize(
    "answer",
    [
        *(
            b"",
            b"<html>",
            b"null",
            b"[3, null]",
            b"\xff",
            b"[" * 100_000,
            b'{"data": {"a": 1}}',
            b'{"data": [7, null]}',
        ),
        *({"data": [{**LISTED, "max_model_len": wrong}]} for wrong in WRONG),
        {"data": [{"id": None}, {"id": 7}]},
        {"default_generation_settings": [1]},
        {"default_generation_settings": {"n_ctx": "many"}},
        {"parameters": 5, "model_info": ["x"]},
        {"parameters": "num_ctx lots", "model_info": {"a.context_length": "long"}},
        b" " * (9 * 2**20),
    ],
)
def test_a_strange_answer_is_none(answer: object) -> None:
    """B11: whatever a server answers, a request goes on, with an assumed window."""
    assert found(dict.fromkeys(("/models", "/props", "/api/ps", "/api/show"), answer)) is None


def test_a_remote_server_is_asked_for_its_list_only() -> None:
    """B11: of a host that is not local nothing but the list of models is asked, and only for an unknown model."""
    server = Server({})
    windows = ServedWindows(server.clock)

    assert windows.find(REMOTE, MODEL, server) is None
    assert windows.find(REMOTE, "gpt-5", server) is None
    assert server.paths == ["/models"]
    assert found({"/v1/models": {"data": [{**LISTED, "context_length": 9_000}]}}, url=REMOTE) == 9_000


def test_a_local_server_is_asked_for_a_known_model_too() -> None:
    """B11: a local server may serve a known model with a smaller window than its own."""
    assert found({"/v1/models": {"data": [{"id": "gpt-5", "max_model_len": 8_192}]}}, model="gpt-5") == 8_192


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://gpu:8000/v1/responses", "http://gpu:8000/v1/models"),
        ("http://10.0.0.7/proxy/v1/messages", "http://10.0.0.7/proxy/v1/models"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1/models"),
        ("http://localhost:1234", "http://localhost:1234/models"),
        (
            "http://localhost/v1beta/models/m:streamGenerateContent?alt=sse&key=k",
            "http://localhost/v1beta/models?key=k",
        ),
    ],
)
def test_the_address_follows_from_the_request(url: str, asked: str) -> None:
    """B11: the questions go to the server of the request, below the same path."""
    server = Server({})
    ServedWindows().find(url, MODEL, server)

    assert server.asked[0].url == asked


def test_a_window_names_its_source_without_a_credential() -> None:
    """B11: the address that reported a window is told, and a key in its query is not."""
    answer = {"models": [{"name": f"models/{MODEL}", "inputTokenLimit": 50_000}]}
    url = f"https://example.com/v1beta/models/{MODEL}:generateContent?key=secret"
    window = ServedWindows().find(url, MODEL, Server({"/models?key=secret": answer}))

    assert window == ServedWindow(50_000, "https://example.com/v1beta/models")


@pytest.mark.parametrize("url", ["", "nonsense", "/v1/chat/completions", "http://"])
def test_no_server_is_not_asked(url: str) -> None:
    """B11: without a host nothing is asked."""
    server = Server({})

    assert ServedWindows().find(url, MODEL, server) is None
    assert server.asked == []


def test_a_server_is_asked_once() -> None:
    """B11: an answer counts for an hour, no answer for five minutes, that of a model not yet loaded for half a minute."""
    server = Server({})
    windows = ServedWindows(server.clock)
    windows.find(LOCAL, MODEL, server)
    first = len(server.asked)
    windows.find(LOCAL, MODEL, server)
    assert len(server.asked) == first
    server.now, server.answers = UNKNOWN_SECONDS, {"/api/show": {"parameters": "num_ctx 8192"}}
    assert windows.find(LOCAL, MODEL, server) == ServedWindow(8_192, "http://127.0.0.1:8000/api/show")
    server.now, server.answers = (
        server.now + LOADING_SECONDS,
        {"/models": {"data": [{**LISTED, "max_model_len": 9_000}]}},
    )
    assert windows.find(LOCAL, MODEL, server) == ServedWindow(9_000, "http://127.0.0.1:8000/v1/models")
    again = windows.find(LOCAL, MODEL, server)
    assert again is not None
    assert not again.is_new
    server.now, server.answers = server.now + KNOWN_SECONDS, {}
    assert windows.find(LOCAL, MODEL, server) == ServedWindow(9_000, "http://127.0.0.1:8000/v1/models", is_new=False)


def test_a_slow_server_is_given_up() -> None:
    """B11: all questions together take two seconds at most, and no question is given more than is left."""
    server = Server({}, takes=0.9)
    ServedWindows(server.clock).find(LOCAL, MODEL, server)

    assert [round(question.seconds, 1) for question in server.asked] == [ASK_SECONDS, 1.1, 0.2]


def test_many_names_are_forgotten() -> None:
    """B11: clients choose the names of models, so only the newest are remembered."""
    server = Server({"/models": {"data": [{**LISTED, "max_model_len": 9_000}]}})
    windows = ServedWindows(server.clock)
    for number in range(MOST_REMEMBERED + 1):
        windows.find(LOCAL, f"m{number}", server)
    asked = len(server.asked)
    windows.find(LOCAL, "m1", server)
    assert len(server.asked) == asked
    windows.find(LOCAL, "m0", server)
    assert len(server.asked) == asked + 1


def test_two_threads_ask_once() -> None:
    """B11: a request that arrives while a server is being asked waits for the answer."""
    asked: list[Question] = []

    def ask(question: Question) -> bytes:
        asked.append(question)
        sleep(0.02)
        return json.dumps({"data": [{**LISTED, "max_model_len": 9_000}]}).encode()

    windows = ServedWindows()
    results: list[ServedWindow | None] = []
    threads = [Thread(target=lambda: results.append(windows.find(LOCAL, MODEL, ask))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(asked) == 1
    assert [one and one.tokens for one in results] == [9_000] * 4


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        *((host, True) for host in ("localhost", "127.0.0.1", "::1", "[::1]", "10.1.2.3", "192.168.0.4", "fd00::1")),
        *((host, True) for host in ("ollama", "gpu.local", "host.docker.internal", "fe80::1%eth0")),
        *((host, False) for host in ("", "api.openai.com", "8.8.8.8", "localhost.example.com", "2606:4700::1111")),
    ],
)
def test_local_hosts_are_known_by_their_name(host: str, is_local: bool) -> None:
    """B11: loopback, private addresses and names of a local network are local."""
    assert is_local_host(host) is is_local
