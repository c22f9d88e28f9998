"""What does a deterministic fold keep of real sessions, at 4 % of their tokens, after 1 to 10 folds?

    python benchmarks/retention.py [--corpus DIR] [--side fit|test|all] [--json] [--write]

Facts, sets and scores are explained in `docs/concepts/retention.md`. The corpus is divided by project as for the token
estimate: the fold and recall were tuned on one side; what was looked at on the other is said there too.
"""

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from infold.replay.outcome import BrokenFile
from infold.replay.retention import (
    Measurement,
    RetentionSummary,
    measure_file,
    pair_neighbours,
    render_retention,
    summarise_retention,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.samples import add_corpus_option, split_files

RESULTS = Path(__file__).resolve().parent / "results"
SIDES = {"fit": "tuning side", "test": "held-out side"}


def main() -> None:
    """Measure, print, and keep the figures if asked to."""
    parser = argparse.ArgumentParser(description="measure what a fold keeps")
    add_corpus_option(parser)
    parser.add_argument("--side", choices=("fit", "test", "all"), default="all")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--write", action="store_true", help="write results/retention.json and .txt")
    options = parser.parse_args()
    found = {side: summary_of(files(options.corpus, side)) for side in SIDES if options.side in (side, "all")}
    data = json.dumps(msgspec.to_builtins(found), indent=1, ensure_ascii=False) + "\n"
    text = "\n".join(f"{SIDES[side]}: {render_retention(summary)}" for side, summary in found.items())
    if options.write:
        (RESULTS / "retention.json").write_text(data, "utf-8")
        (RESULTS / "retention.txt").write_text(text, "utf-8")
    print(data if options.json else text, end="")


def files(corpus: Path, side: str) -> list[Path]:
    """Return the transcripts of one side, in order of name."""
    fit, test = split_files(corpus)
    return sorted(fit if side == "fit" else test)


def summary_of(paths: list[Path]) -> RetentionSummary:
    """Measure every session of these files; one that cannot be read is reported and passed over."""
    measured: list[Measurement] = []
    with ProcessPoolExecutor(max_workers=2) as pool:
        for found in pool.map(measure_file, pair_neighbours(paths)):
            if isinstance(found, BrokenFile):
                print(f"{found.path}: {found.problem}", file=sys.stderr)
            else:
                measured += found
    return summarise_retention(measured)


if __name__ == "__main__":
    main()
