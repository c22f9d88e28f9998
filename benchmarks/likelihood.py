"""Which view of a folded session makes what really happened next most likely to a real model?

    python benchmarks/likelihood.py views VIEWS.jsonl.gz [--variant "steps 0.6:steps_share=0.6"]... [--jobs 2]
    python benchmarks/likelihood.py encode MODEL.gguf VIEWS.jsonl.gz ROWS.npz [--view NAME]... [--decoys]
    python benchmarks/likelihood.py table SCORES.json... [--against NAME]... [--write --note TEXT]

`views` cuts recorded sessions at fixed places and writes views of the history, each with the size that is stated for the cut:
infold's fold by code alone with the default policy, the same with other values in its `SummaryPolicy`, baselines and controls.

`encode` writes token ids and marks what is scored: the prose, calls and facts of the assistant in what really happened next. A
fact is a name in a call that the history has and the tail lacks. A program next to the sessions (`score.py`) then runs the
model on a GPU.

`table` compares the views by bits per token (`likelihood_table.py`). Sessions and cuts are in the folder `likelihood` next to
the corpus.
"""

import argparse
import gzip
import json
import os
import platform
import random
import re
import shlex
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, to_builtins

from infold import Session, SessionSettings, open_store, preset, tokens
from infold.core.policy import SummaryPolicy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.likelihood_table import DECOY, FULL, INFOLD, TAIL, compare, read_scores, render_table
from benchmarks.samples import add_corpus_option

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "benchmarks" / "results"

Message: TypeAlias = dict[str, Any]
"""A message of a chat request, as it is sent."""

LARGEST_MISS = 0.03
"""A view whose size is further from the size asked for is marked, and left out of the tables."""

FULL_TOKENS, LONGEST_WHOLE_TOKENS = 24_000, 2_000
"""Tokens of the view `full`, and of one message in it."""

OPENING_TOKENS, LONGEST_SAID_TOKENS, LEAST_RESULT_TOKENS = 800, 300, 20
CLEARED = "[tool result cleared]"
"""Most tokens of the opening request and of a text in an old step, and least of a result that is not cleared."""

NEXT_SCORED_TOKENS, NEXT_TOKENS, NEXT_RESULT_TOKENS = 1_500, 5_000, 700
"""What counts as next: the assistant's tokens, all tokens, and those of one result."""

DECOY_DISTANCE = 20
"""Least number of messages between a cut and the place from which its decoy is taken."""


def load_package(module: str, package: str) -> Any:
    """Import a heavy module when it is first needed; exit with the package to install if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SystemExit(f"{module} is missing; install its package: pip install {package}") from error


# Sizes.


class Ruler:
    """Sizes in tokens of one vocabulary."""

    def __init__(self, encode: Callable[[str], list[int]], decode: Callable[[list[int]], str]) -> None:
        self._encode = encode
        self._decode = decode
        self._count = lru_cache(200_000)(lambda text: len(encode(text)))

    def beginning(self, text: str, limit: int) -> str:
        """Return the first tokens of a text, at most `limit`."""
        if len(text) <= limit:
            return text
        start = text[: limit * 12]
        ids = self._encode(start)
        return start if len(ids) <= limit else self._decode(ids[:limit])

    def size(self, messages: Iterable[Message]) -> int:
        """Return the tokens of contents, and of the names and arguments of calls, with a little for the frames."""
        return sum(map(self._size_of, messages))

    def _size_of(self, message: Message) -> int:
        calls = (call["function"] for call in message.get("tool_calls") or ())
        called = sum(self._count(call["name"]) + self._count(call["arguments"]) + 8 for call in calls)
        return 4 + self._count(text_of(message)) + called


@cache
def o200k() -> Ruler:
    """Return the ruler by which the sizes of the cuts were counted."""
    vocabulary = load_package("splintr", "splintr-rs").Tokenizer.from_pretrained("o200k_base")
    return Ruler(vocabulary.encode_ordinary, vocabulary.decode_lossy)


def text_of(message: Message) -> str:
    """Return the text of a message, that of several parts joined by line ends."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content or () if isinstance(part, dict))


def shortened(messages: Iterable[Message], limit: int, ruler: Ruler) -> list[Message]:
    """Return messages with at most so many tokens of text each."""
    return [
        {**one, "content": ruler.beginning(one["content"], limit)} if isinstance(one.get("content"), str) else one
        for one in messages
    ]


def steps_of(messages: Sequence[Message]) -> list[list[Message]]:
    """Divide messages into steps: one, and the results of its calls."""
    steps: list[list[Message]] = []
    for message in messages:
        if message["role"] == "tool" and steps:
            steps[-1].append(message)
        else:
            steps.append([message])
    return steps


# Cases: a session, a place in it, and the size of the views.


class Cut(Struct, frozen=True):
    """A place in a session: the number of messages before it, where the tail of a view begins, and the size of a view."""

    id: str
    cut: int
    tail_from: int
    size: int


class Case(Struct, frozen=True):
    """A cut of a session: its history in three parts, what happened next, and what happened elsewhere in the session.

    `number` is that of the cut among all, and `foreign` are messages of other sessions.
    """

    number: int
    cut: Cut
    system: list[Message]
    head: list[Message]
    tail: list[Message]
    next: list[Message]
    decoy: list[Message]
    foreign: list[Message]


class View(Struct, frozen=True):
    """What is sent in place of a history; `fits`: whether it has the size asked for."""

    tokens: int
    fits: bool
    messages: list[Message]


class Viewed(Struct, frozen=True):
    """All views at one cut, what happened next, and what happened elsewhere in the session."""

    id: str
    size: int
    views: dict[str, View]
    next: list[Message]
    decoy: list[Message] = []


class Variant(Struct, frozen=True):
    """Values in place of those of the default `SummaryPolicy`, and the name of the views made with them."""

    name: str
    changes: dict[str, Any] = {}


def parse_variant(text: str) -> Variant:
    """Parse `name:field=value,field=value`; raise `ArgumentTypeError` for an unknown field or a value that cannot be."""
    name, _, stated = text.partition(":")
    kinds = {field.name: field.type for field in msgspec.structs.fields(SummaryPolicy)}
    changes: dict[str, Any] = {}
    for field, _, value in (change.strip().partition("=") for change in stated.split(",") if change.strip()):
        if field not in kinds:
            raise argparse.ArgumentTypeError(f"SummaryPolicy has no field {field!r}; use one of {', '.join(kinds)}")
        try:
            changes[field] = msgspec.convert(value, kinds[field], strict=False)
        except msgspec.ValidationError as error:
            raise argparse.ArgumentTypeError(f"{field}={value}: {error}") from error
    preset("infold").summary.but(**changes)
    return Variant(name, changes)


def read_cases(folder: Path, only: str = "") -> list[list[Case]]:
    """Return the cases of each session, from a folder with sessions and cuts; `only` is a part of the session's id."""
    with gzip.open(folder / "sessions.jsonl.gz", "rb") as lines:
        sessions = {row["id"]: row["messages"] for row in map(msgspec.json.decode, lines)}
    cuts = msgspec.json.decode((folder / "cuts.json").read_bytes(), type=list[Cut])
    names = list(sessions)
    cases = defaultdict[str, list[Case]](list)
    for number, cut in enumerate(cuts):
        if only not in cut.id:
            continue
        place = names.index(cut.id)
        foreign = [message for name in [*names[place + 1 :], *names[:place]][:3] for message in sessions[name]]
        places = [one.cut for one in cuts if one.id == cut.id]
        cases[cut.id].append(case_of(sessions[cut.id], cut, number=number, places=places, foreign=foreign))
    return list(cases.values())


def case_of(messages: list[Message], cut: Cut, *, number: int, places: Sequence[int], foreign: list[Message]) -> Case:
    """Return the case of a cut; its decoy begins at another one of these places, far from it."""
    far = [place for place in places if abs(place - cut.cut) > DECOY_DISTANCE]
    first = 1 if messages[0]["role"] == "system" else 0
    return Case(
        number=number,
        cut=cut,
        system=messages[:first],
        head=messages[first : cut.tail_from],
        tail=messages[cut.tail_from : cut.cut],
        next=messages[cut.cut :],
        decoy=messages[far[number % len(far)] :] if far else [],
        foreign=foreign,
    )


# Views.


def views_of(case: Case, variants: Sequence[Variant], ruler: Ruler) -> dict[str, View]:
    """Return all views of a case by name: baselines, controls and folds."""
    size = case.cut.size
    found = baselines(case, ruler) | {one.name: fold_to_size(case, one, ruler) for one in variants}
    sized = {name: (ruler.size(messages), messages) for name, messages in found.items()}
    return {
        name: View(tokens, name in (TAIL, FULL) or abs(tokens - size) <= LARGEST_MISS * size, messages)
        for name, (tokens, messages) in sized.items()
    }


def baselines(case: Case, ruler: Ruler) -> dict[str, list[Message]]:
    """Return the tail, the newest messages of the whole history, and the tail behind old steps with their results cleared: the
    newest, random ones, and those of another session.

    Where all steps fit, results keep a beginning, as long a one as fits.
    """
    before = [*case.system, *shortened(_first_request(case.head), OPENING_TOKENS, ruler)]
    room = case.cut.size - ruler.size([*before, *case.tail])

    def size_with(limit: int) -> int:
        return sum(ruler.size(step) for _, step in _cleared_steps(case.head, limit, ruler))

    limits = range(LEAST_RESULT_TOKENS, LONGEST_WHOLE_TOKENS)
    fitting = limits[: bisect_right(limits, room, key=size_with)] if size_with(0) <= room else ()
    limit = max(fitting, default=0)
    own, foreign = _cleared_steps(case.head, limit, ruler), _cleared_steps(case.foreign, 0, ruler)
    chance = random.Random(case.number)
    chosen = {
        "cleared steps + tail": own[::-1],
        "random steps + tail": chance.sample(own, len(own)),
        "another session's steps + tail": chance.sample(foreign, len(foreign)),
    }
    return {
        TAIL: [*case.system, *case.tail],
        **{name: [*before, *_fill(steps, room, ruler), *case.tail] for name, steps in chosen.items()},
        FULL: [*case.system, *_newest([*case.head, *case.tail], ruler)],
    }


def _first_request(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message["role"] == "user"][:1]


def _cleared_steps(messages: Sequence[Message], result_limit: int, ruler: Ruler) -> list[tuple[int, list[Message]]]:
    """Return the steps of messages with their places, without the opening request, with that many tokens of each result."""
    opening = _first_request(messages)

    def cleared(message: Message) -> Message:
        if message["role"] == "tool" and not result_limit:
            return {**message, "content": CLEARED}
        limit = result_limit if message["role"] == "tool" else LONGEST_SAID_TOKENS
        return shortened([message], limit, ruler)[0]

    return [
        (place, [cleared(message) for message in step])
        for place, step in enumerate(steps_of(messages))
        if step[:1] != opening and step[0]["role"] != "system"
    ]


def _fill(steps: Iterable[tuple[int, list[Message]]], room: int, ruler: Ruler) -> list[Message]:
    """Return the steps that fit, taken in the order given, in the order of their places."""
    taken: list[tuple[int, list[Message]]] = []
    for place, step in steps:
        size = ruler.size(step)
        if size <= room:
            taken.append((place, step))
            room -= size
    return [message for _, step in sorted(taken, key=lambda one: one[0]) for message in step]


def _newest(messages: Sequence[Message], ruler: Ruler) -> list[Message]:
    """Return the newest steps within the size of a full view, long messages shortened."""
    taken: list[list[Message]] = []
    room = FULL_TOKENS
    for step in reversed(steps_of(messages)):
        short = shortened(step, LONGEST_WHOLE_TOKENS, ruler)
        room -= ruler.size(short)
        if room < 0:
            break
        taken.append(short)
    return [message for step in reversed(taken) for message in step]


# Folds, each of the size asked for.

LEAST_ROOM = 100
"""Least tokens for what a fold leaves in place of the head."""

NEAR = 0.005
SIZE_TRIALS, TAIL_TRIALS = 14, 4


def fold_to_size(case: Case, variant: Variant, ruler: Ruler) -> list[Message]:
    """Return the history folded once by code alone, of the size asked for and with the tail of the case.

    Only where no room for the checkpoint gives that size, the tail begins a few steps later or earlier.
    """
    history, size = [*case.system, *case.head, *case.tail], case.cut.size
    start = len(history) - len(case.tail)
    best: list[Message] = []
    for _ in range(TAIL_TRIALS):
        guess = size - ruler.size([*case.system, *history[start:]])
        found = fit_room(partial(folded, history, start, variant), ruler.size, size=size, guess=guess)
        missed = ruler.size(found) - size
        if not best or abs(missed) < abs(ruler.size(best) - size):
            best = found
        moved = moved_tail(history, start, missed, ruler)
        if abs(missed) <= LARGEST_MISS * size or moved == start:
            break
        start = moved
    return best


def fit_room(
    view_with: Callable[[int], list[Message]], size_of: Callable[[list[Message]], int], *, size: int, guess: int
) -> list[Message]:
    """Return the view nearest to a size, by trying rooms: what is missing is added, within bounds that close in."""
    low, high = LEAST_ROOM, max(4 * size, 2 * LEAST_ROOM)
    room = min(max(guess, low), high)
    best: list[Message] = []
    for _ in range(SIZE_TRIALS):
        view = view_with(room)
        missed = size_of(view) - size
        if not best or abs(missed) < abs(size_of(best) - size):
            best = view
        if abs(missed) <= NEAR * size:
            break
        if missed > 0:
            high = room
        else:
            low = room
        room = room - missed if low < room - missed < high else (low + high) // 2
        if room in (low, high):
            break
    return best


def folded(history: list[Message], start: int, variant: Variant, room: int) -> list[Message]:
    """Return what is sent after a fold of everything before a message, with that much room for what replaces it."""
    base = preset("infold")
    changes = {"minimum_tokens": min(LEAST_ROOM, room), **variant.changes, "size": tokens(room), "maximum_tokens": room}
    policy = base.but(auto=False, priced="never", summary=base.summary.but(**changes))
    settings = SessionSettings(
        window=20_000_000, policy=policy, format="openai-chat", recall=True, environ={}, now_ms=lambda: 0
    )
    with Session(open_store("memory"), "likelihood", settings) as session:
        session.prepare(history)
        return list(session.compact(up_to=session.log.live[start - len(history)].sequence).messages)


def moved_tail(history: Sequence[Message], start: int, missed: int, ruler: Ruler) -> int:
    """Return where a tail begins that is smaller by what a view has too many of, or larger by what it lacks, in whole steps."""
    moved, size = start, 0
    if missed > 0:
        for place in range(start + 1, len(history)):
            size += ruler.size(history[place - 1 : place])
            if size >= missed and history[place]["role"] != "tool":
                return place
        return start
    for place in range(start - 1, 0, -1):
        size += ruler.size(history[place : place + 1])
        if size > -missed:
            break
        moved = moved if history[place]["role"] == "tool" else place
    return moved


# What happened next.


def continuation(messages: Iterable[Message], ruler: Ruler) -> list[Message]:
    """Return the beginning of what happened, results shortened."""
    taken: list[Message] = []
    scored = used = 0
    for message in messages:
        one = shortened([message], NEXT_RESULT_TOKENS, ruler)[0] if message["role"] == "tool" else message
        size = ruler.size([one])
        if taken and (scored >= NEXT_SCORED_TOKENS or used + size > NEXT_TOKENS):
            break
        taken.append(one)
        scored += size if one["role"] == "assistant" else 0
        used += size
    return taken


def view_session(task: tuple[list[Case], list[Variant]]) -> list[Viewed]:
    """Return the views at the cuts of one session."""
    cases, variants = task
    ruler = o200k()
    return [
        Viewed(
            id=f"{case.cut.id}@{case.cut.cut}",
            size=case.cut.size,
            views=views_of(case, variants, ruler),
            next=continuation(case.next, ruler),
            decoy=continuation(case.decoy, ruler),
        )
        for case in cases
    ]


def write_views(options: argparse.Namespace) -> None:
    """Write the views of all cases, a line for each cut, and print how many have the size asked for."""
    variants = [Variant(INFOLD), *options.variant]
    tasks = [(cases, variants) for cases in read_cases(options.corpus.parent / "likelihood", options.only)]
    fits = defaultdict[str, list[bool]](list)
    with gzip.open(options.out, "wb") as out, ProcessPoolExecutor(max_workers=options.jobs) as pool:
        for viewed in (one for found in pool.map(view_session, tasks) for one in found):
            out.write(msgspec.json.encode(viewed) + b"\n")
            for name, view in viewed.views.items():
                fits[name].append(view.fits)
            missed = {name: view.tokens for name, view in viewed.views.items() if not view.fits}
            print(
                f"{viewed.id}: size {viewed.size:,}; not of this size: {missed or 'none'}", file=sys.stderr, flush=True
            )
    for name, fitting in fits.items():
        print(f"{name}: {sum(fitting)} of {len(fitting)} views have the size asked for")


# Token ids, and what of them is scored.

MOST_TOKENS = 32_000
"""Tokens of a view with what happened next; a longer one loses its beginning."""

NAME = re.compile(r"[\w./@-]{5,}")
TELLING, NUMBER_OR_DOTS = re.compile(r"[\d_/.]|[a-z][A-Z]"), re.compile(r"[\d.]+|[-_./]+")
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How the model's vocabulary divides text; the file of weights has only the name of this rule."""


class Span(Struct, frozen=True):
    """A stretch of text that is scored, and the number of its class."""

    start: int
    end: int
    mark: int


class Rendered(Struct, frozen=True):
    """Messages in the chat form of the model, and what of them is scored."""

    text: str
    spans: list[Span]


def render(messages: Iterable[Message], facts: Iterable[str] = ()) -> Rendered:
    """Return messages in the model's chat form, with what the assistant wrote.

    A fact counts where a call names it first, unless it was shown in a message before.
    """
    pieces: list[str] = []
    spans: list[Span] = []
    at, unseen = 0, set(facts)
    for message in messages:
        role, text = message["role"], text_of(message)
        frame = "user" if role in ("tool", "developer") else role
        shown = f"<tool_response>\n{text}\n</tool_response>" if role == "tool" else text
        calls = "" if role == "tool" else "".join(map(_call_text, message.get("tool_calls") or ()))
        start = at + len(f"<|im_start|>{frame}\n")
        end = start + len(shown)
        if role == "assistant":
            spans += [Span(a, b, mark) for a, b, mark in ((start, end, 1), (end, end + len(calls), 2)) if a < b]
        for found in NAME.finditer(calls):
            if found[0] in unseen:
                spans.append(Span(end + found.start(), end + found.end(), 3))
                unseen.discard(found[0])
        unseen.difference_update(NAME.findall(text))
        pieces.append(f"<|im_start|>{frame}\n{shown}{calls}<|im_end|>\n")
        at += len(pieces[-1])
    return Rendered("".join(pieces), spans)


def _call_text(call: Mapping[str, Any]) -> str:
    name = json.dumps({"name": call["function"]["name"]}, ensure_ascii=False)
    return f'\n<tool_call>\n{name[:-1]}, "arguments": {call["function"]["arguments"]}}}\n</tool_call>'


def facts_of(viewed: Viewed) -> set[str]:
    """Return the paths, identifiers and other telling names that the history has and the tail lacks."""
    full, tail = (set(NAME.findall(render(viewed.views[name].messages).text)) for name in (FULL, TAIL))
    return {name for name in full - tail if TELLING.search(name) and not NUMBER_OR_DOTS.fullmatch(name)}


def marks_of(offsets: Sequence[tuple[int, int]], spans: Iterable[Span]) -> list[int]:
    """Return the class of each token by its place in the text, 0 for what is not scored; a fact may begin within a token that
    has one character before it."""
    marks = [0] * len(offsets)
    for span in spans:
        place = bisect_left(offsets, (span.start - (span.mark == 3), 0))
        while place < len(offsets) and offsets[place][0] < span.end:
            if span.start < offsets[place][1] <= span.end:
                marks[place] = max(marks[place], span.mark)
            place += 1
    return marks


def read_vocabulary(model: Path) -> Any:
    """Return the tokeniser whose vocabulary is in a file of weights."""
    parts = load_package("tokenizers", "tokenizers")
    fields = load_package("gguf", "gguf").GGUFReader(model).fields
    words, merges = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
    kinds = fields["tokenizer.ggml.token_type"].contents()
    vocabulary = {word: number for number, word in enumerate(words)}
    tokeniser = parts.Tokenizer(parts.models.BPE(vocabulary, [tuple(pair.split(" ", 1)) for pair in merges]))
    tokeniser.normalizer = parts.normalizers.NFC()
    bytes_alone = parts.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    divide = parts.pre_tokenizers.Split(parts.Regex(_SPLIT), "isolated")
    tokeniser.pre_tokenizer = parts.pre_tokenizers.Sequence([divide, bytes_alone])
    special = [word for word, kind in zip(words, kinds, strict=True) if kind == 3 and word.startswith("<|")]
    tokeniser.add_special_tokens([parts.AddedToken(word, special=True, normalized=False) for word in special])
    return tokeniser


def encode_views(options: argparse.Namespace) -> None:
    """Write the token ids and marks of each view with what happened next, and with the decoy."""
    numpy = load_package("numpy", "numpy")
    vocabulary = read_vocabulary(options.model)
    ids: list[Any] = []
    marks: list[Any] = []
    meta: list[dict[str, object]] = []
    with gzip.open(options.views, "rb") as lines:
        for viewed in (msgspec.json.decode(line, type=Viewed) for line in lines):
            facts, after = facts_of(viewed), []
            for ending, messages in (("", viewed.next), (DECOY, viewed.decoy if options.decoys else [])):
                rendered = render(messages, facts)
                found = vocabulary.encode(rendered.text)
                after += [(ending, found.ids, marks_of(found.offsets, rendered.spans))] if messages else []
            for name, view in viewed.views.items():
                if options.view and name not in options.view:
                    continue
                before = vocabulary.encode(render(view.messages).text).ids
                for ending, following, marked in after:
                    kept = before[max(0, len(before) + len(following) - MOST_TOKENS) :]
                    ids.append(numpy.array(kept + following, numpy.int32))
                    marks.append(numpy.array([0] * len(kept) + marked, numpy.int8))
                    row = {"system": name, "fits": view.fits, "tokens": view.tokens, "context": len(kept)}
                    meta.append({"id": viewed.id + ending, **row})
    lengths = numpy.array([len(one) for one in ids])
    joined = {"ids": numpy.concatenate(ids), "cls": numpy.concatenate(marks)}
    numpy.savez_compressed(options.out, **joined, lengths=lengths, meta=json.dumps(meta))
    print(f"{len(meta)} rows, {int(lengths.sum()):,} tokens, {options.out.stat().st_size / 1e6:.1f} MB")


# The command.


def print_table(options: argparse.Namespace) -> None:
    """Print the table of files of scores, and keep it with machine, commit and command if asked to."""
    groups = compare(read_scores(options.scores), options.against or [INFOLD])
    text = render_table(groups)
    print(text, end="")
    if not options.write:
        return
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True, cwd=REPOSITORY
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    command = shlex.join(["python", *sys.argv])
    record = {
        "command": command,
        "commit": commit,
        "machine": machine,
        "note": options.note,
        "groups": to_builtins(groups),
    }
    (RESULTS / "likelihood.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    (RESULTS / "likelihood.txt").write_text(f"{machine}, commit {commit}\n{options.note}\n\n{text}", "utf-8")


def main() -> None:
    """Make views, encode them, or compare their scores."""
    parser = argparse.ArgumentParser(description="which view makes what really happened next most likely")
    verbs = parser.add_subparsers(required=True)
    views = verbs.add_parser("views", help="write views of recorded sessions")
    add_corpus_option(views)
    views.add_argument("out", type=Path)
    views.add_argument(
        "--variant", type=parse_variant, action="append", default=[], help="name:field=value,field=value"
    )
    views.add_argument("--only", default="", help="a part of the session's id")
    views.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    views.set_defaults(run=write_views)
    encode = verbs.add_parser("encode", help="write token ids and what of them is scored")
    encode.add_argument("model", type=Path, help="weights with their vocabulary, a .gguf file")
    encode.add_argument("views", type=Path)
    encode.add_argument("out", type=Path, help="a .npz file")
    encode.add_argument("--view", action="append", default=[], help="encode only this view; may be repeated")
    encode.add_argument("--decoys", action="store_true", help="also what happened elsewhere in the session")
    encode.set_defaults(run=encode_views)
    table = verbs.add_parser("table", help="compare the scores of views")
    table.add_argument("scores", type=Path, nargs="+")
    table.add_argument("--against", action="append", default=[], help="compare with this view (default infold)")
    table.add_argument("--write", action="store_true", help="write results/likelihood.json and .txt")
    table.add_argument("--note", default="", help="what scored which views, for the results")
    table.set_defaults(run=print_table)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
