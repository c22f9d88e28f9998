"""Texts to measure token estimates on: samples of the transcript corpus, by kind and by side of a fixed split.

The split is by project, so that sessions about one code base never stand on both sides: the projects named in
`FIT_PROJECTS` are for fitting, all others for testing. Chinese is on both sides; the only Japanese and the
only Korean session are for testing alone. A passage found on both sides is dropped from the test side.
"""

import argparse
import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["code", "markdown", "json", "logs", "zh", "ja", "ko", "base64"]
Side = Literal["fit", "test"]

KINDS: tuple[Kind, ...] = ("code", "markdown", "json", "logs", "zh", "ja", "ko", "base64")
FIT_PROJECTS = ("entireio", "gatomia", "china-food-delivery", "django", "gpt-4o-airline", "session-bridge")

CALL_KEYS = ("input", "arguments", "args", "parameters", "kwargs")
BLANK_SHARE = 0.35
SHORTEST_CHARS = 200
SAMPLE_CHARS = 3_000
SAMPLES_PER_FILE_AND_KIND = 200

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Sample:
    """One passage of text, what kind it is, and the file it was taken from."""

    kind: Kind
    source: str
    text: str


def add_corpus_option(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark be told where the corpus is; without a word it looks where the project keeps it."""
    default = os.environ.get("INFOLD_CORPUS") or REPOSITORY.parent / "shared" / "corpus"
    parser.add_argument("--corpus", type=Path, default=Path(default), help="folder of transcripts")


def corpus_samples(corpus: Path, side: Side) -> list[Sample]:
    """Return the passages of about `SAMPLE_CHARS` characters on one side of the split, the same ones each time."""
    fit_files, test_files = split_files(corpus)
    seen: set[str] = set()
    fit = [sample for path in fit_files for sample in file_samples(path, seen)]
    return fit if side == "fit" else [sample for path in test_files for sample in file_samples(path, seen)]


def corpus_parts(corpus: Path) -> list[Sample]:
    """Return the whole parts, uncut, of the test side."""
    _, test_files = split_files(corpus)
    seen: set[str] = set()
    parts = [
        Sample(kind_of(text), path.name, text)
        for path in test_files
        for text in string_leaves(path)
        if not is_blank(text) and is_new(text, seen)
    ]
    return thin_out(parts)


def split_files(corpus: Path) -> tuple[list[Path], list[Path]]:
    """Divide the transcripts into those for fitting and those for testing."""
    files = sorted(path for path in corpus.glob("*/*") if path.is_file())
    if not files:
        raise SystemExit(f"no transcripts in {corpus}: set INFOLD_CORPUS or pass --corpus")
    fit = [path for path in files if any(name in path.name for name in FIT_PROJECTS)]
    return fit, [path for path in files if path not in fit]


def file_samples(path: Path, seen: set[str]) -> list[Sample]:
    """Cut one transcript into passages that were not seen before."""
    texts = (text for leaf in string_leaves(path) for text in cut(leaf) if not is_blank(text))
    return thin_out([Sample(kind_of(text), path.name, text) for text in texts if is_new(text, seen)])


def thin_out(samples: list[Sample]) -> list[Sample]:
    """Keep evenly spaced samples, so that no long session speaks for a whole kind."""
    totals = Counter((sample.source, sample.kind) for sample in samples)
    passed: Counter[tuple[str, Kind]] = Counter()
    kept: list[Sample] = []
    for sample in samples:
        key = (sample.source, sample.kind)
        share = min(1.0, SAMPLES_PER_FILE_AND_KIND / totals[key])
        if int((passed[key] + 1) * share) > int(passed[key] * share):
            kept.append(sample)
        passed[key] += 1
    return kept


def is_blank(text: str) -> bool:
    """Tell whether a passage is mostly white space, whose few tokens make relative errors meaningless."""
    return sum(map(len, text.split())) < BLANK_SHARE * len(text)


def is_new(text: str, seen: set[str]) -> bool:
    """Tell whether a text is met for the first time, and remember it."""
    if text in seen:
        return False
    seen.add(text)
    return True


def string_leaves(path: Path) -> Iterator[str]:
    """Find every longer string in a transcript, whatever its format."""
    text = read(path)
    if ".md" in path.suffixes:
        yield text
        return
    for document in documents(text):
        yield from walk(document)


def read(path: Path) -> str:
    """Return the text of a transcript, compressed or not."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return file.read()
    return path.read_text(encoding="utf-8")


def documents(text: str) -> Iterator[object]:
    """Parse one JSON document, JSON lines, or server-sent events."""
    try:
        yield json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            payload = line.removeprefix("data: ")
            if payload.startswith("{"):
                yield json.loads(payload)


def walk(value: object) -> Iterator[str]:
    """Yield the strings of a JSON value that are long enough to measure, and the JSON of what tools were called with."""
    if isinstance(value, str):
        if len(value) >= SHORTEST_CHARS:
            yield value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from walk(child)
            if key in CALL_KEYS and isinstance(child, dict):
                yield from walk(json.dumps(child, ensure_ascii=False))
    elif isinstance(value, list):
        for child in value:
            yield from walk(child)


def cut(text: str) -> Iterator[str]:
    """Divide a text into passages, at a line end where there is one in the last third."""
    start = 0
    while len(text) - start >= SHORTEST_CHARS:
        stop = start + SAMPLE_CHARS
        line_end = text.rfind("\n", start + SAMPLE_CHARS * 2 // 3, stop)
        stop = line_end + 1 if line_end >= 0 else stop
        yield text[start:stop]
        start = stop


HAN = re.compile("[\u4e00-\u9fff]")
KANA = re.compile("[\u3041-\u30ff]")
HANGUL = re.compile("[\uac00-\ud7a3]")
OPAQUE_RUN = re.compile(r"[A-Za-z0-9+/=_-]{100,}")
JSON_KEY = re.compile(r'\\?"\s*:')
LINE_NUMBER = re.compile(r"^\s*\d+(?:→|\t|:|\|)|^[+-](?![+-])")
LOG_LINE = re.compile(
    r"\d\d:\d\d|^\s*\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|PASS|FAIL|ok|ERR)\b|^[-dl][rwx-]{9}|^\s*at \S+"
    r"|^\S*/\S*(?::\d+)?(?::|$)|^=== |^--- |^\s*[✓✗✔×●]|\b\d+(?:\.\d+)?m?s\b|^npm |^\s*\S+ \| +\d+ [+-]|^[\w.-]+\.\w+$"
)
CODE_LINE = re.compile(
    r"[;{}(\[,]\s*$|^\s*[)}\]]|^\s*(?:import|from|def|class|return|if|elif|else|for|while|func|type|const|let|var"
    r"|export|async|await|fn|pub|use|package|try|except|raise|assert)\b|^\s*(?:self\.|@\w|//|/\*|\* |#include|</?\w)"
    r"|^\s*[\w.]+\(.*\)$|^\s*[\w.\[\]]+ :?= \S"
)


def kind_of(text: str) -> Kind:
    """Classify a passage by its script first, then by the look of its lines."""
    dense = max(1, len(text) - sum(map(text.count, " \n\t")))
    hangul, kana, han = (len(pattern.findall(text)) / dense for pattern in (HANGUL, KANA, HAN))
    if hangul + kana + han >= 0.1:
        return "ko" if hangul > kana + han else "ja" if kana > 0.1 * (kana + han) else "zh"
    if sum(map(len, OPAQUE_RUN.findall(text))) * 2 > len(text):
        return "base64"
    return "json" if len(JSON_KEY.findall(text)) * 70 >= len(text) else kind_of_lines(text)


def kind_of_lines(text: str) -> Kind:
    """Tell code, logs and prose apart by what most lines look like."""
    lines = [LINE_NUMBER.sub("", line) for line in text.splitlines() if line.strip()]
    code, logs = (share(pattern, lines) for pattern in (CODE_LINE, LOG_LINE))
    if logs >= 0.4 and logs > code:
        return "logs"
    return "code" if code >= 0.45 else "markdown"


def share(pattern: re.Pattern[str], lines: Iterable[str]) -> float:
    """Return the part of the lines in which a pattern is found."""
    found = [pattern.search(line) is not None for line in lines]
    return sum(found) / max(1, len(found))
