"""Write the committed digests again: `python -m tests.golden.regenerate [inputs] [invented] [corpus] [GROUP …]`.

A group is named as in the digests (`fit/native`); without a name the invented ones are written.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from .groups import Group, committed_lines, computed_lines, corpus_groups, digest_file, invented_groups
from .make_inputs import write_inputs


def regenerate(groups: dict[str, Group]) -> None:
    """Compute groups, and put their lines in place of the committed ones."""
    for group, compute in groups.items():
        with TemporaryDirectory() as folder:
            lines = computed_lines(group, compute(Path(folder)))
        path, old = digest_file(group), committed_lines(group)
        kept = [line for line in _lines(path) if line.split(" ", 2)[2] not in old]
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in sorted([*kept, *lines.values()], key=_name)), "utf-8")
        print(f"{group}: {len(lines)} cases", flush=True)


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.is_file() else []


def _name(line: str) -> str:
    return line.split(" ", 2)[2]


if __name__ == "__main__":
    named = sys.argv[1:] or ["invented"]
    if "inputs" in named:
        write_inputs()
    known = {"invented": invented_groups(), "corpus": corpus_groups()}
    every = known["invented"] | known["corpus"]
    for name in named:
        if name != "inputs":
            regenerate(known[name] if name in known else {name: every[name]})
