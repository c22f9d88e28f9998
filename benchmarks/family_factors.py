"""How many tokens does a model family count for one token of the estimate, and how far off is that factor?

    python benchmarks/family_factors.py [--corpus DIR] [--json] [--write]

Families without a public vocabulary: by how much the reported prompt grew from one reply to the next, over the estimate of what
was added between them. The transcripts of each family are divided in two halves by a seeded shuffle, whole files at a time; the
factor is fitted on one half and its error is published for the other. Families with a public vocabulary: exact counts over
estimates, on the two sides of the split that `samples.py` keeps. `catalogue/lookup.py` has the factors, rounded to one decimal.
"""

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from splintr import AnyTokenizer, Tokenizer

from infold.catalogue import FAMILIES, FamilyName, lookup
from infold.core.messages import AssistantMessage
from infold.core.tokens import LEAST_TAUGHT_TOKENS, NO_SIZE, Size, estimate_tokens, measure_message, size_of
from infold.session.counting import VOCABULARIES
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import read_transcript

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.samples import Sample, add_corpus_option, corpus_samples

RESULTS = Path(__file__).parent / "results"
SEED = 12
OWN_COUNTS = frozenset({"aider"})
"""Formats whose token figures are the agent's own estimate and not the provider's report."""

LEAST_SESSION_TOKENS = 2_000
"""Sessions with less text than this between their reports say little about a family."""

WIDE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Growth:
    """What was added between two reports, in estimated tokens by script, and by how much the reported prompt grew."""

    source: str
    session: str
    narrow: int
    wide: int
    reported: int


@dataclass(frozen=True, slots=True)
class Factors:
    """Tokens counted for one estimated token of ASCII text and of text outside ASCII."""

    narrow: float
    wide: float

    def apply(self, growth: Growth) -> float:
        """Return the expected count of what was added."""
        return self.narrow * growth.narrow + self.wide * growth.wide


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="calibrate the factors of model families")
    add_corpus_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    options = parser.parse_args()
    report = {"reported": reported(options.corpus), "vocabularies": vocabularies(options.corpus)}
    print(json.dumps(report, indent=2) if options.json else table(report))
    if options.write:
        record = {"command": "python benchmarks/family_factors.py --write", "seed": SEED, **report}
        (RESULTS / "family_factors.json").write_text(json.dumps(record, indent=2) + "\n")
        (RESULTS / "family_factors.txt").write_text(table(report) + "\n")


# Families that are known by what providers reported.


def reported(corpus: Path) -> list[dict[str, object]]:
    """Return, by family, the factors fitted on one half and the errors on the other."""
    by_family: dict[FamilyName, list[Growth]] = defaultdict(list)
    for path in sorted(path for path in corpus.glob("*/*") if path.is_file() and path.parent.name not in OWN_COUNTS):
        for session in read_transcript(path).sessions:
            for family, growth in growths(session, path.name):
                by_family[family].append(growth)
    if not by_family:
        raise SystemExit(f"no transcripts with usage in {corpus}: set INFOLD_CORPUS or pass --corpus")
    return [row for family in sorted(by_family) for row in rows_of(family, by_family[family])]


def growths(session: RecordedSession, source: str) -> Iterator[tuple[FamilyName, Growth]]:
    """Yield what each report says of the text added since the report before; too little text says nothing."""
    before, added = 0, NO_SIZE
    for message in session.messages:
        if isinstance(message, AssistantMessage) and message.usage is not None and message.usage.prompt:
            prompt, text = message.usage.prompt, added.measure - added.loose
            if before and prompt > before and text >= max(LEAST_TAUGHT_TOKENS, added.loose):
                narrow = added.prose + added.material
                yield family_of(message, session), Growth(source, session.id, narrow, added.wide, prompt - before)
            before, added = prompt, NO_SIZE
        added = added.plus(sized(message))


def sized(message: object) -> Size:
    """Return the estimated size of a message."""
    return size_of(message, measure_message(message, "features"))  # type: ignore[arg-type]


def family_of(message: AssistantMessage, session: RecordedSession) -> FamilyName:
    """Return the family of the model that answered."""
    model = message.model or session.model
    return lookup(model.id if model else "").entry.family


def rows_of(family: FamilyName, found: list[Growth]) -> Iterator[dict[str, object]]:
    """Yield one row for a family whose transcripts can be divided."""
    files = sorted({growth.source for growth in found})
    random.Random(SEED).shuffle(files)
    fitting = set(files[: (len(files) + 1) // 2])
    fit, test = ([g for g in found if (g.source in fitting) is side] for side in (True, False))
    factors = fitted(fit)
    shipped = Factors(FAMILIES[family].factor, FAMILIES[family].wide_factor)
    errors = session_errors(test, shipped)
    yield {
        "family": family,
        "fit_files": len(fitting),
        "test_files": len(files) - len(fitting),
        "fit_tokens": sum(g.reported for g in fit),
        "test_tokens": sum(g.reported for g in test),
        "fitted": asdict(factors),
        "shipped": asdict(shipped),
        "test_sessions": len(errors),
        "error": rounded(fmean(map(abs, errors)) if errors else None),
        "bias": rounded(fmean(errors) if errors else None),
        "worst": rounded(max(errors, key=abs) if errors else None),
        "error_at_1": rounded(fmean(map(abs, session_errors(test, Factors(1, 1)))) if errors else None),
    }


def fitted(found: Iterable[Growth]) -> Factors:
    """Return the ratio of sums: of what is all ASCII, then of what mostly is not, less its ASCII part."""
    found = list(found)
    narrow = [growth for growth in found if not growth.wide]
    wide = [growth for growth in found if growth.wide > WIDE_SHARE * (growth.narrow + growth.wide)]
    factor = sum(g.reported for g in narrow) / max(1, sum(g.narrow for g in narrow))
    rest = sum(g.reported - factor * g.narrow for g in wide)
    return Factors(round(factor, 3), round(rest / sum(g.wide for g in wide) if wide else factor, 3))


def session_errors(found: Iterable[Growth], factors: Factors) -> list[float]:
    """Return for each session how far the expected count is from the reported one, in per cent."""
    by_session: dict[tuple[str, str], list[Growth]] = defaultdict(list)
    for growth in found:
        by_session[growth.source, growth.session].append(growth)
    large = [each for each in by_session.values() if sum(g.reported for g in each) >= LEAST_SESSION_TOKENS]
    return [100 * (sum(map(factors.apply, each)) / sum(g.reported for g in each) - 1) for each in large]


# Families whose vocabulary is public.


def vocabularies(corpus: Path) -> list[dict[str, object]]:
    """Return, by family, exact counts over estimates on both sides of the samples' split."""
    fit, test = corpus_samples(corpus, "fit"), corpus_samples(corpus, "test")
    rows: list[dict[str, object]] = []
    for family, name in VOCABULARIES.items():
        tokenizer = Tokenizer.from_pretrained(name)
        shipped = Factors(FAMILIES[family].factor, FAMILIES[family].wide_factor)
        factors = Factors(*(ratio(side, tokenizer) for side in by_script(fit)))
        narrow, wide = (ratio(side, tokenizer) for side in by_script(test))
        rows.append(
            {
                "family": family,
                "fitted": asdict(factors),
                "shipped": asdict(shipped),
                "bias": round(100 * (shipped.narrow / narrow - 1), 1),
                "wide_bias": round(100 * (shipped.wide / wide - 1), 1),
            }
        )
    return rows


def by_script(samples: list[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Divide samples into ASCII and East Asian text."""
    wide = [sample for sample in samples if sample.kind in ("zh", "ja", "ko")]
    return [s for s in samples if s.text.isascii() and s.kind != "base64"], wide


def ratio(samples: list[Sample], tokenizer: "AnyTokenizer") -> float:
    """Return exact tokens over estimated tokens."""
    exact = sum(len(tokenizer.encode(sample.text.encode(errors="replace").decode())) for sample in samples)
    return round(exact / max(1, sum(estimate_tokens(sample.text) for sample in samples)), 3)


def rounded(value: float | None) -> float | None:
    """Return a figure with one decimal."""
    return None if value is None else round(value, 1)


def table(report: dict[str, list[dict[str, object]]]) -> str:
    """Lay the report out for reading."""
    head = (
        f"{'family':10}{'files':>8}{'tokens fit':>12}{'test':>9}{'fitted':>8}{'wide':>7}{'shipped':>9}{'wide':>6}"
        f"{'sessions':>10}{'error %':>9}{'bias %':>8}{'worst %':>9}{'error at 1.0':>14}"
    )
    lines = [
        "Reported prompt growth over the estimate; fitted on one half of the files, error on the other (by session).",
        head,
    ]
    for row in report["reported"]:
        fit, shipped = row["fitted"], row["shipped"]
        assert isinstance(fit, dict)
        assert isinstance(shipped, dict)
        files = f"{row['fit_files']}/{row['test_files']}"
        lines.append(
            f"{row['family']:10}{files:>8}{row['fit_tokens']:12,}{row['test_tokens']:9,}{fit['narrow']:8}{fit['wide']:7}"
            f"{shipped['narrow']:9}{shipped['wide']:6}{row['test_sessions']:10}{shown(row['error']):>9}"
            f"{shown(row['bias']):>8}{shown(row['worst']):>9}{shown(row['error_at_1']):>14}"
        )
    lines += ["", "Exact counts over the estimate, public vocabularies; bias of the shipped factor on the test side."]
    lines.append(f"{'family':10}{'fitted':>8}{'wide':>7}{'shipped':>9}{'wide':>6}{'bias %':>8}{'wide bias %':>13}")
    for row in report["vocabularies"]:
        fit, shipped = row["fitted"], row["shipped"]
        assert isinstance(fit, dict)
        assert isinstance(shipped, dict)
        lines.append(
            f"{row['family']:10}{fit['narrow']:8}{fit['wide']:7}{shipped['narrow']:9}{shipped['wide']:6}"
            f"{row['bias']:8}{row['wide_bias']:13}"
        )
    return "\n".join(lines)


def shown(value: object) -> str:
    """Return a figure, or a dash where the other half has no session to measure."""
    return "-" if value is None else str(value)


if __name__ == "__main__":
    main()
