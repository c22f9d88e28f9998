"""How wrong is the token estimate, and how fast, on sessions it was not fitted to?

    python benchmarks/estimate_error.py [--corpus DIR] [--json]

For each kind of text: mean absolute error and bias (mean signed error) against exact o200k counts, of
`estimate_tokens` and of characters / 4, on passages of about 3,000 characters and on whole parts of any size.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from splintr import Tokenizer

from infold.core.tokens import estimate_tokens

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.samples import KINDS, Sample, add_corpus_option, corpus_parts, corpus_samples

RESULTS = Path(__file__).parent / "results"
PASSAGE_CHARS = 1_500
SPEED_CHARS = 900_000
SPEED_RUNS = 7


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="measure the token estimate")
    add_corpus_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    options = parser.parse_args()
    samples = corpus_samples(options.corpus, "test")
    passages = [sample for sample in samples if len(sample.text) >= PASSAGE_CHARS]
    parts = corpus_parts(options.corpus)
    report = {"passages": errors(passages), "parts": errors(parts), "speed_ns_per_char": speeds(parts)}
    print(json.dumps(report, indent=2) if options.json else table(report))
    if options.write:
        record = {"command": "python benchmarks/estimate_error.py --write", **report}
        (RESULTS / "estimate_error.json").write_text(json.dumps(record, indent=2) + "\n")
        (RESULTS / "estimate_error.txt").write_text(table(report) + "\n")


def errors(samples: list[Sample]) -> dict[str, dict[str, float]]:
    """Return, by kind, how far both estimates are from the exact count, in per cent."""
    return {kind: kind_errors(of_kind) for kind in KINDS if (of_kind := [s for s in samples if s.kind == kind])}


def kind_errors(samples: list[Sample]) -> dict[str, float]:
    """Compare the two estimates on samples of one kind."""
    tokenizer = Tokenizer.from_pretrained("o200k_base")
    exact = [len(tokenizer.encode_ordinary(sample.text.encode(errors="replace").decode())) for sample in samples]
    ours = relative([estimate_tokens(sample.text) for sample in samples], exact)
    quarter = relative([len(sample.text) / 4 for sample in samples], exact)
    return {
        "samples": len(samples),
        "error": round(fmean(map(abs, ours)), 1),
        "bias": round(fmean(ours), 1),
        "error_of_quarter": round(fmean(map(abs, quarter)), 1),
        "bias_of_quarter": round(fmean(quarter), 1),
    }


def relative(estimates: list[int] | list[float], exact: list[int]) -> list[float]:
    """Return signed errors in per cent."""
    return [100 * (guess / true - 1) for guess, true in zip(estimates, exact, strict=True)]


def speeds(parts: list[Sample]) -> dict[str, float]:
    """Time the estimate on ASCII text, on the parts as they are, and on dense Chinese and Japanese."""
    ascii_text = joined([part.text for part in parts if part.text.isascii()])
    mixed = [part.text for part in parts[:: max(1, sum(len(part.text) for part in parts) // SPEED_CHARS)]]
    dense = joined(["".join(c for c in p.text if c > "\u2fff") for p in parts if p.kind in ("zh", "ja", "ko")])
    return {
        "ascii_one_text": nanoseconds([ascii_text]),
        "mixed_one_text": nanoseconds(["\n".join(mixed)]),
        "mixed_parts": nanoseconds(mixed),
        "wide_one_text": nanoseconds([dense]),
    }


def joined(texts: list[str]) -> str:
    """Join texts to one of the size that speed is measured on."""
    return "\n".join(texts)[:SPEED_CHARS]


def nanoseconds(texts: list[str]) -> float:
    """Return the best time per character of a few runs."""
    chars = sum(map(len, texts))
    return round(min(timed(lambda: [estimate_tokens(text) for text in texts]) for _ in range(SPEED_RUNS)) / chars, 2)


def timed(work: Callable[[], object]) -> int:
    """Return how many nanoseconds a piece of work took."""
    begin = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begin


def table(report: dict[str, dict[str, dict[str, float]]] | dict[str, object]) -> str:
    """Lay the report out for reading."""
    lines = [f"{'':10}{'kind':10}{'samples':>9}{'error %':>9}{'bias %':>9}{'chars/4 error %':>17}{'bias %':>9}"]
    for group in ("passages", "parts"):
        rows = report[group]
        assert isinstance(rows, dict)
        for kind, row in rows.items():
            lines.append(
                f"{group:10}{kind:10}{row['samples']:9}{row['error']:9}{row['bias']:9}"
                f"{row['error_of_quarter']:17}{row['bias_of_quarter']:9}"
            )
    return "\n".join([*lines, "", f"nanoseconds per character: {report['speed_ns_per_char']}"])


if __name__ == "__main__":
    main()
