"""What infold and other libraries make of the same sessions: cost, cache breaks, overflows, broken pairs, lost rules, CPU.

Run `python benchmarks/peers.py` (`--write` keeps the figures in `benchmarks/results/`). Each peer lives in an environment of its
own, made with uv on the first run in `--cache` and used again after that, without a network; its adapter is in
`benchmarks/peers/`. infold is played as a `Session` that is told each reply's usage, with the model's prices and with its window
alone (which is then its only reason to fold, as it is for the peers), and as `fit`, which keeps nothing between two calls and so
never folds for price. Every session is played call by call,
every library is told to hold five sixths of the window, and what it sends is counted here, for all alike, with the o200k
vocabulary. Summarisers are faked: what a summary says is not judged, what it costs is. Not measured: what is lost beside the
user's opening rule (retention, in replay), real providers' cache expiry.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, to_builtins
from splintr import Tokenizer

from infold.catalogue import Override, Prices
from infold.core.messages import TextPart, UserMessage
from infold.core.policy import INFOLD, Policy
from infold.errors import InfoldError
from infold.session.fit import fit
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import read_transcript
from infold.transcripts.write import to_openai_chat
from infold.wiring import open_store

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.samples import add_corpus_option
from tests.support.trajectory import TRAJECTORY_RULE, trajectory

Chat: TypeAlias = dict[str, Any]

HERE = Path(__file__).parent
ADAPTERS, RESULTS = HERE / "peers", HERE / "results"
WINDOWS = (32_000, 64_000, 128_000)
TRAJECTORY_WINDOWS = (32_000, 60_000, 64_000, 128_000)
HELD = 50 / 60
"""How much of the window each library is told to hold, as the field was first measured."""

FRESH, CACHED, SUMMARY_INPUT, SUMMARY_OUTPUT = 1.25, 0.1, 1.0, 5.0
"""Prices in dollars per million tokens: input written to the cache, input read from it, and a summariser's two sides."""

PRICES = Prices(SUMMARY_INPUT, SUMMARY_OUTPUT, cache_read=CACHED, cache_write=FRESH)

SUMMARY = "The parts named so far were read, changed and tested in turn; what is left is listed in the plan. " * 55
"""What every faked summariser answers, some 1,200 tokens; it does not repeat the user's rule."""

FILES = (
    "claude-code/entireio-cli_6113e919",
    "claude-code/entireio-cli_1284c080",
    "pi/pi-mono_before-compaction",
    "codex/agentv_019ed99c",
    "mini-swe-agent/sqlfluff-1733",
    "opencode/gatomia-vscode_ses_21fe5dac",
)
TOKENISER = Tokenizer.from_pretrained("o200k_base")


PEERS = {
    "langchain": ("summarisation", "summarisation, usage", "context editing"),
    "harness": ("clear results", "clear results, usage", "clear results and inputs", "clear results and inputs, usage"),
    "inspect": ("summary", "edit"),
    "agents": ("trim outputs", "trim outputs, one turn"),
}
"""The strategies that each peer's adapter knows; `peers/NAME.txt` pins what is installed for it."""


class Own(Struct, frozen=True):
    """How a row of ours is run: as a session or by `fit`, told the model's prices or not, by a tokeniser or an estimate."""

    is_session: bool = True
    priced: bool = True
    exact: bool = True


OWN = {
    "infold": Own(),
    "infold, no prices": Own(priced=False),
    "infold, fit": Own(is_session=False),
    "infold, fit, estimate": Own(is_session=False, exact=False),
}


class History(Struct, frozen=True):
    """A session as chat messages, the words of the user that must never be missing, and the windows to try."""

    name: str
    messages: tuple[Chat, ...]
    rule: str
    windows: tuple[int, ...]


class Block(Struct, frozen=True):
    """What the account needs to know of a message."""

    tokens: int
    calls: tuple[str, ...]
    answers: str
    keeps_rule: bool


class Summarised(Struct, frozen=True):
    """What a summariser read and wrote."""

    input_tokens: int
    output_tokens: int


class Call(Struct, frozen=True):
    """One request: the digests of its messages, and what preparing it took."""

    sent: tuple[str, ...]
    cpu_seconds: float = 0.0
    summarised: tuple[Summarised, ...] = ()


class Played(Struct, frozen=True):
    """A session under one strategy; `stopped` tells why the library gave up before the end."""

    calls: tuple[Call, ...]
    stopped: str = ""


class Figures(Struct, frozen=True):
    """The account of a session under one strategy."""

    calls: int
    sent_tokens: int
    cached_share: float
    breaks: int
    largest_tokens: int
    over_window: int
    broken_pairs: int
    without_rule: int
    summaries: int
    least_tail_tokens: int
    cost: float
    cpu_ms: float
    stopped: str = ""

    @property
    def safe(self) -> bool:
        """Whether a provider would have taken every request, and the user's rule was in each."""
        return not (self.over_window or self.broken_pairs or self.without_rule or self.stopped)


class Row(Struct, frozen=True):
    """One strategy on one session in one window."""

    history: str
    window_tokens: int
    strategy: str
    figures: Figures


def main() -> int:
    """Play every session under every strategy, print the account, and keep it if asked to."""
    parser = argparse.ArgumentParser(description="infold beside other libraries, on the same sessions.")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="where the peers' environments are kept")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    add_corpus_option(parser)
    chosen = parser.parse_args()
    histories = [trajectory_history(), *corpus_histories(chosen.corpus)]
    rows = [row for history in histories for row in own_rows(history)]
    ready = [(peer, python) for peer in PEERS if (python := environment(peer, chosen.cache)) is not None]
    with ThreadPoolExecutor(2) as pool:
        jobs = [(history, peer, python) for history in histories for peer, python in ready]
        rows += [row for found in pool.map(lambda job: peer_rows(*job), jobs) for row in found]
    print(report(rows))
    if chosen.write:
        keep(rows, [peer for peer, _ in ready])
    return 0


# The account: pure functions over what was sent.


def account(
    played: Played, blocks: Mapping[str, Block], *, window_tokens: int, said: Sequence[Sequence[str]]
) -> Figures:
    """What a session cost and where it was at fault; `said` is all that had been said at each call."""
    tokens = {name: block.tokens for name, block in blocks.items()}
    sizes = [sum(tokens[name] for name in call.sent) for call in played.calls]
    requests = [call.sent for call in played.calls]
    shared = [common_prefix(before, now) for before, now in zip([(), *requests], requests, strict=False)]
    cached = [sum(tokens[name] for name in now[:length]) for now, length in zip(requests, shared, strict=True)]
    broken = [length < len(before) for before, length in zip([(), *requests], shared, strict=False)]
    summaries = [summary for call in played.calls for summary in call.summarised]
    tails = [tail_tokens(now, all_, tokens) for now, all_, cut in zip(requests, said, broken, strict=False) if cut]
    spent = sum(call.cpu_seconds for call in played.calls)
    return Figures(
        calls=len(requests),
        sent_tokens=sum(sizes),
        cached_share=round(sum(cached) / max(1, sum(sizes)), 4),
        breaks=sum(broken),
        largest_tokens=max(sizes, default=0),
        over_window=sum(size > window_tokens for size in sizes),
        broken_pairs=sum(not is_paired([blocks[name] for name in sent]) for sent in requests),
        without_rule=sum(not any(blocks[name].keeps_rule for name in sent) for sent in requests),
        summaries=len(summaries),
        least_tail_tokens=min(tails, default=0),
        cost=round(cost(sum(sizes) - sum(cached), sum(cached), summaries), 4),
        cpu_ms=round(spent / max(1, len(requests)) * 1e3, 2),
        stopped=played.stopped,
    )


def common_prefix(before: Sequence[str], now: Sequence[str]) -> int:
    """How many messages a request begins with that the one before it began with too: what a provider's cache serves."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))


def cost(fresh_tokens: int, cached_tokens: int, summaries: Iterable[Summarised]) -> float:
    """Dollars for a session's input; replies cost the same under every strategy and are left out."""
    asked = sum(SUMMARY_INPUT * each.input_tokens + SUMMARY_OUTPUT * each.output_tokens for each in summaries)
    return (FRESH * fresh_tokens + CACHED * cached_tokens + asked) / 1e6


def is_paired(blocks: Sequence[Block]) -> bool:
    """Whether each call is answered at once and each answer has its call, as providers demand."""
    waiting: set[str] = set()
    for block in blocks:
        if block.answers:
            if block.answers not in waiting:
                return False
            waiting.remove(block.answers)
        elif waiting:
            return False
        waiting.update(block.calls)
    return not waiting


def tail_tokens(sent: Sequence[str], said: Sequence[str], tokens: Mapping[str, int]) -> int:
    """How many tokens at a request's end are the newest of all that was said, as it was said."""
    kept = common_prefix(sent[::-1], said[::-1])
    return sum(tokens[name] for name in sent[len(sent) - kept :])


def block_of(message: Chat, rule: str) -> Block:
    """A message as the account sees it; its tokens are those of text, names and arguments."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    text = message.get("content") or ""
    return Block(
        tokens=count(text) + sum(count(call["name"]) + count(call["arguments"]) for call in calls),
        calls=tuple(call["id"] for call in message.get("tool_calls") or ()),
        answers=message.get("tool_call_id") or "",
        keeps_rule=rule in plain(text),
    )


LATER = re.compile(r' \(later: "[^"]*"\)')
"""What the user said later about a sentence, as infold places it behind that sentence in a quotation."""


def plain(text: str) -> str:
    """Text with its white space evened out, so that a quotation is found however it is laid out and whatever stands behind its
    sentences."""
    return LATER.sub("", " ".join(text.split()))


def count(text: str) -> int:
    """The o200k tokens of a text."""
    return len(TOKENISER.encode(text))


def digest(message: Chat) -> str:
    """A name for a message's content; the same as the adapters give."""
    return hashlib.blake2b(json.dumps(message, sort_keys=True).encode(), digest_size=12).hexdigest()


def trajectory_history() -> History:
    """The seeded run of 150 steps; its rule stands in the opening message."""
    return History("trajectory", tuple(trajectory()), plain(TRAJECTORY_RULE), TRAJECTORY_WINDOWS)


def corpus_histories(corpus: Path) -> Iterator[History]:
    """The main session of each file; its rule is all that the user first said."""
    for name, found in ((name, sorted(corpus.glob(f"{name}*"))) for name in FILES):
        if not found:
            print(f"{name} is not in the corpus; left out", file=sys.stderr)
            continue
        session = max(read_transcript(found[0]).sessions, key=lambda each: len(each.messages))
        yield History(name.partition("/")[2], tuple(to_openai_chat(session)), plain(opening(session)), WINDOWS)


def opening(session: RecordedSession) -> str:
    """The first words that a person, not the harness, wrote."""
    said = (message for message in session.messages if isinstance(message, UserMessage))
    texts = (
        part.text for message in said for part in message.parts if isinstance(part, TextPart) and not part.synthetic
    )
    return next(text for text in texts if text.strip())


def own_rows(history: History) -> Iterator[Row]:
    """No compaction at all, and infold in each of its ways."""
    for window in history.windows:
        for name, own in OWN.items():
            yield row(history, window, name, *play(history, window, INFOLD, own))
        whole = Names()
        sent = tuple(map(whole.of, history.messages))
        calls = tuple(Call(sent[:position]) for position in request_positions(history.messages))
        yield row(history, window, "none", Played(calls), whole.messages)


def play(history: History, window: int, policy: Policy, own: Own) -> tuple[Played, dict[str, Chat]]:
    """Each request of a session through infold, and the messages that were ever sent."""
    names = Names()
    calls: list[Call] = []
    steps = session_steps(history, window, policy, own) if own.is_session else fit_steps(window, policy, own)
    for position in request_positions(history.messages):
        started = time.process_time()
        try:
            sent = steps.prepare(history.messages[:position])
        except InfoldError as error:
            return Played(tuple(calls), f"{type(error).__name__}: {error}"), names.messages
        spent = time.process_time() - started
        calls.append(Call(tuple(map(names.of, sent)), spent))
        if position < len(history.messages):
            steps.record(history.messages[position], names.tokens(calls[-1].sent))
    return Played(tuple(calls)), names.messages


class Steps(Struct, frozen=True):
    """What to send for a history, and how a reply to so many tokens is reported."""

    prepare: Callable[[Sequence[Chat]], Sequence[Any]]
    record: Callable[[Chat, int], None]


def fit_steps(window: int, policy: Policy, own: Own) -> Steps:
    """Every request on its own."""
    stated = Override(context_tokens=window, family="o200k", prices=PRICES if own.priced else None)
    prepare = partial(fit, model="any", overrides={"any": stated}, policy=policy, format="openai-chat", exact=own.exact)
    return Steps(lambda messages: prepare(messages).messages, lambda *_: None)


def session_steps(history: History, window: int, policy: Policy, own: Own) -> Steps:
    """One session, told the usage of each reply; all calls follow within the cache's lifetime."""
    settings = SessionSettings(
        window=window,
        policy=policy,
        format="openai-chat",
        prices=PRICES if own.priced else None,
        now_ms=lambda: 0,
    )
    session = Session(open_store("memory"), history.name, settings)

    def record(reply: Chat, sent_tokens: int) -> None:
        usage = {"prompt_tokens": sent_tokens, "completion_tokens": block_of(reply, "").tokens}
        finish = "tool_calls" if reply.get("tool_calls") else "stop"
        session.record({"choices": [{"message": reply, "finish_reason": finish}], "usage": usage})

    return Steps(lambda messages: session.prepare(messages).messages, record)


def request_positions(messages: Sequence[Chat]) -> list[int]:
    """How many messages each request was made of: one stands before each reply, and one after the last message."""
    before = [number for number, message in enumerate(messages) if number and message["role"] == "assistant"]
    return [*before, len(messages)]


class Names:
    """The digests of messages, made once for each object, and every message by its digest."""

    def __init__(self) -> None:
        self.messages: dict[str, Chat] = {}
        self._known: dict[int, tuple[Chat, str]] = {}
        self._tokens: dict[str, int] = {}

    def of(self, message: Any) -> str:
        """The digest of a message."""
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            known = self._known[id(message)] = (message, digest(message))
            self.messages[known[1]] = message
        return known[1]

    def tokens(self, names: Iterable[str]) -> int:
        """The tokens of messages by their digests."""
        named = tuple(names)
        for name in named:
            if name not in self._tokens:
                self._tokens[name] = block_of(self.messages[name], "").tokens
        return sum(self._tokens[name] for name in named)


def row(history: History, window: int, strategy: str, played: Played, messages: Mapping[str, Chat]) -> Row:
    """The account of what was played."""
    blocks = {name: block_of(message, history.rule) for name, message in messages.items()}
    names = tuple(map(digest, history.messages))
    said = [names[:position] for position in request_positions(history.messages)]
    return Row(history.name, window, strategy, account(played, blocks, window_tokens=window, said=said))


def cache_folder() -> Path:
    """Where a user's caches are kept on this platform."""
    if sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "infold" / "peers"


def environment(peer: str, cache: Path) -> Path | None:
    """The Python of a peer's own environment, made on the first run; none, and a word about it, where it cannot be made."""
    pinned = hashlib.blake2b(" ".join(pins(peer)).encode(), digest_size=4).hexdigest()
    folder = cache / f"{peer}-{pinned}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if (folder / ".ready").exists():
        return python
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else "uv"
    try:
        for command in (
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", str(python), *pins(peer)],
        ):
            subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{peer} is left out: {error}", file=sys.stderr)
        return None
    (folder / ".ready").touch()
    return python


def pins(peer: str) -> list[str]:
    """What is installed for a peer, to the version."""
    return (ADAPTERS / f"{peer}.txt").read_text("utf-8").split()


def peer_rows(history: History, peer: str, python: Path) -> list[Row]:
    """One session under all strategies of a peer in all windows, played by its adapter."""
    runs = [(window, strategy) for window in history.windows for strategy in PEERS[peer]]
    asked = [{"strategy": name, "window_tokens": window, "hold_tokens": int(window * HELD)} for window, name in runs]
    job = json.dumps({"messages": history.messages, "summary": SUMMARY, "runs": asked})
    quiet = {**os.environ, "OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false"}
    command = [str(python), str(ADAPTERS / f"{peer}_adapter.py")]
    told = subprocess.run(command, input=job, text=True, check=True, stdout=subprocess.PIPE, env=quiet).stdout
    lines = [json.loads(line) for line in told.splitlines()]
    return [
        row(history, window, f"{peer} {strategy}", *replayed([line for line in lines if line["run"] == number]))
        for number, (window, strategy) in enumerate(runs)
    ]


def replayed(lines: Iterable[Mapping[str, Any]]) -> tuple[Played, dict[str, Chat]]:
    """A run as an adapter told it."""
    calls: list[Call] = []
    messages: dict[str, Chat] = {}
    for line in lines:
        if "error" in line:
            return Played(tuple(calls), line["error"]), messages
        messages.update(line["new"])
        summarised = tuple(Summarised(*each) for each in line["summarised"])
        calls.append(Call(tuple(line["sent"]), line["cpu_seconds"], summarised))
    return Played(tuple(calls)), messages


HEADINGS = f"{'strategy':<40}  k-tok  cache breaks  largest  over pairs  rule sums   tail    cost  CPU ms  safe"


def report(rows: Sequence[Row]) -> str:
    """Each session and window as a table, cheapest first, and infold beside the cheapest safe peer at the end."""
    cells = list(dict.fromkeys((each.history, each.window_tokens) for each in rows))
    grouped = {cell: [each for each in rows if (each.history, each.window_tokens) == cell] for cell in cells}
    tables = [table(*cell, group) for cell, group in grouped.items()]
    return "\n\n".join([*tables, verdict(grouped.values())])


def table(history: str, window: int, rows: Iterable[Row]) -> str:
    """One session in one window."""
    ordered = sorted(rows, key=lambda each: each.figures.cost)
    calls = max(each.figures.calls for each in ordered)
    title = f"{history}, window {window:,}, {calls} calls"
    return "\n".join([title, HEADINGS, *(line(each.strategy, each.figures) for each in ordered)])


def line(strategy: str, figures: Figures) -> str:
    """One strategy's account."""
    safe = "yes" if figures.safe else f"stopped at call {figures.calls + 1}" if figures.stopped else "no"
    return (
        f"{strategy:<40}{figures.sent_tokens / 1e3:>7,.0f}{figures.cached_share:>7.0%}{figures.breaks:>7}"
        f"{figures.largest_tokens:>9,}{figures.over_window:>6}{figures.broken_pairs:>6}{figures.without_rule:>6}"
        f"{figures.summaries:>5}{figures.least_tail_tokens:>7,}{figures.cost:>8.3f}{figures.cpu_ms:>8.2f}  {safe}"
    )


def verdict(cells: Iterable[Sequence[Row]]) -> str:
    """infold beside the cheapest safe peer, cell by cell, and on how many it costs no more."""
    lines = [f"{'session':<30}{'window':>8}" + "".join(f"{name:>23}" for name in (*OWN, "cheapest safe peer"))]
    good = dict.fromkeys(OWN, 0)
    for cell in cells:
        found = {each.strategy: each.figures for each in cell}
        peers = {name: found[name].cost for name in found if name not in (*OWN, "none") and found[name].safe}
        best = min(peers, key=lambda name: peers[name], default="none is safe")
        price = peers.get(best, inf)
        for name in OWN:
            good[name] += found[name].safe and found[name].cost <= price
        costs = "".join(f"{beside(found[name], price):>23}" for name in OWN)
        lines.append(f"{cell[0].history:<30}{cell[0].window_tokens:>8,}{costs}{price:>23.3f}  {best}")
    lines += [
        f"{name}: safe and no dearer than the cheapest safe peer on {good[name]} of {len(lines) - 1}" for name in OWN
    ]
    return "\n".join(lines)


def beside(figures: Figures, price: float) -> str:
    """A cost, and what it is to the price of the cheapest safe peer."""
    return f"{figures.cost:.3f} ({figures.cost / price:.2f})" if figures.safe else f"{figures.cost:.3f} faulty"


def keep(rows: Sequence[Row], peers: Iterable[str]) -> None:
    """Write the figures with machine, commit, command and versions."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    versions = {peer: pins(peer) for peer in peers}
    record = {
        "command": "python benchmarks/peers.py --write",
        "commit": commit(),
        "machine": machine,
        "versions": versions,
        "rows": [{**to_builtins(each), "safe": each.figures.safe} for each in rows],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "peers.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    heading = [f"{machine}, commit {commit()}", *(f"{peer}: {', '.join(names)}" for peer, names in versions.items())]
    (RESULTS / "peers.txt").write_text("\n".join(heading) + f"\n\n{report(rows)}\n", "utf-8")


def commit() -> str:
    """The commit that is checked out, as the repository's own files tell it."""
    git = HERE.parent / ".git"
    head = (git / "HEAD").read_text("utf-8").strip() if git.is_dir() else "unknown"
    branch = git / head.removeprefix("ref: ")
    return (branch.read_text("utf-8") if branch.is_file() else head)[:9]


if __name__ == "__main__":
    sys.exit(main())
