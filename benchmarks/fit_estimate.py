"""Fit the weights of `infold.core.tokens.estimate_tokens` to exact o200k counts.

    uv pip install numpy scipy
    pip download --no-deps -d PACKAGES django==5.2.19 sphinx==9.0.4 wagtail==8.0.1
    (cd PACKAGES && apt-get download debian-handbook debian-faq-ja debian-faq-ko debian-faq-zh-cn \
        debian-reference-ja debian-reference-zh-cn)    # Debian 12
    python benchmarks/fit_estimate.py --packages PACKAGES [--corpus DIR] [--write]

Fitted on: the fitting side of the corpus (see `samples.py`); source code and message catalogues of the Python
packages; the Debian manuals in Chinese, Japanese, Korean and ten other languages; and made-up logs, numbers,
hashes and base64. Every third text from a package is given the line numbers an agent's reading tool adds.
Two runs on the same files give the same weights. No text is kept.

What is minimised, with weights from 0 to 1 token: the squared error of each stretch of `STRETCH_CHARS`, relative
to the count of the sample it stands in, all kinds being equal. Fitting whole samples instead does better on
them and worse on others: there are too few to tell 600 weights apart.
"""

import argparse
import base64
import html
import importlib
import io
import random
import re
import sys
import tarfile
import textwrap
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from splintr import Tokenizer

from infold.core import tokens
from infold.core.tokens import LETTERS, SCRIPTS, SHAPES, WeightTable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.samples import KINDS, REPOSITORY, Sample, add_corpus_option, corpus_samples, cut, kind_of

WEIGHTS_FILE = REPOSITORY / "src" / "infold" / "core" / "weights.py"
HINT = "this script needs numpy and scipy, the project does not: uv pip install numpy scipy"

SEED = 20
SCALE = 128
SAMPLES_PER_PACKAGE_KIND = 600
MADE_UP_PER_KIND = 40
SIDE_WEIGHT = 0.3
STRETCH_CHARS = 32
RIDGE = 1e-9
RIDGE_WEIGHT = 0.1

MANUAL_LANGUAGES = ("ar", "de", "el", "es", "fr", "pl", "pt", "ru", "tr", "vi")
CATALOGUE = re.compile(r"locale/(?:ja|ko|zh_Hans|zh_CN|ar|de|el|fr|he|hi|ru|th|uk)/LC_MESSAGES/\w+\.po$")
SOURCE = re.compile(r"^(?!.*locale/).*\.(?:py|js|css|html|rst|json)$")
MANUAL = re.compile(r"\.html$")
TAG = re.compile(r"(?s)<(script|style|head)\b.*?</\1>|<[^>]+>")


def main() -> None:
    """Fit, show how well the fitted side is met, and write the weights if asked to."""
    parser = argparse.ArgumentParser(description="fit the token estimate")
    add_corpus_option(parser)
    parser.add_argument("--packages", type=Path, required=True, help="folder of .whl and .deb files")
    parser.add_argument("--write", action="store_true", help=f"replace {WEIGHTS_FILE.name}")
    options = parser.parse_args()
    packages = sorted(path for path in options.packages.iterdir() if path.suffix in (".whl", ".deb"))
    samples = corpus_samples(options.corpus, "fit") + package_samples(packages) + made_up_samples()
    print(Counter(sample.kind for sample in samples))
    tables = Fit().solve(samples)
    if options.write:
        WEIGHTS_FILE.write_text(render(tables, packages), encoding="utf-8")


class Fit:
    """The least-squares problem, built sample by sample."""

    def __init__(self) -> None:
        try:
            self.np: Any = importlib.import_module("numpy")
            self.optimize: Any = importlib.import_module("scipy.optimize")
        except ImportError:
            raise SystemExit(HINT) from None
        self.tokenizer = Tokenizer.from_pretrained("o200k_base")
        assert self.tokenizer.encode_ordinary("tiktoken is great!") == [83, 8251, 2488, 382, 2212, 0]

    def solve(self, samples: list[Sample]) -> list[bytes]:
        """Return the three tables of weights, in units of 1 / `SCALE`, that suit the samples best."""
        np = self.np
        matrix, target = RIDGE * np.eye(768), np.full(768, RIDGE * RIDGE_WEIGHT)
        totals = Counter(sample.kind for sample in samples)
        for sample in samples:
            importance = (1 if sample.source != "made up" else SIDE_WEIGHT) / totals[sample.kind]
            importance *= min(1.0, len(sample.text) / 1_500)
            rows, tokens = self.stretches(sample.text)
            exact = max(1, len(self.tokenizer.encode_ordinary(sample.text)))
            matrix += importance / exact**2 * rows.T @ rows
            target += importance / exact**2 * rows.T @ tokens
        return self.bounded(matrix, target)

    def stretches(self, text: str) -> tuple[Any, Any]:
        """Count the contexts and the tokens in each stretch of a text."""
        np = self.np
        text = tokens.shorten_rules(text)
        narrow, wide = text.encode("ascii", "replace"), text.encode("utf-8", "replace")
        chars = np.arange(len(narrow)) // STRETCH_CHARS
        is_first = (np.frombuffer(wide, np.uint8) & 0xC0) != 0x80
        byte_stretch = (np.cumsum(is_first) - 1) // STRETCH_CHARS
        height = int(chars[-1]) + 1
        parts = [self.histogram(narrow, reading, chars, height) for reading in (LETTERS, SHAPES)]
        parts.append(self.histogram(wide, SCRIPTS, byte_stretch, height) if not text.isascii() else parts[0] * 0)
        starts = self.token_starts(wide.decode())
        return np.hstack(parts), np.bincount(byte_stretch[starts], minlength=height).astype(float)

    def histogram(self, data: bytes, reading: WeightTable, stretch: Any, height: int) -> Any:
        """Count how often each context occurs in each stretch; contexts without a say stay at zero."""
        np = self.np
        codes = np.frombuffer(tokens.contexts(data, reading), np.uint8).astype(int)
        counts = np.bincount(stretch * 256 + codes, minlength=height * 256).reshape(height, 256).astype(float)
        if reading is SCRIPTS:
            ascii_pairs = [16 * before + now for before in range(4) for now in range(4)]
            counts[:, ascii_pairs] = 0
        return counts

    def token_starts(self, text: str) -> Any:
        """Return the byte at which each token of a text begins."""
        np = self.np
        lengths = [len(self.tokenizer.decode_bytes([token])) for token in self.tokenizer.encode_ordinary(text)]
        return np.cumsum([0, *lengths])[:-1]

    def bounded(self, matrix: Any, target: Any) -> list[bytes]:
        """Solve the normal equations with every weight between nothing and one token."""
        np = self.np
        root = np.linalg.cholesky(matrix)
        found = self.optimize.lsq_linear(
            root.T, np.linalg.solve(root, target), bounds=(0, 1), tol=1e-10, max_iter=1_000
        ).x
        found[np.diag(matrix) <= RIDGE] = 0
        units = np.rint(found * SCALE).astype(int).tolist()
        return [bytes(units[start : start + 256]) for start in (0, 256, 512)]


def package_samples(paths: list[Path]) -> list[Sample]:
    """Draw samples from packages: code as code, Chinese, Japanese and Korean by kind, the rest as markdown."""
    draw = random.Random(SEED)
    found: dict[str, list[Sample]] = {}
    for path in paths:
        for text in package_texts(path):
            for passage in cut(text):
                sample = Sample(kind_of(passage), path.name, passage)
                found.setdefault(sample.kind, []).append(sample)
    chosen = [
        sample
        for kind in KINDS
        for sample in draw.sample(found.get(kind, []), min(SAMPLES_PER_PACKAGE_KIND, len(found.get(kind, []))))
    ]
    return [
        sample if place % 3 else Sample(sample.kind, sample.source, numbered(sample.text, draw.choice((1, 40, 300))))
        for place, sample in enumerate(chosen)
    ]


def package_texts(path: Path) -> Iterator[str]:
    """Return what a package holds to read."""
    if path.suffix == ".deb":
        yield from manual_texts(path)
        return
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            if CATALOGUE.search(name) or SOURCE.search(name):
                text = wheel.read(name).decode("utf-8", "replace")
                yield text if SOURCE.search(name) else "\n".join((text, translations(text)))


def translations(catalogue: str) -> str:
    """Keep the translated half of a message catalogue."""
    foreign = re.sub(r'^msgid(?:_plural)? ".*"\n(?:".*"\n)*', "", catalogue, flags=re.MULTILINE)
    return "\n".join(re.findall(r'^(?:msgstr(?:\[\d\])? )?"(.+)"$', foreign, flags=re.MULTILINE))


def manual_texts(path: Path) -> Iterator[str]:
    """Return the manuals in a Debian package as plain text."""
    with tarfile.open(fileobj=io.BytesIO(archive_member(path.read_bytes(), "data.tar"))) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            body = archive.extractfile(member) if member.isfile() and is_wanted(member.name) else None
            if body is not None:
                text = html.unescape(TAG.sub("", body.read().decode("utf-8", "replace")))
                yield re.sub(r"\n\s*\n+", "\n\n", text)


def is_wanted(name: str) -> bool:
    """Tell whether a manual page is in one of the languages to fit."""
    language = re.search(r"/html/([a-z]{2})-[A-Z]{2}/", name)
    wanted = (*MANUAL_LANGUAGES, "ja", "ko", "zh")
    return bool(MANUAL.search(name)) and (language is None or language[1] in wanted)


def archive_member(archive: bytes, name: str) -> bytes:
    """Find a member of an `ar` archive by how its name begins: 60 bytes of header, bodies padded to even."""
    at = len(b"!<arch>\n")
    while not archive.startswith(name.encode(), at):
        size = int(archive[at + 48 : at + 58])
        at += 60 + size + size % 2
    return archive[at + 60 : at + 60 + int(archive[at + 48 : at + 58])]


def numbered(text: str, first: int) -> str:
    """Show a text as an agent's reading tool does."""
    return "\n".join(f"{number:6d}→{line}" for number, line in enumerate(text.split("\n"), first))


def made_up_samples() -> list[Sample]:
    """Make texts the corpus has too few of: logs, numbers, hashes and encoded bytes."""
    draw = random.Random(SEED)
    makers = (log_line, number_line, uuid_line, hex_line)
    lined = ["\n".join(maker(draw) for _ in range(40)) for maker in makers for _ in range(MADE_UP_PER_KIND)]
    encoded = [base64.b64encode(draw.randbytes(2_000)).decode() for _ in range(MADE_UP_PER_KIND)]
    hashes = [draw.randbytes(1_500).hex() for _ in range(MADE_UP_PER_KIND)]
    spaces = [" " * draw.randrange(1_000, 3_000) for _ in range(MADE_UP_PER_KIND)]
    return [Sample(kind_of(text), "made up", text) for text in lined + encoded + hashes + spaces]


def log_line(draw: random.Random) -> str:
    """Make one line of a service log."""
    time = f"2026-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}T{draw.randint(0, 23):02}:{draw.randint(0, 59):02}"
    level, part = draw.choice(("INFO", "WARN", "ERROR", "DEBUG")), draw.choice(("http", "db", "worker", "auth"))
    event = draw.choice(("request completed", "slow query", "retrying upload", "cache miss", "connection reset"))
    return (
        f"{time}:{draw.randint(0, 59):02}.{draw.randint(0, 999):03}Z {level} [{part}-{draw.randint(1, 64)}] {event} "
        f"id={draw.randbytes(draw.choice((4, 8))).hex()} status={draw.choice((200, 404, 500))} "
        f"duration={draw.randint(1, 5_000)}ms ip=10.{draw.randint(0, 255)}.{draw.randint(0, 255)}.{draw.randint(0, 9)}"
    )


def number_line(draw: random.Random) -> str:
    """Make one row of a table of numbers."""
    return ",".join(str(round(draw.random() * 10 ** draw.randint(0, 6), draw.randint(0, 4))) for _ in range(8))


def uuid_line(draw: random.Random) -> str:
    """Make one identifier in groups."""
    digits = draw.randbytes(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def hex_line(draw: random.Random) -> str:
    """Make one digest in capitals."""
    return draw.randbytes(20).hex().upper()


def render(tables: list[bytes], packages: list[Path]) -> str:
    """Write the tables as a Python module."""
    lines = [
        '"""Weights of the token estimate, in units of 1 / `SCALE` token, by context (see `tokens.py`)."""',
        "",
        "# Generated by: python benchmarks/fit_estimate.py --packages PACKAGES --write",
        *textwrap.wrap(
            "fitted on the corpus (fitting side) and " + ", ".join(path.name for path in packages),
            width=108,
            break_on_hyphens=False,
            initial_indent="# ",
            subsequent_indent="# ",
        ),
        "",
        "from typing import Final",
        "",
        '__all__ = ["LETTERS", "SCALE", "SCRIPTS", "SHAPES"]',
        "",
        f"SCALE: Final = {SCALE}",
    ]
    for name, table in zip(("LETTERS", "SHAPES", "SCRIPTS"), tables, strict=True):
        rows = (table[start : start + 32].hex() for start in range(0, 256, 32))
        lines += ["", f"{name}: Final = bytes.fromhex(", *(f'    "{row}"' for row in rows), ")"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
