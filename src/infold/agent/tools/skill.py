"""The skill tool: instructions for a kind of task, kept in folders with a SKILL.md, read when they are needed.

A skill's output is never pruned by any policy, because a model that loaded instructions is to go by them until it is done.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from infold.agent.tools.tool import Done, Tool, ToolFailed, Wish, Workplace

__all__ = ["SKILL", "Skill", "SkillArguments", "skills_in"]

LARGEST_BYTES = 256 * 1024
"""Bytes of a SKILL.md that are read."""

MOST_FILES = 50
"""Files beside a SKILL.md that are named."""

LONGEST_DESCRIPTION = 500

_FRONT = re.compile(r"---[ \t]*\n(?P<fields>.*?)\n---[ \t]*(?:\n|$)(?P<body>.*)", re.DOTALL)
_FIELD = re.compile(r"^(?P<key>[\w-]+)[ \t]*:[ \t]*(?P<value>.*(?:\n[ \t]+.*|\n(?=\n))*)", re.MULTILINE)
_BLOCK = re.compile(r"[|>][+-]?\d?\s*\n")


class Skill(Struct, frozen=True):
    """A skill that is there: its name, what it is for, its folder, and its instructions."""

    name: str
    description: str
    folder: Path
    instructions: str


class SkillArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Which skill."""

    name: Annotated[str, Meta(description="The skill to load; none lists all.")] = ""


def skills_in(folders: Sequence[Path]) -> tuple[Skill, ...]:
    """The skills in some folders, by name; of two with one name the first counts. What cannot be read is passed over."""
    found: dict[str, Skill] = {}
    for file in (file for folder in folders for file in _skill_files(folder)):
        try:
            with file.open("rb") as opened:
                text = opened.read(LARGEST_BYTES).decode("utf-8-sig", "replace").replace("\r\n", "\n")
        except OSError:
            continue
        skill = _skill(file.parent, text)
        found.setdefault(skill.name, skill)
    return tuple(sorted(found.values(), key=lambda skill: skill.name))


def _skill_files(folder: Path) -> Iterator[Path]:
    try:
        places = sorted(folder.iterdir())
    except OSError:
        return
    yield from (place / "SKILL.md" for place in places if (place / "SKILL.md").is_file())


def _skill(folder: Path, text: str) -> Skill:
    """A skill from its file: name and description from the front matter, else the folder's name and nothing."""
    front = _FRONT.match(text)
    if front is None:
        return Skill(folder.name, "", folder, text.strip())
    fields = {field["key"].lower(): _value(field["value"]) for field in _FIELD.finditer(front["fields"])}
    described = fields.get("description", "")[:LONGEST_DESCRIPTION]
    return Skill(fields.get("name") or folder.name, described, folder, front["body"].strip())


def _value(written: str) -> str:
    """A value on one line, whether it was quoted, folded over several lines or plain."""
    plain = " ".join(_BLOCK.sub("", written, count=1).split())
    quoted = len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'"
    return plain[1:-1] if quoted else plain


def _wish(arguments: SkillArguments, workplace: Workplace) -> Wish:  # noqa: ARG001
    return Wish("skill", arguments.name or "list")


def _run(arguments: SkillArguments, workplace: Workplace) -> Done:
    skills = skills_in(workplace.skills)
    if not arguments.name:
        return Done(_listed(skills))
    chosen = next((skill for skill in skills if skill.name == arguments.name), None)
    if chosen is None:
        raise ToolFailed(f"there is no skill {arguments.name!r}; there are:\n{_listed(skills)}")
    return Done("\n\n".join(filter(None, (f"Skill {chosen.name}", chosen.instructions, _beside(chosen)))))


def _listed(skills: Sequence[Skill]) -> str:
    return "\n".join(f"- {skill.name}: {skill.description}".rstrip(": ") for skill in skills) or "[there are no skills]"


def _beside(skill: Skill) -> str:
    """Where the files are that a skill's instructions speak of."""
    files = sorted(
        str(path.relative_to(skill.folder))
        for path in skill.folder.rglob("*")
        if path.is_file() and path.name != "SKILL.md"
    )
    told = "\n".join(files[:MOST_FILES])
    return f"Files in {skill.folder}:\n{told}" if files else ""


SKILL = Tool(
    "skill",
    "Loads instructions for a kind of task, or lists those there are. Load a skill before work that it is for.",
    SkillArguments,
    _wish,
    _run,
)
