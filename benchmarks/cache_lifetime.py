"""What does it cost to assume that a provider's cache lives for five minutes, when it lives for longer?

    python benchmarks/cache_lifetime.py [--corpus DIR] [--json] [--write]

Replays every session of the corpus that has usage, prices, 20 calls and a pause of more than 300 s under the preset `infold`, at
its model's own window and at 64,000 tokens. The cache lives as the record shows (by the reported writes, else by the pauses), or
for an hour. The policy knows that lifetime and its write price, or assumes the fixed 300 s of earlier versions, or never takes
the cache for expired; and *stated* is what a replay would have reported in which the cache, too, lives for 300 s. Last, what
expired caches cost in the sessions as they were recorded. The tests' own transcripts are used where there is no corpus; they
have no pauses. Not measured: what a fold loses, and summaries by a model.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import ModelEntry, lookup
from infold.errors import InfoldError
from infold.replay.calls import RecordedRun, find_calls
from infold.replay.outcome import PolicyOutcome
from infold.replay.policies import ReplaySetup, make_runner
from infold.replay.prices import DEFAULT_LIFETIME_SECONDS, HOUR_SECONDS, Tariff, cache_rules
from infold.replay.scale import MessageCounter, learn_lifetime, learn_overhead, learn_scale, unexplained_misses
from infold.replay.simulate import Billing, simulate
from infold.session.counting import counting_for
from infold.transcripts.registry import read_transcript

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.samples import REPOSITORY, add_corpus_option

RESULTS = Path(__file__).resolve().parent / "results"
WINDOWS = (0, 64_000)
LEAST_CALLS = 20
"""Shorter sessions are never folded for their price."""

LIFETIMES = {"as recorded": 0, "one hour": HOUR_SECONDS}


class Replayed(Struct, frozen=True):
    """One session at one window with one lifetime: dollars if the policy knows it, assumes 300 s, or ignores expiry.

    `stated` is the cost that a replay with the fixed lifetime reports; `paused` counts pauses of more than 300 s.
    """

    session: str
    model: str
    window_tokens: int
    lifetime: str
    lifetime_seconds: int
    paused: int
    stated: float
    assumed: float
    known: float
    ignored: float
    assumed_folds: int
    known_folds: int


class ExpiryLoss(Struct, frozen=True):
    """What expired caches cost in one recorded session, by its reported usage; `share` is of all its input."""

    session: str
    lifetime_seconds: int
    expiries: int
    tokens: int
    dollars: float
    share: float


def main() -> None:
    """Measure, print, and keep the figures if asked to."""
    parser = argparse.ArgumentParser(description="measure what the cache's lifetime is worth")
    add_corpus_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--write", action="store_true", help="write results/cache_lifetime.json and .txt")
    options = parser.parse_args()
    recordings = list(recorded_runs(options.corpus))
    replayed = [row for recording in recordings for row in replay(recording)]
    losses = [loss for recording in recordings if (loss := expiry_loss(recording)) is not None]
    command = "python benchmarks/cache_lifetime.py --write"
    commit = subprocess.run(
        ["git", "describe", "--always"], capture_output=True, text=True, check=False, cwd=REPOSITORY
    ).stdout.strip()
    record = {"command": command, "commit": commit, "replayed": replayed, "losses": losses}
    data = json.dumps(msgspec.to_builtins(record), indent=1, ensure_ascii=False) + "\n"
    text = f"{render(replayed)}\n{render_losses(losses)}"
    if options.write:
        (RESULTS / "cache_lifetime.json").write_text(data, "utf-8")
        (RESULTS / "cache_lifetime.txt").write_text(text, "utf-8")
    print(data if options.json else text, end="")


def recorded_runs(corpus: Path) -> Iterator[RecordedRun]:
    """Yield the sessions that can be priced and are long enough, in order of name."""
    folder = corpus if corpus.is_dir() else REPOSITORY / "tests" / "data" / "corpus"
    for path in sorted(path for path in folder.rglob("*.gz") if path.is_file()):
        try:
            sessions = read_transcript(path).sessions
        except InfoldError:
            continue
        for session in sessions:
            recording = find_calls(session)
            has_usage = any(call.usage is not None and call.sent_ms is not None for call in recording.calls)
            known = session.model is not None and lookup(session.model.id).entry.prices is not None
            is_long = len(recording.calls) >= LEAST_CALLS and paused(recording)
            if known and has_usage and is_long:
                yield recording


def replay(recording: RecordedRun) -> Iterator[Replayed]:
    """Yield the session with each lifetime at each window."""
    setup, tariff = set_up(recording), Tariff(entry_of(recording))
    fixed = cache_rules(tariff.entry, lifetime_seconds=DEFAULT_LIFETIME_SECONDS)
    for window in WINDOWS:
        for name, chosen in LIFETIMES.items():
            seconds = chosen or learned_seconds(recording)
            rules = cache_rules(tariff.entry, lifetime_seconds=seconds)
            real = Billing(
                replace(tariff, hourly=seconds >= HOUR_SECONDS),
                rules,
                window or tariff.entry.input_limit_tokens,
                unexplained_misses(recording, learned_seconds(recording)),
            )
            informed = replace(setup, rates=real.tariff.rates(), lifetime_ms=rules.lifetime_ms)
            ignorant = replace(setup, rates=tariff.rates(), lifetime_ms=fixed.lifetime_ms)
            known, assumed = run(informed, real, window), run(ignorant, real, window)
            ignored = run(replace(informed, lifetime_ms=None), real, window)
            reported = run(ignorant, replace(real, tariff=tariff, rules=fixed), window)
            yield Replayed(
                session=recording.session.id[:8],
                model=tariff.entry.name,
                window_tokens=window or tariff.entry.context_tokens,
                lifetime=name,
                lifetime_seconds=seconds,
                paused=paused(recording),
                stated=round(reported.spend.dollars, 4),
                assumed=round(assumed.spend.dollars, 4),
                known=round(known.spend.dollars, 4),
                ignored=round(ignored.spend.dollars, 4),
                assumed_folds=assumed.compactions,
                known_folds=known.compactions,
            )


def run(setup: ReplaySetup, billing: Billing, window: int) -> PolicyOutcome:
    """Replay the session under `infold`."""
    return simulate("infold", make_runner("infold", setup, window), setup, billing, label_tokens=window)


def set_up(recording: RecordedRun) -> ReplaySetup:
    """Return what the replays of a session share."""
    ruler = counting_for("o200k").ruler
    counter = MessageCounter(ruler, learn_scale(recording, ruler), opening=recording.opening)
    return ReplaySetup(recording, counter, learn_overhead(recording, counter), entry_of(recording))


def entry_of(recording: RecordedRun) -> ModelEntry:
    """Return the catalogue's entry of the session's model."""
    assert recording.session.model is not None
    return lookup(recording.session.model.id).entry


def learned_seconds(recording: RecordedRun) -> int:
    """Return the lifetime that the record shows."""
    return learn_lifetime(recording, entry_of(recording).cache_lifetime_seconds or DEFAULT_LIFETIME_SECONDS)


def paused(recording: RecordedRun) -> int:
    """Return how often more than 300 s lay between a reply and the next request."""
    return sum(
        (after.sent_ms or 0) - (before.answered_ms or after.sent_ms or 0) > DEFAULT_LIFETIME_SECONDS * 1_000
        for before, after in pairwise(recording.calls)
    )


def expiry_loss(recording: RecordedRun) -> ExpiryLoss | None:
    """Return what the recorded session lost to expired caches; `None` if nothing."""
    seconds = learned_seconds(recording)
    rates = Tariff(entry_of(recording), hourly=seconds >= HOUR_SECONDS).rates()
    lost = []
    for before, after in pairwise(recording.calls):
        if before.usage is None or after.usage is None or before.answered_ms is None or after.sent_ms is None:
            continue
        expected = min(before.usage.prompt, after.usage.prompt)
        is_missed = 2 * after.usage.cache_read < expected and not recording.compactions_before(after)
        if is_missed and (after.sent_ms - before.answered_ms) / 1_000 > seconds:
            lost.append(expected - after.usage.cache_read)
    if not lost or rates is None:
        return None
    usages = [call.usage for call in recording.calls if call.usage is not None]
    paid = sum(usage.cache_read * rates.cached + (usage.prompt - usage.cache_read) * rates.fresh for usage in usages)
    extra = sum(lost) * (rates.fresh - rates.cached)
    return ExpiryLoss(
        recording.session.id[:8], seconds, len(lost), sum(lost), round(extra / 1_000_000, 4), round(extra / paid, 4)
    )


def render(rows: Iterable[Replayed]) -> str:
    """Return a table with a line for each session, window and lifetime, and the sums."""
    rows = list(rows)
    head = f"{'session':9} {'model':25} {'window':>9} {'lifetime':>8} {'pauses':>6} {'stated':>8} {'ignored':>8} "
    lines = [
        "Dollars of a replay under infold; pauses: longer than 300 s. stated: the cache lives 300 s in the replay as well;",
        "ignored: the policy never takes it for expired; assumed: it assumes 300 s; known: it knows the lifetime.",
    ]
    for name in LIFETIMES:
        own = [row for row in rows if row.lifetime == name]
        sums = (sum(getattr(row, field) for row in own) for field in ("stated", "ignored", "assumed", "known"))
        lines += ["", f"lifetime: {name}", head + f"{'assumed':>8} {'known':>8}  folds"]
        lines += [
            f"{row.session:9} {row.model:25} {row.window_tokens:9,} {row.lifetime_seconds:8,} {row.paused:6} "
            f"{row.stated:8.3f} {row.ignored:8.3f} {row.assumed:8.3f} {row.known:8.3f}  "
            f"{row.assumed_folds} → {row.known_folds}"
            for row in own
        ]
        lines.append(f"{'all':61} " + " ".join(f"{total:8.3f}" for total in sums))
    return "\n".join(lines) + "\n"


def render_losses(losses: Iterable[ExpiryLoss]) -> str:
    """Return what expired caches cost in the recorded sessions."""
    lines = ["Lost to expired caches in the recorded sessions, by their reported usage:"]
    lines += [
        f"{loss.session:9} lifetime {loss.lifetime_seconds:6,} s  {loss.expiries:3} times {loss.tokens:10,} tokens "
        f"${loss.dollars:8.3f}  {loss.share:6.1%} of its input"
        for loss in losses
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
