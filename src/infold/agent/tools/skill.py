"""The skill tool: instructions for a kind of task, in folders with a SKILL.md, read when they are needed.

No policy prunes a skill's output, because a model that loaded instructions has to follow them until it is done.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from infold.agent.tools.files import display_path, is_inside, is_secret, quote_name, read_beginning
from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace
from infold.ports import ToolSpec

LARGEST_BYTES = 256 * 1024
"""Bytes of a SKILL.md that are read."""

MOST_FILES = 50
"""Files next to a SKILL.md that are listed."""

MOST_WALKED = 2_000
"""Files next to a SKILL.md that are walked."""

LONGEST_DESCRIPTION = 500

MOST_ANNOUNCED, LONGEST_ANNOUNCED = 4_000, 240
"""Characters of all skills together, and of one, in the tool's description, which is part of every request."""

_FRONT = re.compile(r"---[ \t]*\n(?P<fields>.*?)\n---[ \t]*(?:\n|$)(?P<body>.*)", re.DOTALL)
_FIELD = re.compile(r"^(?P<key>[\w-]+)[ \t]*:[ \t]*(?P<value>.*(?:\n[ \t]+.*|\n(?=\n))*)", re.MULTILINE)
_BLOCK = re.compile(r"[|>][+-]?\d?\s*\n")


class Skill(Struct, frozen=True):
    name: str
    description: str
    folder: Path
    instructions: str


class SkillArguments(Struct, frozen=True):
    name: Annotated[str, Meta(description="The skill to load; none lists all.")] = ""


def find_skills(workspace: Workspace) -> tuple[Skill, ...]:
    """Return the skills of a workspace, sorted by name; of two with the same name the first counts.

    Files that cannot be read are skipped, and those in the project that lead out of it, or to a file of secrets: a link would
    show it without permission.
    """
    found: dict[str, Skill] = {}
    files = (file for folder in workspace.skills for file in _skill_files(folder))
    for file in (file for file in files if not _is_unsafe_link(file, workspace)):
        try:
            content = read_beginning(file, LARGEST_BYTES)
        except OSError:
            continue
        skill = _parse_skill(file.parent, content.decode("utf-8-sig", "replace").replace("\r\n", "\n"))
        found.setdefault(skill.name, skill)
    return tuple(sorted(found.values(), key=lambda skill: skill.name))


def add_skill_list(spec: ToolSpec, workspace: Workspace) -> ToolSpec:
    """Return the skill tool's description with the list of skills, so that a model knows what it can load.

    Of a long list only the beginning is shown, with the number of the rest.
    """
    lines = [_one_line(skill)[:LONGEST_ANNOUNCED] for skill in find_skills(workspace)]
    room = accumulate(len(line) + 1 for line in lines)
    shown = [line for line, reached in zip(lines, room, strict=True) if reached <= MOST_ANNOUNCED]
    over = len(lines) - len(shown)
    more = [f"and {over} more: call it without a name to see all"] if over else []
    return replace(spec, description="\n".join((f"{spec.description} There are:", *shown, *more))) if lines else spec


def _skill_files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (place / "SKILL.md" for place in sorted(folder.iterdir()))


def _is_unsafe_link(file: Path, workspace: Workspace) -> bool:
    """Return whether a project's file is a link to something that needs permission; the user's own may be any link."""
    if not file.is_relative_to(workspace.root):
        return False
    place = Path(os.path.realpath(file))
    return not is_inside(place, workspace) or is_secret(display_path(place, workspace))


def _parse_skill(folder: Path, text: str) -> Skill:
    """Return a skill with name and description from the front matter, or else with the folder's name."""
    front = _FRONT.match(text)
    if front is None:
        return Skill(folder.name, "", folder, text.strip())
    fields = {field["key"].lower(): _value(field["value"]) for field in _FIELD.finditer(front["fields"])}
    described = fields.get("description", "")[:LONGEST_DESCRIPTION]
    return Skill(fields.get("name") or folder.name, described, folder, front["body"].strip())


def _value(written: str) -> str:
    """Return a value on one line, whether it was quoted, folded over several lines or plain."""
    plain = " ".join(_BLOCK.sub("", written, count=1).split())
    quoted = len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'"
    return plain[1:-1] if quoted else plain


def _action(arguments: SkillArguments, workspace: Workspace) -> ActionRequest:  # noqa: ARG001
    return ActionRequest("skill", arguments.name or "list")


def _run(arguments: SkillArguments, workspace: Workspace) -> ToolOutput:
    skills = find_skills(workspace)
    if not arguments.name:
        return ToolOutput(_listed(skills))
    chosen = next((skill for skill in skills if skill.name == arguments.name), None)
    if chosen is None:
        raise ToolFailed(f"there is no skill {arguments.name!r}; there are:\n{_listed(skills)}")
    return ToolOutput("\n\n".join(filter(None, (f"Skill {chosen.name}", chosen.instructions, _list_files(chosen)))))


def _listed(skills: Sequence[Skill]) -> str:
    return "\n".join(map(_one_line, skills)) or "[there are no skills]"


def _one_line(skill: Skill) -> str:
    return " ".join(f"- {skill.name}: {skill.description}".rstrip(": ").split())


def _list_files(skill: Skill) -> str:
    """Return the files next to a skill's instructions; links are not followed, and a large folder is walked in part."""
    walked = ((Path(place) / name for name in sorted(names)) for place, _, names in os.walk(skill.folder))
    found = islice((path for paths in walked for path in paths if path.name != "SKILL.md"), MOST_WALKED)
    files = sorted(quote_name(str(path.relative_to(skill.folder))) for path in found)
    return "\n".join((f"Files in {skill.folder}:", *files[:MOST_FILES])) if files else ""


_DESCRIPTION = (
    "Loads instructions for a kind of task, or lists those there are. Load a skill before work that it is for."
)
SKILL = Tool("skill", _DESCRIPTION, SkillArguments, _action, _run)
