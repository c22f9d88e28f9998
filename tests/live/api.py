"""Calls of the live checks to a provider: raw HTTP, time limits, waits for rate limits, refusals saved without the key.

What a check expects and what it found are values here; the checks themselves are in one module for each provider.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, Literal, TypeAlias, TypeVar

import httpx2
import msgspec
from msgspec import Struct

from infold.catalogue import cost_of, family_of, lookup
from infold.core.messages import Usage
from infold.core.tokens import estimate, estimate_tokens
from infold.formats import anthropic
from infold.formats.codec import Item, dict_or_empty
from infold.formats.overflow import Overflow, message_in, recognise
from infold.formats.registry import ANTHROPIC_MESSAGES, OPENAI_RESPONSES, WireFormat
from infold.formats.requests import BETA_HEADER, format_of_path, native_path_suffix
from infold.session.counting import counting_for, least_for

Verdict: TypeAlias = Literal["same", "different", "could not tell"]

MOST_WAITS = 2
LONGEST_WAIT_SECONDS = 60.0
FRAME_TOKENS = 24
"""Tokens that a provider may count around a single message."""

SAVED_CHARS = 1_500
"""Characters of a text in a saved refusal; what follows adds nothing to it."""

SAVED_HEADERS = ("request-id", "x-request-id", "retry-after", "content-type")
NO_MONEY = re.compile(r"credit balance|billing|insufficient_quota|exceeded your current quota", re.IGNORECASE)
SECRETS = re.compile(r"\b(?:sk|org|proj)[-_][\w*.-]{6,}|\bAIza[\w*-]{10,}")
"""Keys, whole or masked, and names of accounts, as providers write them into refusals."""

Made = TypeVar("Made")


class CannotTell(Exception):
    """A check has no answer: a call failed for another reason, or a reply lacks what would be sent back."""


class KeyRefused(Exception):
    """The provider does not accept the key."""


class Finding(Struct, frozen=True):
    """What a check found, and whether it is what infold assumes."""

    verdict: Verdict
    found: str


class Answer(Struct, frozen=True):
    """A provider's answer; `body` is empty if it is not a JSON object."""

    status: int
    content: bytes
    body: Item

    @property
    def is_accepted(self) -> bool:
        return self.status < 400

    @property
    def overflow(self) -> Overflow | None:
        """What infold recognises in a refusal."""
        return None if self.is_accepted else recognise(self.status, self.content)

    @property
    def refusal(self) -> str:
        """The status and the words of a refusal, safe to print."""
        words = "".join(one if one.isprintable() else " " for one in message_in(self.content)[:400])
        return f"{self.status}, {words.strip() or 'without a text'}"


class Provider(Struct, frozen=True):
    """One provider: where it is, what its key is called, which models to ask.

    `overflow_model` has a small window, for requests that are too large.
    """

    name: str
    base_url: str
    keys: tuple[str, ...]
    model: str
    overflow_model: str
    headers: Callable[[str], Mapping[str, str]]


class Api:
    """A provider's API with a key: calls, what they cost, and the refusals that were saved."""

    def __init__(
        self, provider: Provider, key: str, *, folder: Path, timeout_seconds: float, window_tokens: int | None = None
    ) -> None:
        self.provider = provider
        self.model = provider.model
        self.overflow_model = provider.overflow_model
        self.check = ""
        self.calls = 0
        self.usage = Usage()
        self.cost = 0.0
        self.saved: list[str] = []
        self._key = key
        self._folder = folder
        self._window_tokens = window_tokens
        self._is_accepted = False
        self._client = httpx2.Client(
            base_url=provider.base_url, headers={**provider.headers(key)}, timeout=timeout_seconds
        )

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def window_tokens(self) -> int:
        """The largest input that the overflow model is expected to take."""
        return self._window_tokens or lookup(self.overflow_model).entry.input_limit_tokens

    def post(self, path: str, body: Item, *betas: str) -> Answer:
        """Send a request; wait where the provider asks for it, save a refusal. Raise `CannotTell` or `KeyRefused`."""
        headers = {BETA_HEADER: ",".join(betas)} if betas else {}
        for waits in range(MOST_WAITS + 1):
            response = self._send(path, body, headers)
            answer = Answer(response.status_code, response.content, _object_in(response.content))
            is_last = waits == MOST_WAITS or NO_MONEY.search(response.text)
            if answer.status not in (408, 409, 429, 500, 502, 503, 504, 529) or is_last:
                break
            time.sleep(_wait_seconds(response.headers.get("retry-after"), waits))
        if answer.is_accepted:
            self._account(path, body, answer)
            return answer
        self._save(path, body, betas, response)
        self._require_usable(answer)
        return answer

    def redact(self, text: str) -> str:
        """Return a text without the key, other keys and the names of accounts."""
        return SECRETS.sub("[removed]", text.replace(self._key, "[removed]"))

    def _send(self, path: str, body: Item, headers: Mapping[str, str]) -> httpx2.Response:
        self.calls += 1
        try:
            return self._client.post(path, json=body, headers=headers)
        except httpx2.TimeoutException as error:
            raise CannotTell(f"no answer within the time limit ({type(error).__name__})") from error
        except httpx2.HTTPError as error:
            raise CannotTell(self.redact(f"the connection failed: {error or type(error).__name__}")) from error

    def _require_usable(self, answer: Answer) -> None:
        words = self.redact(answer.refusal)
        is_denied = answer.status == 403 or "api key not valid" in words.lower()
        if answer.status == 401 or (is_denied and not self._is_accepted):
            raise KeyRefused(words)
        if answer.status in (403, 404, 429) or answer.status >= 500 or NO_MONEY.search(answer.refusal):
            raise CannotTell(words)

    def _account(self, path: str, body: Item, answer: Answer) -> None:
        self._is_accepted = True
        wire = wire_of(path)
        if wire is None:
            return
        reply = stream_reply(wire, answer) if body.get("stream") or "streamGenerate" in path else answer.body
        own = anthropic.compaction_usage(reply) if wire is ANTHROPIC_MESSAGES else None
        for used in filter(None, (wire.usage(reply), own)):
            self.usage = self.usage.plus(used)
            self.cost += cost_of(str(body.get("model") or self.model), used)

    def _save(self, path: str, body: Item, betas: Sequence[str], response: httpx2.Response) -> None:
        record = {
            "provider": self.provider.name,
            "check": self.check,
            "path": path,
            "betas": betas,
            "request": shorten(body),
            "status": response.status_code,
            "headers": {name: response.headers[name] for name in SAVED_HEADERS if name in response.headers},
            "response": shorten(_object_in(response.content) or response.text),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.provider.name}-{re.sub(r'[^a-z0-9]+', '-', self.check.lower()).strip('-')}-{self.calls}.json"
        text = msgspec.json.format(msgspec.json.encode(record), indent=2).decode()
        (self._folder / name).write_text(self.redact(text) + "\n", "utf-8")
        self.saved.append(name)


class Check(Struct, frozen=True, kw_only=True):
    """One question to a provider: what infold assumes, where that stands, and the function that finds out.

    `calls`, `input_tokens` and `output_tokens` are about what it needs, for the estimate at the start. `is_refused`: its
    request is expected to be refused for its size, which is not billed. `is_large`: it fills a window, so it runs only if
    asked for.
    """

    name: str
    assumes: str
    where: str
    run: Callable[[], Finding]
    calls: int = 1
    input_tokens: int = 300
    output_tokens: int = 100
    is_refused: bool = False
    is_large: bool = False


class Once(Generic[Made]):
    """A value that several checks need: it is made when first asked for, and so is the reason why it cannot be."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._made: list[Made] = []
        self._failure: CannotTell | None = None

    def get(self) -> Made:
        """Return the value, or raise the `CannotTell` that making it raised."""
        if self._failure is not None:
            raise CannotTell(str(self._failure))
        if not self._made:
            try:
                self._made.append(self._make())
            except CannotTell as failure:
                self._failure = failure
                raise
        return self._made[0]


# From an answer to a finding.


def same(found: str) -> Finding:
    return Finding("same", found)


def different(found: str) -> Finding:
    return Finding("different", found)


def expect(is_so: bool, found: str) -> Finding:
    """Return what was found, as infold assumes it if `is_so`."""
    return Finding("same" if is_so else "different", found)


def expect_accepted(answer: Answer) -> Finding:
    return expect(answer.is_accepted, "accepted" if answer.is_accepted else f"refused: {answer.refusal}")


def expect_refused(answer: Answer, words: str) -> Finding:
    """Expect a refusal that mentions `words`, a pattern; one that does not may have another reason."""
    if answer.is_accepted:
        return different("accepted")
    is_meant = re.search(words, answer.refusal, re.IGNORECASE)
    return Finding("same" if is_meant else "could not tell", f"refused: {answer.refusal}")


def expect_bound(answer: Answer) -> Finding:
    """Expect a refusal that infold recovers by leaving out thinking."""
    if answer.is_accepted:
        return different("accepted")
    is_known = answer.overflow is not None and answer.overflow.bound_thinking
    return expect(is_known, f"refused, {'recognised' if is_known else 'not recognised'}: {answer.refusal}")


def expect_overflow(answer: Answer, window_tokens: int) -> Finding:
    """Expect a refusal for size that infold recognises, with the limit that the catalogue has if it states one."""
    if answer.is_accepted:
        return different("accepted: the window is larger than the catalogue says")
    overflow = answer.overflow
    if overflow is None or overflow.bound_thinking or overflow.native:
        return different(f"refused, not recognised as an overflow: {answer.refusal}")
    limit, size = overflow.limit_tokens, overflow.prompt_tokens
    numbers = f"size {size:,}" if size else "no size", f"limit {limit:,}" if limit else "no limit"
    found = f"recognised as {overflow.family}, {', '.join(numbers)}: {answer.refusal}"
    return expect(limit is None or limit == window_tokens, f"{found} (expected limit {window_tokens:,})")


def expect_count(model: str, text: str, counted: object) -> Finding:
    """Compare a provider's count of a text with infold's own, within the bounds that infold relies on."""
    if not isinstance(counted, int):
        return different(f"the count is {counted!r}")
    family = family_of(model)
    counting = counting_for(family)
    least = least_for(family, counting.ruler)
    is_wide = not text.isascii()
    ours = estimate(text, counting.ruler)
    low = ours * (least.wide if is_wide else least.prose)
    high = ours * (counting.wide_margin if is_wide and counting.wide_margin else counting.margin) + FRAME_TOKENS
    kind = "exact" if counting.is_exact else "estimated"
    found = f"{counted:,} tokens, ours {ours:,} ({kind}), ratio {counted / ours:.2f}; bounds {low:,.0f} to {high:,.0f}"
    return expect(low <= counted <= high, found)


def expect_usage(wire: WireFormat, reply: object, *, finish: str = "stop") -> Finding:
    """Expect usage that infold reads, and a reason for the end that it knows."""
    used, ended = wire.usage(reply), wire.finish(reply)
    if used is None:
        return different(f"no usage was read: {dict_or_empty(reply).keys()}")
    found = f"input {used.prompt:,}, output {used.output:,}, reasoning {used.reasoning:,}; ended with {ended!r}"
    return expect(used.prompt > 0 and used.output + used.reasoning > 0 and ended == finish, found)


def expect_stream(wire: WireFormat, answer: Answer) -> Finding:
    """Expect a stream that infold puts together: finished, with usage, and with every event understood."""
    if not answer.is_accepted:
        return expect_accepted(answer)
    builder = wire.new_builder()
    builder.feed(answer.content)
    builder.close()
    if not builder.is_finished or builder.skipped or builder.error() is not None:
        found = f"finished: {builder.is_finished}, skipped {builder.skipped}, error {builder.error()}"
        return different(found)
    return expect_usage(wire, builder.reply())


def stream_reply(wire: WireFormat, answer: Answer) -> Item | None:
    """Return the reply that a stream amounts to."""
    builder = wire.new_builder()
    builder.feed(answer.content)
    builder.close()
    return builder.reply()


def wire_of(path: str) -> WireFormat | None:
    """Return the format of replies at a path, `None` where they have no usage."""
    suffix = native_path_suffix(OPENAI_RESPONSES)
    return format_of_path(path.removesuffix(suffix))


# Texts.

_FERRY = "The ferry leaves the eastern pier at nine and comes back before the storm. "


def large_text(tokens: int) -> str:
    """Return a text of at least so many tokens, by the count that runs lowest."""
    return _FERRY * (tokens // (estimate_tokens(_FERRY * 100) // 100) + 1)


def _project_text(path: str) -> str:
    text = (Path(__file__).parents[2] / path).read_text("utf-8")
    return text.encode("ascii", "ignore").decode()[:2_400]


def sample_texts() -> dict[str, str]:
    """Return texts to count, by kind."""
    return {
        "English": _project_text("docs/why.md"),
        "code": _project_text("src/infold/core/prune.py"),
        "Chinese": CHINESE * 3,
    }


CHINESE = (
    "渡轮每天早上九点从东码头出发，晚上在暴风雨到来之前返回。船上有两个仓库，一个放绳索和油漆，另一个放备用零件。"
    "管理员每周检查一次库存，把缺少的东西写在清单上，然后交给城里的供应商。去年冬天海面结冰，船停了三个星期，"
    "所以今年他们提前准备了更多的燃料。新来的水手问：“如果发动机坏了怎么办？”老船长笑着回答：“那就先看说明书，再打电话。”"
)


# Small readers.


def shorten(value: object) -> object:
    """Return a JSON value with long texts cut and long lists reduced to their ends."""
    if isinstance(value, str):
        left = len(value) - SAVED_CHARS
        return value if left <= 0 else f"{value[:SAVED_CHARS]} … ({left:,} characters more)"
    if isinstance(value, dict):
        return {key: shorten(inner) for key, inner in value.items()}
    return [shorten(inner) for inner in value] if isinstance(value, list | tuple) else value


def _object_in(content: bytes) -> Item:
    try:
        return dict_or_empty(msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _wait_seconds(stated: str | None, waits: int) -> float:
    """Return how long to wait before the next try: as stated, or twice as long each time."""
    try:
        seconds = float(stated or "")
    except ValueError:
        seconds = 5.0 * 2**waits
    return seconds if 0 <= seconds <= LONGEST_WAIT_SECONDS else LONGEST_WAIT_SECONDS
