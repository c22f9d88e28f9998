"""Is what an agent needed later still there after a compaction?

    python benchmarks/needed_later.py [--corpus DIR] [--quick] [--jobs N] [--json] [--write]

A fact is needed later if a rare token of the history before a cut (a path, an identifier, a number, a quoted text) stands in
a tool call that the agent made after the cut, and neither a tool nor the user had shown it again before that call. Which
tokens count is decided by their shape and by how often they occur in the session, never by words that `core.extract` looks
for, so that the measure also asks for what the extractor does not see. `docs/concepts/retention.md` explains the scores.

Sessions are cut at 25, 50 and 75 % and compacted through `Session` in one, three and ten steps, without a model. All messages
of the view before the kept tail count, the checkpoint's and kept steps, and together they have a room of 4 % of the history
(at least 1,500 tokens); the column *of history* is what they really take, *over* the number of cuts where they take more than
the room. In the same run: a plain ledger of the same size, whose recall is BM25 over passages, and the newest 20,000 tokens of
the history.

Each way is judged by two rules. *In context*: the token stands in a line with its file, two words of its command or of a line
that it came from. *Only with its subject*, the second half of each table: in a checkpoint the same, but not in a fragment of a
line (behind a dash that follows a handle, a path or a command with its outcome, or in pieces joined with ` · `) and not in a
list of names; in a message that is sent in its own form, wherever it stands: in prose, in the arguments of a call, or in what
is shown of a result.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import takewhile
from math import log
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TypeAlias

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from infold import InfoldError, Session, SessionSettings, UsageError, open_store, preset, tokens
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    SystemMessage,
    TextPart,
    UserMessage,
    calls_of,
    results_of,
)
from infold.core.tokens import estimate, measure_message
from infold.core.view import view
from infold.replay.facts import without_summaries
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import read_transcript

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.later_facts import (
    HANDLE,
    HUMP,
    WORD,
    Event,
    Kind,
    NeededFact,
    Shown,
    event_records,
    events_of,
    list_share,
    needed_facts,
    record_of,
    records_of,
    statements_of,
    verbatim_records,
    words_of,
)
from benchmarks.samples import add_corpus_option

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "benchmarks" / "results"
INVENTED = REPOSITORY / "tests" / "data" / "corpus"

CUT_SHARES = (0.25, 0.5, 0.75)
COMPACTIONS = (1, 3, 10)
BUDGET_SHARE, LEAST_BUDGET_TOKENS = 0.04, 1_500
SHORTEST_TOKENS = 8_000
"""Shorter histories are not measured: 1,500 tokens would be a large part of them, and no window is filled by so little."""

TAIL_TOKENS, TAIL_SHARE = 8_000, 0.25
"""What stays verbatim in the row with a tail."""

LAST_TOKENS = 20_000
REPLY_TOKENS = 2_000
MOST_ASKED = 40
"""Facts for which recall is asked at one cut, evenly spaced over those that can be asked for."""

FEWEST_WORDS = 3
"""Words that a call must have in addition to the token, so that recall can be asked with them."""


# The baselines.


def ledger_text(head: Sequence[Event], budget_tokens: int) -> str:
    """Return a plain ledger: user text, files, commands, errors and todos, each newest first.

    Every section gets a fifth of the room; what is left over goes to the sections in order.
    """
    calls = [event for event in head if event.speaker == "call"]
    todos = [event for event in calls if "todo" in event.tool.lower() or "plan" in event.tool.lower()][-1:]
    sections = {
        "User": [event.text for event in head if event.speaker == "user"],
        "Files": [f"{path}: {event.tool}" for event in calls for path in sorted(event.title_files)],
        "Commands": [event.title for event in calls],
        "Errors": [f"{event.title}: {event.text[:300]}" for event in head if event.failed],
        "Todos": [line.text for event in todos for line in reversed(event.lines)],
    }
    waiting = {
        name: list(dict.fromkeys(" ".join(entry.split()) for entry in found)) for name, found in sections.items()
    }
    lines: dict[str, list[str]] = {name: [name] for name in sections}
    left = budget_tokens - estimate("\n".join(sections), "features")
    for share in (5, 1):
        for name, entries in waiting.items():
            room = left if share == 1 else min(left, budget_tokens // share)
            while entries and room > 0:
                short = entries.pop()[: room * 3]
                size = estimate(f"- {short}\n", "features") + 1
                if size <= room:
                    lines[name].append(f"- {short}")
                    left -= size
                room -= size
    return "\n".join(line for found in lines.values() for line in found)


def newest(head: Sequence[Event], budget_tokens: int) -> Sequence[Event]:
    """Return the newest events within that many tokens."""
    for number, event in enumerate(reversed(head)):
        budget_tokens -= estimate(event.text, "features")
        if budget_tokens < 0:
            return head[len(head) - number :]
    return head


class Bm25:
    """BM25 over passages of fourteen lines, a result's under the call that it answers."""

    def __init__(self, head: Iterable[Event]) -> None:
        self.passages = [
            "\n".join((event.title[:300], *(line.text[:400] for line in event.lines[start : start + 14])))
            for event in head
            for start in range(0, len(event.lines), 14)
        ]
        self.postings = defaultdict[str, dict[int, int]](dict)
        self.lengths = []
        for number, passage in enumerate(self.passages):
            counts = Counter(self.terms(passage))
            self.lengths.append(counts.total())
            for term, count in counts.items():
                self.postings[term][number] = count

    @staticmethod
    def terms(text: str) -> list[str]:
        """Return the terms of a text, as often as they occur."""
        return WORD.findall(HUMP.sub(" ", text).lower()) + re.findall(r"\w{3,}", text.lower())

    def ask(self, query: str) -> str:
        """Return the best passages within the size of a reply."""
        scores = defaultdict[int, float](float)
        mean = fmean(self.lengths or [1])
        for term in dict.fromkeys(self.terms(query)):
            found = self.postings.get(term, {})
            weight = log(1 + (len(self.passages) - len(found) + 0.5) / (len(found) + 0.5))
            for number, count in found.items():
                damp = 1.2 * (0.25 + 0.75 * self.lengths[number] / mean)
                scores[number] += weight * count * 2.2 / (count + damp)
        room, reply = REPLY_TOKENS, []
        for number in sorted(scores, key=lambda number: (-scores[number], -number)):
            room -= estimate(self.passages[number], "features") + 2
            if room < 0:
                break
            reply.append(self.passages[number])
        return "\n\n".join(reply)


# infold, through its public API.


class Context(Struct, frozen=True):
    """What a model sees of the history: texts in place of messages, messages in their own form, and the tokens of both."""

    texts: tuple[str, ...]
    events: Sequence[Event]
    tokens: int

    @staticmethod
    def of(messages: Sequence[Message]) -> "Context":
        """Return messages of a view; what infold writes there as a user or as a summary is text, the rest are kept steps."""
        parts = (part for message in messages if _is_checkpoint(message) for part in message.parts)
        texts = tuple(part.text for part in parts if isinstance(part, TextPart))
        steps = [message for message in messages if not _is_checkpoint(message)]
        return Context(texts, events_of(steps), tokens_of(messages))

    @property
    def in_context(self) -> Shown:
        """What it holds by the older rule."""
        return Shown.of((*(one for text in self.texts for one in records_of(text)), *event_records(self.events)))

    @property
    def with_subject(self) -> Shown:
        """What it holds by the stricter rule."""
        statements = (one for text in self.texts for one in statements_of(text))
        return Shown.of((*statements, *verbatim_records(self.events)))


def _is_checkpoint(message: Message) -> bool:
    return isinstance(message, UserMessage) or (isinstance(message, AssistantMessage) and message.summary)


def tokens_of(messages: Iterable[Message]) -> int:
    """Return the estimated size of messages."""
    return sum(sum(measure_message(message, "features")) for message in messages)


class Compacted(Struct, frozen=True):
    """A session after its compactions: what its view has before the kept tail, and the session for recall."""

    context: Context
    session: Session


def settings_within(budget_tokens: int) -> SessionSettings:
    """Return settings by which all that a fold leaves before the kept tail has that much room."""
    policy = preset("infold")
    summary = replace(policy.summary, size=tokens(budget_tokens), minimum_tokens=200, maximum_tokens=budget_tokens)
    return SessionSettings(
        window=10_000_000,
        policy=replace(policy, auto=False, summary=summary),
        format="openai-chat",
        recall=True,
        environ={},
        now_ms=lambda: 0,
    )


def compact(messages: Sequence[Message], cuts: Sequence[int], budget_tokens: int) -> Compacted:
    """Give a session these messages and compact it before each of the cuts, at last before the message that ends it.

    The last cut may be the number of messages: then nothing is left but a synthetic request to go on.
    """
    session = Session(open_store("memory"), "needed-later", settings_within(budget_tokens))
    numbers: list[int] = []

    def add(some: Iterable[Message]) -> None:
        for message in some:
            numbers.append(session.log.next_sequence)
            session.add([message])

    for cut in cuts[:-1]:
        add(messages[len(numbers) : cut + 1])
        with suppress(UsageError):  # there may be no place for a cut since the one before
            session.compact(up_to=numbers[cut])
    add((*messages[len(numbers) :], UserMessage(MessageId("end"), (TextPart("Go on.", synthetic=True),))))
    session.compact(up_to=numbers[cuts[-1]])
    return Compacted(Context.of(before_tail(session)), session)


def before_tail(session: Session) -> list[Message]:
    """Return the messages of the view that stand before the first kept one; system messages are never folded."""
    log = session.log
    first_kept = 0 if log.checkpoint is None else log.checkpoint.first_kept or 0
    tail = {logged.message.id for logged in log.live if logged.sequence >= first_kept}
    ahead = takewhile(lambda message: message.id not in tail, view(log, session.policy.summary))
    return [message for message in ahead if not isinstance(message, SystemMessage)]


def recall_of(session: Session) -> Callable[[str], str]:
    """Return one call of the session's own recall."""

    def ask(query: str) -> str:
        try:
            return session.recall(query, budget_tokens=REPLY_TOKENS)
        except InfoldError:  # the words look like a handle
            return ""

    return ask


def legal_cut(messages: Sequence[Message], share: float) -> int:
    """Return the first place after that share of all tokens where no call is separated from its result."""
    sizes = [sum(measure_message(message, "features")) for message in messages]
    answered = {part.call_id: number for number, message in enumerate(messages) for part in results_of(message)}
    seen = waits_until = 0
    for number, message in enumerate(messages):
        if seen >= share * sum(sizes) and number > waits_until and not results_of(message):
            return number
        seen += sizes[number]
        waits_until = max([waits_until, *(answered.get(call.call_id, 0) for call in calls_of(message))])
    return len(messages)


# Measuring.


class ScoredFact(Struct, frozen=True):
    """A fact by its class, the ways that keep it in context, those that keep it with its subject, and the searches that
    find it, if they were asked."""

    kind: Kind
    key: str
    result_only: bool
    held: frozenset[str]
    stated: frozenset[str]
    recalled: frozenset[str] | None = None


class Measured(Struct, frozen=True):
    """One cut of one session: its facts, and for each way its tokens and its share of bare lists."""

    transcript: str
    session: str
    share: float
    head_tokens: int
    budget_tokens: int
    facts: tuple[ScoredFact, ...]
    tokens: dict[str, int]
    lists: dict[str, float]


def measure(
    transcript: str, session: RecordedSession, common: frozenset[str] = frozenset(), *, quick: bool = False
) -> Iterator[Measured]:
    """Measure a session at each of its cuts; short histories and sessions without later calls have none."""
    summaries = [compaction.summary for compaction in session.compactions if compaction.summary]
    messages = without_summaries(session.messages, summaries)
    if tokens_of(messages) < SHORTEST_TOKENS:
        return
    events = events_of(messages)
    cuts = {legal_cut(messages, share): share for share in (CUT_SHARES[1:2] if quick else CUT_SHARES)}
    for cut, share in cuts.items():
        head_tokens = tokens_of(messages[:cut])
        facts = needed_facts(events, cut, always_shown=f"{session.system}\n{session.tools}", common=common)
        if head_tokens >= SHORTEST_TOKENS and facts:
            head = Head(messages[:cut], [event for event in events if event.sequence < cut], head_tokens)
            yield _measure_cut(transcript, session.id, share, head, facts, (3,) if quick else COMPACTIONS)


class Head(Struct, frozen=True):
    """The history before a cut."""

    messages: Sequence[Message]
    events: Sequence[Event]
    tokens: int

    @property
    def budget_tokens(self) -> int:
        return max(LEAST_BUDGET_TOKENS, int(self.tokens * BUDGET_SHARE))


def _measure_cut(
    transcript: str,
    session: str,
    share: float,
    head: Head,
    facts: Sequence[NeededFact],
    compactions: Sequence[int],
) -> Measured:
    contexts: dict[str, Context] = {}
    asks: dict[str, Callable[[str], str]] = {}
    for count in compactions:
        steps = sorted({legal_cut(head.messages, number / count) for number in range(1, count)} | {len(head.messages)})
        compacted = compact(head.messages, [step for step in steps if step > 0], head.budget_tokens)
        contexts[f"infold k={count}"] = compacted.context
        asks["infold"] = recall_of(compacted.session)
    ledger = ledger_text(head.events, head.budget_tokens)
    contexts["ledger"] = Context((ledger,), (), estimate(ledger, "features"))
    asks["ledger"] = Bm25(head.events).ask
    lists = {way: round(list_share("\n".join(context.texts)), 4) for way, context in contexts.items()}
    contexts["infold and tail"] = _with_tail(head)
    last = newest(head.events, LAST_TOKENS)
    contexts["last 20k"] = Context((), last, _size(last))
    contexts["whole history"] = Context((), head.events, head.tokens)
    asked = set(evenly([fact.key for fact in facts if len(words_of(fact.query)) >= FEWEST_WORDS], MOST_ASKED))
    held = {way: context.in_context for way, context in contexts.items()}
    stated = {way: context.with_subject for way, context in contexts.items()}
    scored = tuple(
        ScoredFact(
            fact.kind,
            fact.key,
            fact.result_only,
            frozenset(way for way, shown in held.items() if shown.holds(fact)),
            frozenset(way for way, shown in stated.items() if shown.holds(fact)),
            frozenset(name for name, ask in asks.items() if found_by(ask, fact)) if fact.key in asked else None,
        )
        for fact in facts
    )
    sizes = {way: context.tokens for way, context in contexts.items()}
    return Measured(transcript, session, share, head.tokens, head.budget_tokens, scored, sizes, lists)


def _with_tail(head: Head) -> Context:
    """Return what a fold leaves if the newest part of the history stays as it is."""
    tail_from = legal_cut(head.messages, 1 - min(TAIL_TOKENS / head.tokens, TAIL_SHARE))
    folded = compact(head.messages, [tail_from], head.budget_tokens).context
    tail = [event for event in head.events if event.sequence >= tail_from]
    return Context(folded.texts, (*folded.events, *tail), folded.tokens + _size(tail))


def _size(events: Iterable[Event]) -> int:
    return sum(estimate(event.text, "features") for event in events)


def found_by(ask: Callable[[str], str], fact: NeededFact) -> bool:
    """Return whether one query with the words of its use brings a passage that has the fact."""
    reply = ask(fact.query)
    return Shown.of(record_of(HANDLE.sub("", block)) for block in reply.split("\n\n")).holds(fact)


def evenly(items: Sequence[str], most: int) -> list[str]:
    """Return at most so many of the items, evenly spaced."""
    return [items[number * len(items) // most] for number in range(most)] if len(items) > most else list(items)


# Summing up.

RESAMPLES, SEED = 1_000, 20_261
FEWEST_FACTS = 5
"""Transcripts with fewer facts count together as one, since one or two facts make no percentage."""

WAYS = (*(f"infold k={count}" for count in COMPACTIONS), "infold and tail", "ledger", "last 20k", "whole history")
SEARCHES = {"infold": "infold recall", "ledger": "BM25"}


class Score(Struct, frozen=True):
    """A percentage: the mean over transcripts, the middle 95 % of resampled means, and its sample."""

    mean: float
    low: float
    high: float
    facts: int
    transcripts: int


class Row(Struct, frozen=True):
    """One way: what it holds by class of fact, its share of the history and of the room, at how many cuts it takes more
    than the room, and its share of bare lists."""

    way: str
    scores: dict[str, Score]
    of_history: float | None = None
    of_room: float | None = None
    over_room: int | None = None
    name_lists: float | None = None


class CorpusSummary(Struct, frozen=True):
    """All rows of one corpus, and what they are based on."""

    transcripts: int
    cuts: int
    facts: int
    asked: int
    history_tokens: int
    rows: tuple[Row, ...]
    with_subject: tuple[Row, ...]


Test: TypeAlias = Callable[[ScoredFact], bool]
CLASSES: dict[str, Test] = {
    "needed": lambda _: True,
    "result-only": lambda fact: fact.result_only,
    "path": lambda fact: fact.kind == "path",
    "identifier": lambda fact: fact.kind == "identifier",
    "number": lambda fact: fact.kind == "number",
    "quote": lambda fact: fact.kind == "quote",
}


def _is_asked(fact: ScoredFact) -> bool:
    return fact.recalled is not None


def _is_held(way: str, fact: ScoredFact) -> bool:
    return way in fact.held


def _is_stated(way: str, fact: ScoredFact) -> bool:
    return way in fact.stated


def _is_recalled(search: str, fact: ScoredFact) -> bool:
    return search in (fact.recalled or ())


IN_CONTEXT: dict[str, Test] = {way: partial(_is_held, way) for way in WAYS}
WITH_SUBJECT: dict[str, Test] = {way: partial(_is_stated, way) for way in WAYS}
RECALLED: dict[str, Test] = {search: partial(_is_recalled, search) for search in SEARCHES}


def summarise(measured: Sequence[Measured]) -> CorpusSummary:
    """Return the rows of these measurements: what is in context, what recall finds, and both together, by both rules."""
    facts = [fact for one in measured for fact in one.facts]
    present = [way for way in WAYS if any(way in one.tokens for one in measured)]
    last_fold = next(way for way in reversed(present) if "k=" in way)
    rows = [_way_row(way, measured, IN_CONTEXT[way]) for way in present]
    stated = [_way_row(way, measured, WITH_SUBJECT[way]) for way in present]
    for search, title in SEARCHES.items():
        context = "ledger" if search == "ledger" else last_fold
        found = RECALLED[search]
        rows.append(Row(title, _scores(measured, found, _is_asked)))
        rows.append(Row(f"{context} or {title}", _scores(measured, _either(IN_CONTEXT[context], found), _is_asked)))
        stated.append(Row(f"{context} or {title}", _scores(measured, _either(WITH_SUBJECT[context], found), _is_asked)))
    return CorpusSummary(
        transcripts=len({one.transcript for one in measured}),
        cuts=len(measured),
        facts=len(facts),
        asked=sum(map(_is_asked, facts)),
        history_tokens=sum(one.head_tokens for one in measured),
        rows=tuple(rows),
        with_subject=tuple(stated),
    )


def _either(one: Test, other: Test) -> Test:
    return lambda fact: one(fact) or other(fact)


def _way_row(way: str, measured: Sequence[Measured], is_kept: Test) -> Row:
    tokens_used = sum(one.tokens[way] for one in measured)
    of_history = round(100 * tokens_used / sum(one.head_tokens for one in measured), 1)
    scores = _scores(measured, is_kept)
    if way not in measured[0].lists:
        return Row(way, scores, of_history)
    return Row(
        way,
        scores,
        of_history,
        of_room=round(100 * tokens_used / sum(one.budget_tokens for one in measured), 1),
        over_room=sum(one.tokens[way] > one.budget_tokens for one in measured),
        name_lists=round(100 * fmean(one.lists[way] for one in measured), 1),
    )


def _scores(measured: Sequence[Measured], kept: Test, among: Test = lambda _: True) -> dict[str, Score]:
    scores = {}
    for name, belongs in CLASSES.items():
        by_transcript = defaultdict[str, list[bool]](list)
        for one in measured:
            by_transcript[one.transcript] += [kept(fact) for fact in one.facts if belongs(fact) and among(fact)]
        verdicts = [found for found in by_transcript.values() if found]
        if verdicts:
            scores[name] = score(verdicts)
    return scores


def score(transcripts: Sequence[Sequence[bool]]) -> Score:
    """Return the mean share over transcripts and its bootstrap interval; the same each time."""
    small = [verdict for verdicts in transcripts if len(verdicts) < FEWEST_FACTS for verdict in verdicts]
    groups = [verdicts for verdicts in transcripts if len(verdicts) >= FEWEST_FACTS] + ([small] if small else [])
    shares = [100 * fmean(verdicts) for verdicts in groups]
    chance = Random(SEED)
    means = sorted(fmean(chance.choices(shares, k=len(shares))) for _ in range(RESAMPLES))
    low, high = means[RESAMPLES * 25 // 1_000], means[RESAMPLES * 975 // 1_000 - 1]
    facts = sum(map(len, transcripts))
    return Score(round(fmean(shares), 1), round(low, 1), round(high, 1), facts, len(transcripts))


def render(corpus: str, summary: CorpusSummary) -> str:
    """Return the rows of one corpus as a plain-text table."""
    ground = (
        f"{corpus}: {summary.transcripts} transcripts, {summary.cuts} cuts, {summary.history_tokens:,} tokens of history, "
        f"{summary.facts:,} facts needed later, recall asked for {summary.asked:,}"
    )
    return "\n".join((ground, *_table("", summary.rows), *_table(SUBJECT_TITLE, summary.with_subject))) + "\n"


SUBJECT_TITLE = "only with its subject"


def _table(title: str, rows: Sequence[Row]) -> Iterator[str]:
    sizes = f"{'of history':>12}{'of room':>9}{'over':>6}{'lists':>7}"
    yield f"{title:34}" + "".join(f"{name:>22}" for name in CLASSES) + sizes
    for row in rows:
        yield (f"{row.way:34}" + "".join(_cell(row.scores.get(name)) for name in CLASSES) + _sizes(row)).rstrip()


def _cell(found: Score | None) -> str:
    text = "–" if found is None else f"{found.mean:.0f} [{found.low:.0f}–{found.high:.0f}] ({found.facts})"
    return f"{text:>22}"


def _sizes(row: Row) -> str:
    of_history, of_room, lists = (
        "" if share is None else f"{share:.1f}%" for share in (row.of_history, row.of_room, row.name_lists)
    )
    over = "" if row.over_room is None else str(row.over_room)
    return f"{of_history:>12}{of_room:>9}{over:>6}{lists:>7}"


# The command.


FEWEST_AGENTS = 3
"""A token in transcripts of so many agents is general knowledge, such as `/dev/null` or `package.json`."""


class _Task(Struct, frozen=True):
    path: Path
    common: frozenset[str]
    quick: bool


def measure_file(task: _Task) -> tuple[Measured, ...] | str:
    """Measure every session of a file; return what is wrong with it if it cannot be read."""
    try:
        sessions = read_transcript(task.path).sessions
    except (InfoldError, OSError) as error:
        return f"{task.path.name}: {error}"
    name = f"{task.path.parent.name}/{task.path.name}"
    return tuple(one for session in sessions for one in measure(name, session, task.common, quick=task.quick))


def keys_in_file(path: Path) -> frozenset[str]:
    """Return all that the sessions of a file show; nothing if it cannot be read."""
    try:
        sessions = read_transcript(path).sessions
    except (InfoldError, OSError):
        return frozenset()
    return frozenset().union(*(event.keys for session in sessions for event in events_of(session.messages)))


def measure_corpus(corpus: Path, *, quick: bool, jobs: int) -> list[Measured]:
    """Measure the transcripts of a folder, or every third of them; one that cannot be read is reported."""
    paths = sorted(path for path in corpus.rglob("*") if path.suffix in (".gz", ".json", ".jsonl") and path.is_file())
    paths = [path for path in paths if path.name != "MANIFEST.json"]
    if not paths:
        print(f"no transcripts in {corpus}: set INFOLD_CORPUS or pass --corpus", file=sys.stderr)
    measured: list[Measured] = []
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        agents = defaultdict[str, set[str]](set)
        for path, keys in zip(paths, pool.map(keys_in_file, paths), strict=True):
            agents[path.parent.name] |= keys
        counts = Counter(key for keys in agents.values() for key in keys)
        common = frozenset(key for key, count in counts.items() if count >= FEWEST_AGENTS)
        for found in pool.map(measure_file, [_Task(path, common, quick) for path in (paths[::3] if quick else paths)]):
            if isinstance(found, str):
                print(found, file=sys.stderr)
            else:
                measured += found
    return measured


def main() -> None:
    """Measure, print, and keep the figures if asked to."""
    parser = argparse.ArgumentParser(description="measure whether what was needed later is kept")
    add_corpus_option(parser)
    parser.add_argument("--quick", action="store_true", help="every third transcript, one cut, three compactions")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--write", action="store_true", help="write results/needed_later.json and .txt")
    options = parser.parse_args()
    corpora = {"shared corpus": options.corpus, "invented corpus": INVENTED}
    found: dict[str, CorpusSummary] = {}
    for name, folder in corpora.items():
        measured = measure_corpus(folder, quick=options.quick, jobs=options.jobs)
        if measured:
            found[name] = summarise(measured)
        if long := [one for one in measured if one.budget_tokens > LEAST_BUDGET_TOKENS]:
            found[f"{name}, cuts where the room is 4 %"] = summarise(long)
    note = "per cent of facts, mean over transcripts [95 % of 1,000 resamples] (facts)"
    text = note + "\n\n" + "\n".join(render(name, summary) for name, summary in found.items())
    if options.write:
        write(text, to_builtins(found))
    print(json.dumps(to_builtins(found), indent=1) if options.json else text)


def write(text: str, figures: dict[str, object]) -> None:
    """Write the figures with machine, commit and command."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True, cwd=REPOSITORY
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    record = {"command": "python benchmarks/needed_later.py --write", "commit": commit, "machine": machine, **figures}
    (RESULTS / "needed_later.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    (RESULTS / "needed_later.txt").write_text(f"{machine}, commit {commit}\n{text}", "utf-8")


if __name__ == "__main__":
    main()
