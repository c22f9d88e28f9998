"""Draw the sample of mutants (`python -m tests.mutants.choose`), written once to `sample.toml`.

A function is drawn by its lines of code, then one of the operators that apply to it, then a place. The draw is seeded but
depends on the code: it was made at the commit named in the sample and is not meant to be repeated on another one.
"""

import json
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from .fast import ROOT, SOURCE
from .operators import Change, changes
from .sample import SAMPLE
from .statements import Anchor, Statement, Tree, anchor_of

SEED, MUTANTS, MOST_PER_FUNCTION = 13, 100, 2

SHARES = {"core": 1.0, "formats/transcripts": 0.4, "formats": 1.0, "stores": 1.0}
"""The weight of a line of code by folder, the first that fits; transcripts are many small readers of one shape."""

WEIGHTS = {"drop": 2, "return": 1}
"""The weight of an operator, 3 for those not named: a function that returns nothing fails the first test that calls it."""

UNREACHED = ("stores/postgres.py", "stores/postgres_pool.py")
"""Left out: the fast tests have no PostgreSQL server, so every mutant would survive whatever the tests are worth."""

UNUSED = {
    ("formats/rules.py", ""),
    ("core/view.py", "standing"),
    ("core/rehearse.py", "rehearse"),
    ("formats/injected.py", "is_injected"),
}
"""Left out, by file and function: no other module of the package uses these, so a later tree may do without them."""

REJECTED = {
    13: "`continue` is the last statement of its loop",
    33: "sets cannot be added: a TypeError for every input",
    47: "bytes cannot be subtracted: a TypeError for every input",
    67: "the flag is only read where the text has a line break or ends",
    82: "a slice of exactly the most quotations leaves nothing out",
    97: "no message has the checkpoint's own number",
}
"""Draws left out, with the reason: the mutant behaves as the original does, or never runs at all."""


@dataclass(frozen=True)
class Drawn:
    """A mutant before it has a number: what finds it, and the change."""

    anchor: Anchor
    change: Change
    lines: range


def draw() -> Iterator[Drawn]:
    """Yield mutants for as long as there are any, no more than two of a function and one of a statement."""
    source = random.Random(SEED)
    tree = Tree(SOURCE / "infold")
    functions = [
        (weight, found) for found in tree.functions if (weight := _weight(tree, found)) and _sites(tree, found)
    ]
    drawn: dict[int, list[Drawn]] = {}
    while functions:
        (index,) = source.choices(range(len(functions)), [weight for weight, _ in functions])
        statements = functions[index][1]
        mine = drawn.setdefault(id(statements), [])
        sites = [site for site in _sites(tree, statements) if site.lines not in [other.lines for other in mine]]
        operators = sorted({site.change.operator for site in sites})
        (operator,) = source.choices(operators, [WEIGHTS.get(name, 3) for name in operators])
        chosen = source.choice([site for site in sites if site.change.operator == operator])
        mine.append(chosen)
        if len(mine) == MOST_PER_FUNCTION or {site.lines for site in sites} == {chosen.lines}:
            functions.pop(index)
        yield chosen


def _weight(tree: Tree, statements: list[Statement]) -> float:
    file = statements[0].path.relative_to(tree.folder).as_posix()
    share = next((share for folder, share in SHARES.items() if file.startswith(folder + "/")), 0.0)
    code = {line for statement in statements[1:] for line in statement.lines}
    is_left_out = file in UNREACHED or {(file, ""), (file, statements[0].function)} & UNUSED
    return 0.0 if is_left_out else share * len(code)


def _sites(tree: Tree, statements: list[Statement]) -> list[Drawn]:
    file = statements[0].path.relative_to(tree.folder).as_posix()
    return [
        Drawn(anchor_of(statements, index, file), change, statement.lines)
        for index, statement in enumerate(statements)
        for change in changes(statement.node, statements[0].node)
    ]


def main() -> None:
    """Write the sample, in the order of the source."""
    chosen: list[Drawn] = []
    for number, mutant in enumerate(draw(), 1):
        if number not in REJECTED:
            chosen.append(mutant)
        if len(chosen) == MUTANTS:
            break
    chosen.sort(key=lambda mutant: (mutant.anchor.file, mutant.lines.start, mutant.change.replacement))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = [
        f"# {MUTANTS} mutants, drawn with seed {SEED} at commit {commit.stdout.strip()} by `python -m tests.mutants.choose`.",
        "",
    ]
    for number, mutant in enumerate(chosen, 1):
        lines += _written(f"m{number:03}", mutant)
    SAMPLE.write_text("\n".join(lines), "utf-8")


def _written(name: str, mutant: Drawn) -> list[str]:
    anchor = mutant.anchor
    fields = {
        "id": name,
        "file": anchor.file,
        "function": anchor.function,
        "operator": mutant.change.operator,
        "before": list(anchor.before),
        "line": anchor.line,
        "replacement": mutant.change.replacement,
        "after": list(anchor.after),
    }
    return ["[[mutant]]", *(f"{field} = {json.dumps(value)}" for field, value in fields.items()), ""]


if __name__ == "__main__":
    main()
