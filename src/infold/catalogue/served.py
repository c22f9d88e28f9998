"""Windows that servers report: a local server chooses the window it loads a model with, and knows models no catalogue has.

Only the questions and the meaning of the answers are decided here; callers send them. The list of models is part of the API that
requests go to, and is asked for with their credentials. A host that is not local is asked for nothing else. Further questions to
a local server are outside that API.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from threading import Lock
from time import monotonic
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit, urlunsplit

import msgspec

from infold.catalogue.lookup import ASSUMED_CONTEXT_TOKENS, lookup
from infold.catalogue.models import Assumed

ASK_SECONDS = 2.0
"""How long a request may wait for a server to report its window, over all questions."""

KNOWN_SECONDS, UNKNOWN_SECONDS = 3_600.0, 300.0
"""How long an answer counts, and how long a server that gave none is not asked again."""

LOADING_SECONDS = 30.0
"""How long an answer counts if the server has yet to load the model, which a request makes it do."""

MOST_ANSWER_BYTES = 8 * 2**20
"""The largest answer that is read; lists of a few hundred models have about one megabyte."""

MOST_REMEMBERED = 256
"""Answers that are remembered; clients choose the names of models."""

SMALLEST_WINDOW, LARGEST_WINDOW = 512, 100_000_000
"""A number outside is not a window."""

_SUBSCRIPTION_HOSTS = (".chatgpt.com", ".githubcopilot.com", ".cloudcode-pa.googleapis.com")
"""Where Codex with a ChatGPT login, GitHub Copilot and Gemini Code Assist send their requests."""

_CODEX_HEADER, _OAUTH_TOKEN, _OAUTH_BETA = "chatgpt-account-id", "sk-ant-oat", "oauth-2"
"""What Codex adds with a ChatGPT login; how the token of a Claude login begins, and the beta that Claude Code names with it."""

_LOCAL_ENDINGS = (".local", ".localhost", ".internal", ".lan", ".home.arpa")
_REQUEST_PATH = re.compile(r"/(?:chat/completions|responses|messages|models/[^/]+:\w+)$")
_VERSION = re.compile(r"/v\d\w*$")
_NUM_CTX = re.compile(r"^[ \t]*num_ctx[ \t]+(\d{1,12})[ \t\r]*$", re.MULTILINE)

_FIELDS = (
    "loaded_context_length",  # LM Studio
    "max_model_len",  # vLLM, SGLang
    "context_length",  # OpenRouter, Together; Ollama's loaded models
    "max_context_length",  # Mistral
    "context_window",  # Groq
    "max_input_tokens",  # Anthropic
    "inputTokenLimit",  # Gemini
)
"""Where lists of models have the window, the most exact first."""


class Question(msgspec.Struct, frozen=True):
    """A request that asks a server for its window, and how long its answer may take.

    `is_of_api`: it belongs to the API that requests go to, and may need their credentials.
    """

    method: str
    url: str
    seconds: float
    body: bytes = b""
    is_of_api: bool = False


Ask = Callable[[Question], bytes | None]
"""Sends a question; `None` if there was no answer, or one with another status than 200. Must not raise."""


@runtime_checkable
class ServedModel(Protocol):
    """A model whose server can be asked for the window it serves the model with."""

    def ask_server(self, question: Question) -> bytes | None:
        """Return the server's answer; `None` if it gives none."""
        ...


class ServedWindow(msgspec.Struct, frozen=True):
    """The window that a server reports, and the address that reported it; `is_new`: it was asked just now."""

    tokens: int
    source: str
    is_new: bool = True


class _Remembered(msgspec.Struct, frozen=True):
    window: ServedWindow | None
    until: float


class ServedWindows:
    """The windows of servers that were asked, by server and model; may be used from any thread.

    A server is asked once for a model. What it reports counts for an hour, and that it reports nothing for five minutes.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()
        self._lock = Lock()

    def find(self, url: str, model: str, ask: Ask, *, base: str = "") -> ServedWindow | None:
        """Return the window that the server of a request reports for a model; `None` if it reports none.

        `url` is that of the request, or the server's base URL. `base` is where questions outside the API go, if others choose
        the path of the request. Only local servers are asked about models that the catalogue knows. Other threads wait, so that
        a server is not asked twice.
        """
        place = urlsplit(url)
        is_local = is_local_host(place.hostname or "")
        if not place.hostname or not (is_local or isinstance(lookup(model), Assumed)):
            return None
        key = (urlunsplit((place.scheme, place.netloc, _REQUEST_PATH.sub("", place.path.rstrip("/")), "", "")), model)
        if (known := self._current(key)) is not None:
            return known.window
        with self._lock:
            if (known := self._current(key)) is not None:  # another thread asked meanwhile
                return known.window
            known = self._known.get(key)
            root = _VERSION.sub("", (base or key[0]).rstrip("/")) if is_local else None
            found = _ask_server(f"{key[0]}/models{_query(place.query)}", root, model, ask, self._clock)
            if found is None and known is not None:  # a server that is busy now
                found = known.window
            seconds = UNKNOWN_SECONDS if found is None else KNOWN_SECONDS
            if found is not None and found.source.endswith("/api/show"):
                seconds = LOADING_SECONDS
            kept = None if found is None else msgspec.structs.replace(found, is_new=False)
            self._known[key] = _Remembered(kept, self._clock() + seconds)
            while len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _current(self, key: tuple[str, str]) -> _Remembered | None:
        known = self._known.get(key)
        return known if known is not None and self._clock() < known.until else None


def is_local_host(host: str) -> bool:
    """Return whether a host is this machine or in a private network, by its name or address alone."""
    host = host.strip("[]").lower().rstrip(".")
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(_LOCAL_ENDINGS))
    return address.is_private or address.is_loopback or address.is_link_local


def is_paid(host: str, headers: Mapping[str, str]) -> bool:
    """Return whether the tokens of a request to this host (`name:port`) cost money each, if the model has a price.

    Not at a local or private address, and not on a subscription, which is known by its host or its credential; the names of
    the headers are in lower case. Without a host only the headers show it.
    """
    name = urlsplit(f"//{host}").hostname or ""
    is_subscribed = (
        f".{name}".endswith(_SUBSCRIPTION_HOSTS)
        or _CODEX_HEADER in headers
        or headers.get("authorization", "").removeprefix("Bearer ").startswith(_OAUTH_TOKEN)
        or _OAUTH_BETA in headers.get("anthropic-beta", "")
    )
    return not is_subscribed and not is_local_host(name)


def _ask_server(models: str, root: str | None, model: str, ask: Ask, clock: Callable[[], float]) -> ServedWindow | None:
    """Ask one question after the other until one is answered or the time is over; `root` is that of a local server."""
    deadline = clock() + ASK_SECONDS
    named = msgspec.json.encode({"model": model})
    questions = [("GET", models, b"", _in_list)]
    if root is not None:
        questions += [
            ("GET", f"{root}/props", b"", _in_properties),  # llama.cpp
            ("GET", f"{root}/api/ps", b"", _in_list),  # Ollama, if the model is loaded
            ("POST", f"{root}/api/show", named, _in_description),
            ("GET", f"{root}/api/v0/models", b"", _in_list),  # LM Studio
        ]
    for method, url, body, read in questions:
        seconds = deadline - clock()
        if seconds <= 0:
            return None
        answer = ask(Question(method, url, seconds, body, is_of_api=url == models))
        tokens = None if answer is None else read(_decoded(answer), model)
        if tokens is not None:
            return ServedWindow(tokens, url.partition("?")[0])
    return None


def _query(written: str) -> str:
    """Return the query of a request for its questions: a key or an API version, but not how a reply is streamed."""
    kept = "&".join(pair for pair in written.split("&") if pair and not pair.startswith("alt="))
    return f"?{kept}" if kept else ""


def _decoded(answer: bytes) -> Mapping[str, object]:
    if len(answer) > MOST_ANSWER_BYTES:
        return {}
    try:
        decoded = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if isinstance(decoded, list):  # Together's list of models has no object around it
        return {"data": decoded}
    return decoded if isinstance(decoded, dict) else {}


def _in_list(answer: Mapping[str, object], model: str) -> int | None:
    """Return the window in a list of models; if the server has only one, under whatever name."""
    listed = answer.get("data") or answer.get("models")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    named = [entry for entry in entries if _is_named(entry, model)]
    chosen = named or (entries if len(entries) == 1 else [])
    return next((tokens for entry in chosen if (tokens := _in_entry(entry)) is not None), None)


def _is_named(entry: Mapping[str, object], model: str) -> bool:
    names = {str(entry.get(field)).lower().removeprefix("models/") for field in ("id", "name", "model")}
    wanted = model.lower()
    return bool(names & {wanted, f"{wanted}:latest", wanted.rpartition("/")[2]})


def _in_entry(entry: Mapping[str, object]) -> int | None:
    if entry.get("state") == "not-loaded":  # with which window it will be loaded is not known
        return None
    return next((tokens for field in _FIELDS if (tokens := _as_window(entry.get(field))) is not None), None)


def _in_properties(answer: Mapping[str, object], model: str) -> int | None:
    """Return the window of llama.cpp's slots."""
    del model
    settings = answer.get("default_generation_settings")
    return _as_window(settings.get("n_ctx")) if isinstance(settings, dict) else None


def _in_description(answer: Mapping[str, object], model: str) -> int | None:
    """Return the window of an Ollama model that is not loaded: as its file states, or its longest if that is short.

    Otherwise Ollama chooses the window by the memory it finds, which is known once the model is loaded.
    """
    del model
    parameters, info = answer.get("parameters"), answer.get("model_info")
    if isinstance(parameters, str) and (stated := _NUM_CTX.search(parameters)):
        return _as_window(int(stated[1]))
    longest = next(_longest(info), None) if isinstance(info, dict) else None
    return longest if longest is not None and longest < ASSUMED_CONTEXT_TOKENS else None


def _longest(info: Mapping[str, object]) -> Iterator[int]:
    for name, value in info.items():
        tokens = _as_window(value) if str(name).endswith(".context_length") else None
        if tokens is not None:
            yield tokens


def _as_window(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and isinstance(value, int) and SMALLEST_WINDOW <= value <= LARGEST_WINDOW else None
