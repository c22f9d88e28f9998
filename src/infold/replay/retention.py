"""What a fold keeps of a real session: forced cuts, the facts still in view after them, and what recall finds.

Every k ends at the same place with the same tail and budget: k = 10 is the same history in ten successive folds. Only
the checkpoint is scored; the tail is a control. Nothing here uses a model or the clock.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean

from msgspec import Struct

from infold.core.budget import Window, budget_for
from infold.core.compact import apply_step
from infold.core.cut import Cut
from infold.core.entries import MessageEntry
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import Message, SessionId
from infold.core.plan import Fold
from infold.core.policy import INFOLD
from infold.core.tokens import estimate, measure_message
from infold.core.view import view
from infold.errors import InfoldError, UsageError
from infold.ports import SessionKey
from infold.replay.facts import (
    SETS,
    DividedHistory,
    FactSet,
    HistoryEvent,
    HistoryFact,
    ShownText,
    events_of,
    facts_of,
    find_places,
    holds,
    normalise,
    without_summaries,
)
from infold.replay.outcome import BrokenFile
from infold.session.recall import recall
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import read_transcript
from infold.wiring import open_store

KEPT_RESULTS = 10

EDGE_LINES = 5

MASK = "[masked]"


def baselines_of(head: Sequence[HistoryEvent], *, budget_tokens: int) -> dict[str, tuple[ShownText, ...]]:
    """Return the texts that each baseline leaves in view."""
    newest = {event.handle for event in [event for event in head if event.speaker == "result"][-KEPT_RESULTS:]}
    return {
        "none": _records(head, _whole),
        "last-n": _records(_last(head, budget_tokens), _whole),
        "mask-all": _records(head, _mask),
        "mask-keep-10": _records(head, lambda event: event.text if event.handle in newest else _mask(event)),
        "head+tail lines": _records(head, _edges),
    }


def _records(head: Sequence[HistoryEvent], shown: Callable[[HistoryEvent], str]) -> tuple[ShownText, ...]:
    """Return what is shown of each event as records; a result and its call are one record."""
    return tuple(ShownText.of(_with_call(event, shown(event))) for event in head if event.speaker != "call")


def _with_call(event: HistoryEvent, text: str) -> str:
    if event.call is None:
        return text
    status = "" if event.exit_status is None else f"exit {event.exit_status}"
    return f"{event.call.text}\n{status}\n{text}"


def _whole(event: HistoryEvent) -> str:
    return event.text


def _last(head: Sequence[HistoryEvent], budget_tokens: int) -> Sequence[HistoryEvent]:
    kept: list[HistoryEvent] = []
    for event in reversed(head):
        budget_tokens -= estimate(event.text, "features")
        if budget_tokens < 0:
            break
        kept.append(event)
    return kept[::-1]


def _mask(event: HistoryEvent) -> str:
    return MASK if event.speaker == "result" else event.text


def _edges(event: HistoryEvent) -> str:
    lines = event.text.splitlines()
    if event.speaker != "result" or len(lines) <= 2 * EDGE_LINES:
        return event.text
    return "\n".join((*lines[:EDGE_LINES], MASK, *lines[-EDGE_LINES:]))


CUTS = (1, 2, 3, 5, 10)

BUDGET_SHARE = 0.04
"""The share of the folded history that a checkpoint may take; recorded vendor summaries take 3.4 %."""


TAIL_TOKENS, TAIL_SHARE = 8_000, 0.1

SHORTEST_TOKENS = 16_000
"""The least that is folded in a window of 32k, the smallest that coding agents use; less is not measured."""

END_SHARES = (0.5, 0.75)
"""Where a session without a recorded summary is stopped; what follows shows what was needed."""

REPLY_TOKENS = 2_000
"""The size of one recall answer."""


MOST_DECOYS = 40

_FRAME = re.compile(r"\[[\d.]+\]|\(\d+ times\)|(?<![\d,])\d[\d,]*+ more\b|\[[\d,]+ characters in all[^\]]{0,200}\]")

_CLAIMS = re.compile(
    r"(?<![\w.@+-])(?<![\w.@+-]/)(?:[\w.@+-]++/)+[\w@+-]+\.\w+|(?<![\w.])\d[\d,]{0,40}\d{2}(?!\w)|(?<!\w)\d+\.\d+(?!\w)|\b[A-Za-z]+(?:_\w+|[a-z][A-Z]\w*)\b"
)


class EndPoint(Struct, frozen=True):
    """Where a session is stopped: `messages[:cut]` is folded, up to `end` is verbatim, the rest shows what was
    needed.
    """

    messages: tuple[Message, ...]
    cut: int
    end: int
    head_tokens: int
    summary: str = ""

    @property
    def budget_tokens(self) -> int:
        """The size of the checkpoint."""
        return int(self.head_tokens * BUDGET_SHARE)


class ScoredFact(Struct, frozen=True):
    """A fact, the methods that keep it in view, and the queries that find it with one call or two."""

    fact: HistoryFact
    held: frozenset[str]
    stale: frozenset[str] = frozenset()
    recalled: frozenset[str] = frozenset()


class Measurement(Struct, frozen=True):
    """The result at one end point: every fact, and for each method its tokens and its invented claims."""

    source: str
    session: str
    head_tokens: int
    facts: tuple[ScoredFact, ...]
    tokens: dict[str, int]
    invented: dict[str, tuple[str, ...]]


def points_of(session: RecordedSession) -> Iterator[EndPoint]:
    """Yield where a session is measured: where it was compacted with a known summary, otherwise late in the session."""
    told = [compaction for compaction in session.compactions if compaction.summary]
    summaries = [compaction.summary for compaction in told]
    messages = without_summaries(session.messages, summaries)
    sizes = [sum(measure_message(message, "features")) for message in messages]
    ends = [(len(without_summaries(session.messages[: one.position], summaries)), one.summary) for one in told]
    late = [(end, summary) for end, summary in ends if sum(sizes[end:]) >= SHORTEST_TOKENS // 8]
    for end, summary in late or [(_share_index(sizes, share), "") for share in END_SHARES]:
        point = point_at(messages, end, summary)
        if point is not None:
            yield point


def measure_session(source: str, session: RecordedSession, decoys: Sequence[HistoryFact] = ()) -> Iterator[Measurement]:
    """Measure a session at each of its end points; short ones have none."""
    for number, point in enumerate(points_of(session)):
        yield _measure(source, f"{session.id}@{number}", point, decoys)


def fold_log(point: EndPoint, cuts: int) -> Log:
    """Return the log at an end point after that many successive folds, the last one at its cut."""
    log = Log(SessionId("retention"), Rendering(recall=True))
    inputs = PlanInputs(INFOLD, budget_for(Window(200_000), INFOLD))
    sizes = [sum(measure_message(message, "features")) for message in point.messages[: point.cut]]
    steps = sorted({_share_index(sizes, number / cuts) for number in range(1, cuts)} | {point.cut})
    fed = 0
    for at, until in zip(steps, (*steps[1:], point.end), strict=True):
        log = log.extend(MessageEntry(message) for message in point.messages[fed:until])
        fed = until
        index = _legal_index(log, len(log.live) - (until - at))
        if index > 0:
            log = apply_step(log, Fold(Cut.at(log, index), point.budget_tokens, "manual"), inputs).log
    return log


def _legal_index(log: Log, wanted: int) -> int:
    """Return the last legal cut up to the wanted place, or 0."""
    return next((place for place in range(wanted, 0, -1) if log.live[place].cuttable), 0)


def decoys_of(session: RecordedSession) -> tuple[HistoryFact, ...]:
    """Return facts of one session to look for in another, where none of them is true."""
    for point in points_of(session):
        facts = [
            fact for fact in facts_of(_divide(point)) if fact.kind in ("file", "number", "reference", "identifier")
        ]
        return tuple(facts[:: max(1, len(facts) // MOST_DECOYS)])[:MOST_DECOYS]
    return ()


def point_at(messages: tuple[Message, ...], end: int, summary: str = "") -> EndPoint | None:
    """Return the end point before a message, with its tail; `None` if there is too little to fold."""
    sizes = [sum(measure_message(message, "features")) for message in messages[:end]]
    tail_tokens = min(TAIL_TOKENS, int(sum(sizes) * TAIL_SHARE))
    log = Log(SessionId("points")).extend(MessageEntry(message) for message in messages[:end])
    kept = cut = 0
    for index in range(end - 1, 0, -1):
        kept += sizes[index]
        if cut and kept > tail_tokens:
            break
        cut = index if log.live[index].cuttable else cut
    head_tokens = sum(sizes[:cut])
    return EndPoint(messages, cut, end, head_tokens, summary) if head_tokens >= SHORTEST_TOKENS else None


def _share_index(sizes: Sequence[int], share: float) -> int:
    """Return the index before which that share of all tokens lies."""
    wanted, seen = share * sum(sizes), 0
    for index, size in enumerate(sizes):
        seen += size
        if seen >= wanted:
            return index
    return len(sizes)


def _divide(point: EndPoint) -> DividedHistory:
    events = events_of(enumerate(point.messages))
    return DividedHistory(
        head=tuple(event for event in events if event.sequence < point.cut),
        tail=tuple(event for event in events if point.cut <= event.sequence < point.end),
        later=tuple(event for event in events if event.sequence >= point.end),
    )


def _measure(source: str, name: str, point: EndPoint, decoys: Sequence[HistoryFact]) -> Measurement:
    divided = _divide(point)
    texts = _folds(point)
    ways: dict[str, tuple[ShownText, ...]] = {way: (ShownText.of(text, shape="lines"),) for way, text in texts.items()}
    if point.summary:
        texts["vendor summary"] = point.summary
        ways["vendor summary"] = (ShownText.of(point.summary, shape="prose"),)
    ways |= baselines_of(divided.head, budget_tokens=point.budget_tokens)
    in_view = view(fold_log(point, CUTS[-1]), INFOLD.summary)[1:]
    tail = tuple(ShownText.of(event.text) for event in events_of(enumerate(in_view)))
    ways_with_tail = {way: (*shown, *tail) for way, shown in ways.items() if way.startswith("infold")}
    history = "\n".join(normalise(event.text) for event in divided.head)
    false = [fact for fact in decoys if not _knows(history, fact)]
    facts = (*facts_of(divided), *(_decoy(fact) for fact in false))
    recall = RecallProbe(point.messages[: point.cut])
    return Measurement(
        source=source,
        session=name,
        head_tokens=point.head_tokens,
        facts=tuple(_score(fact, ways_with_tail if "tail" in fact.sets else ways, recall) for fact in facts),
        tokens={way: sum(estimate(shown.text, "features") for shown in texts) for way, texts in ways.items()},
        invented={way: find_invented(text, history) for way, text in texts.items()},
    )


def _folds(point: EndPoint) -> dict[str, str]:
    logs = {f"infold k={cuts}": fold_log(point, cuts) for cuts in CUTS}
    return {way: log.checkpoint.text for way, log in logs.items() if log.checkpoint is not None}


def _decoy(fact: HistoryFact) -> HistoryFact:
    return HistoryFact(
        fact.kind, fact.cues, fact.answers, fact.handle, one_record=fact.one_record, sets=frozenset({"decoy"})
    )


def _knows(history: str, fact: HistoryFact) -> bool:
    return any(words in history for words in (fact.cues if fact.kind == "file" else fact.answers))


def _score(fact: HistoryFact, ways: Mapping[str, tuple[ShownText, ...]], recall: "RecallProbe") -> ScoredFact:
    held = frozenset(way for way, shown in ways.items() if holds(shown, fact, fact.answers))
    stale = frozenset(way for way, shown in ways.items() if way not in held and holds(shown, fact, fact.stale))
    asked = fact.sets & {"later", "result-only", "outcome"}
    return ScoredFact(fact, held, stale, frozenset(recall.finds(fact)) if asked else frozenset())


class RecallProbe:
    """The recall of a session, queried by the words around a fact, never by the fact itself."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.store = open_store("memory")
        self.key = SessionKey("", SessionId("retention"))
        self.store.append(self.key, [MessageEntry(message) for message in messages], expected=0)

    def finds(self, fact: HistoryFact) -> Iterator[str]:
        """Yield the queries that find a fact: by its origin or its use, in one call or in two."""
        for name, words in (("origin", fact.origin), ("use", fact.use)):
            replies = [self.ask(query) for query in _queries(words)]
            found = [_is_in(text, fact) for text in replies]
            if found[:1] == [True]:
                yield f"{name} 1"
            if any(found):
                yield f"{name} 2"

    def ask(self, query: str) -> str:
        """Return the answer of one call; nothing where the words are taken for a handle that names no part."""
        try:
            return recall(self.store, self.key, query, budget_tokens=REPLY_TOKENS)
        except UsageError:
            return ""


def _queries(words: str) -> tuple[str, ...]:
    """Return the first query, with all words, and the second, with the inner half, which is nearest to the answer."""
    split = words.split()
    if not split:
        return ()
    quarter = len(split) // 4
    return words, " ".join(split[quarter : len(split) - quarter])


def _is_in(text: str, fact: HistoryFact) -> bool:
    """Return whether an answer has the fact; a number or a status means nothing without its cue."""
    shown = [ShownText.of(block) for block in text.split("\n\n")]
    if fact.one_record or fact.kind == "number":
        return holds(shown, fact, fact.answers)
    return any(True for block in shown for answer in fact.answers for _ in find_places(block.text, answer))


def find_invented(text: str, history: str) -> tuple[str, ...]:
    """Return the paths, numbers and identifiers of a text that do not occur in the history it replaces."""
    claims = dict.fromkeys(_CLAIMS.findall(_FRAME.sub(" ", text)))
    return tuple(claim for claim in claims if normalise(claim) not in history)


def pair_neighbours(paths: Sequence[Path]) -> tuple[tuple[Path, Path], ...]:
    """Return each file with the previous one, the first with the last; decoys come from there."""
    return tuple(zip(paths, (*paths[-1:], *paths[:-1]), strict=True))


def measure_file(pair: tuple[Path, Path]) -> tuple[Measurement, ...] | BrokenFile:
    """Measure every session of a file that is long enough; return `BrokenFile` if it cannot be read."""
    path, neighbour = pair
    try:
        sessions = read_transcript(path).sessions
    except OSError as error:
        return BrokenFile(path.name, f"it cannot be read ({error.strerror}); check the path")
    except InfoldError as error:
        return BrokenFile(path.name, str(error))
    decoys = _decoys(neighbour) if neighbour != path else ()
    return tuple(measured for session in sessions for measured in measure_session(path.name, session, decoys))


def _decoys(neighbour: Path) -> tuple[HistoryFact, ...]:
    """Return facts of another session; none if it cannot be read, which is reported for that file."""
    try:
        sessions = read_transcript(neighbour).sessions
    except (InfoldError, OSError):
        return ()
    return tuple(fact for session in sessions[:1] for fact in decoys_of(session))


RESAMPLES, SEED = 1_000, 20_261

LAST = f"infold k={CUTS[-1]}"

FEWEST_FACTS = 5

QUERIES = ("origin 1", "origin 2", "use 1", "use 2")

RECALLED: tuple[FactSet, ...] = ("outcome", "later", "result-only")
"""The sets that recall is queried for."""


class Rate(Struct, frozen=True):
    """A percentage: the mean over sessions, the interval of 95 % of resampled means, and its sample size."""

    mean: float
    low: float
    high: float
    facts: int
    sessions: int


class RetentionLine(Struct, frozen=True):
    """One method over all its sets, its share of the history, and its faults."""

    way: str
    rates: dict[str, Rate]
    share_of_history: float | None = None
    stale: int = 0
    invented: int = 0


class RetentionSummary(Struct, frozen=True):
    """All lines, and what they are based on."""

    points: int
    sessions: int
    history_tokens: int
    lines: tuple[RetentionLine, ...]


def summarise_retention(measured: Sequence[Measurement]) -> RetentionSummary:
    """Return the lines of these measurements: every method, recall alone, and the last fold with recall."""
    ways = dict.fromkeys(way for one in measured for way in one.tokens)
    lines = [_way(way, [one for one in measured if way in one.tokens]) for way in ways]
    alone = {f"recall: {query}": partial(_is_kept, query=query, held="") for query in QUERIES}
    added = {f"{LAST} or recall: {query}": partial(_is_kept, query=query, held=LAST) for query in QUERIES}
    recalls: dict[str, Callable[[ScoredFact], bool]] = {
        **alone,
        **added,
        "in context or any recall": lambda s: LAST in s.held or bool(s.recalled),
    }
    lines += [RetentionLine(name, _rates(measured, RECALLED, kept)) for name, kept in recalls.items()]
    sessions = len({_session(one) for one in measured})
    return RetentionSummary(len(measured), sessions, sum(one.head_tokens for one in measured), tuple(lines))


def render_retention(summary: RetentionSummary) -> str:
    """Return the lines as a plain-text table, a column for each set."""
    head = f"{'':34}" + "".join(f"{name:>22}" for name in SETS) + f"{'of history':>12}{'stale':>7}{'invented':>9}"
    rows = [
        f"{line.way:34}" + "".join(_cell(line.rates.get(name)) for name in SETS) + _faults(line)
        for line in summary.lines
    ]
    ground = (
        f"{summary.points} points in {summary.sessions} sessions, {summary.history_tokens:,} tokens of history folded"
    )
    note = "per cent of facts, mean over sessions [95 % of 1,000 resamples] (facts)"
    return "\n".join((ground, note, "", head, *rows)) + "\n"


def _way(way: str, measured: Sequence[Measurement]) -> RetentionLine:
    return RetentionLine(
        way,
        _rates(measured, SETS, lambda scored: way in scored.held),
        round(sum(one.tokens[way] for one in measured) / sum(one.head_tokens for one in measured), 4),
        sum(way in scored.stale for one in measured for scored in one.facts),
        sum(len(one.invented.get(way, ())) for one in measured),
    )


def _is_kept(scored: ScoredFact, *, query: str, held: str) -> bool:
    """Return whether a method holds a fact, or the query recalls it."""
    return held in scored.held or query in scored.recalled


def _rates(
    measured: Sequence[Measurement], sets: Iterable[FactSet], kept: Callable[[ScoredFact], bool]
) -> dict[str, Rate]:
    found = {name: _rate(measured, name, kept) for name in sets}
    return {name: rate for name, rate in found.items() if rate is not None}


def _rate(measured: Sequence[Measurement], name: FactSet, kept: Callable[[ScoredFact], bool]) -> Rate | None:
    by_session: dict[str, list[bool]] = {}
    for one in measured:
        verdicts = [kept(scored) for scored in one.facts if name in scored.fact.sets]
        if verdicts:
            by_session.setdefault(_session(one), []).extend(verdicts)
    if not by_session:
        return None
    shares = [100 * fmean(verdicts) for verdicts in _pool_small(by_session.values())]
    low, high = _interval(shares)
    return Rate(round(fmean(shares), 1), low, high, sum(map(len, by_session.values())), len(by_session))


def _pool_small(sessions: Iterable[list[bool]]) -> Iterator[list[bool]]:
    """Yield sessions, with those of very few facts pooled, since one or two facts make no percentage."""
    small: list[bool] = []
    for verdicts in sessions:
        if len(verdicts) < FEWEST_FACTS:
            small += verdicts
        else:
            yield verdicts
    if small:
        yield small


def _interval(shares: Sequence[float]) -> tuple[float, float]:
    """Return the middle 95 % of the means of resampled sessions; deterministic."""
    chance = Random(SEED)
    means = sorted(fmean(chance.choices(shares, k=len(shares))) for _ in range(RESAMPLES))
    return round(means[RESAMPLES * 25 // 1_000], 1), round(means[RESAMPLES * 975 // 1_000 - 1], 1)


def _session(one: Measurement) -> str:
    return one.session.partition("@")[0]


def _cell(rate: Rate | None) -> str:
    return f"{'–':>22}" if rate is None else f"{f'{rate.mean} [{rate.low:.0f}–{rate.high:.0f}] ({rate.facts})':>22}"


def _faults(line: RetentionLine) -> str:
    if line.share_of_history is None:
        return ""
    return f"{100 * line.share_of_history:>11.1f}%{line.stale:>7}{line.invented:>9}"
