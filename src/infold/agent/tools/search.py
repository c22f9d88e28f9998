"""The search tool: lines that match a regular expression, found by `rg` if it is installed, else by `git grep`.

Both run as separate programs, so that no expression keeps the agent longer than the time limit. What git ignores, binary files
and files of secrets are left out.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from infold.agent.git import git_command, open_read_only
from infold.agent.tools.files import (
    display_path,
    is_secret,
    missing_path,
    path_action,
    quote_name,
    resolve_path,
    target_path,
)
from infold.agent.tools.processes import ProcessResult, find_program, run_process
from infold.agent.tools.project_files import anchor_glob, exclusion_globs, expand_braces, is_ignored
from infold.agent.tools.read import cut_line
from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace

LIMIT_SECONDS = 30
MOST_HITS = 200
LONGEST_LINE = 300
"""Characters of a matching line that are shown."""

_LINE = re.compile(r"(\d+)[:\0]([^\n]*)")


class SearchArguments(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="Regular expression; (?i) before it ignores case.")]
    path: Annotated[str, Meta(description="Folder or file; the whole project if not given.")] = ""
    glob: Annotated[str, Meta(description="Only files such as *.py or src/**/*.{ts,tsx}")] = ""


class _Hit(Struct, frozen=True):
    file: str
    line: str
    text: str


def _action(arguments: SearchArguments, workspace: Workspace) -> ActionRequest:
    return path_action("search", arguments.path, workspace)


def _summary(arguments: SearchArguments, workspace: Workspace) -> str:
    place = display_path(resolve_path(arguments.path, workspace), workspace)
    return f"{arguments.pattern} in {', '.join(filter(None, (place, arguments.glob)))}"


def _run(arguments: SearchArguments, workspace: Workspace) -> ToolOutput:
    place = target_path(arguments.path, workspace)
    if not place.exists():
        raise missing_path(place, workspace)
    folder, file = (place, "") if place.is_dir() else (place.parent, place.name)
    if not arguments.pattern or "\0" in arguments.pattern + arguments.glob:
        raise ToolFailed("the pattern is empty or holds a NUL character; give a regular expression")
    result = _search(arguments, folder, file)
    hits = list(_hits(result.output, folder))
    if result.exit_status is None:
        raise ToolFailed(f"the search took over {LIMIT_SECONDS} seconds; give a path, a glob or a simpler pattern")
    if result.exit_status > 1 and not hits:
        raise ToolFailed(f"the search failed; mend the pattern or use grep in the shell: {result.output.strip()[:500]}")
    return ToolOutput(_format_hits(hits, folder, workspace, requested=file))


def _search(arguments: SearchArguments, folder: Path, file: str) -> ProcessResult:
    """Search with the program that is installed."""
    program = find_program("rg", os.environ)
    if program:
        return run_process(rg_command(program, arguments, file), folder, limit_seconds=LIMIT_SECONDS)
    if find_program("git", os.environ):
        return run_git_grep(arguments, folder, file)
    raise ToolFailed("neither rg nor git is installed; use grep in the shell")


def rg_command(program: str, arguments: SearchArguments, file: str) -> list[str]:
    """Return the command for ripgrep; files are sorted, so that the same search gives the same answer."""
    globs = [f"--glob={glob}" for glob in expand_braces(arguments.glob) if glob and not file]
    return [
        *(program, "--no-config", "--no-heading", "--with-filename", "--line-number", "--null", "--color=never"),
        *("--hidden", "--no-messages", "--sort=path", *globs, "--glob=!.git", f"--regexp={arguments.pattern}"),
        *("--", f"./{file}"),
    ]


def run_git_grep(arguments: SearchArguments, folder: Path, file: str) -> ProcessResult:
    """Search with git: in files that it tracks or could add, or in all files without a repository or in an ignored folder."""
    is_negated = arguments.glob.startswith("!")
    globs = (
        exclusion_globs(arguments.glob) if is_negated else map(anchor_glob, filter(None, expand_braces(arguments.glob)))
    )
    magic = "exclude,glob" if is_negated else "glob"
    where = [f":(literal){file}"] if file else [f":({magic}){glob}" for glob in globs]
    how = ["-z", "--line-number", "-I", "--perl-regexp", "--no-color", "--no-textconv", "-e", arguments.pattern, "--"]
    with open_read_only(folder, with_index=False) as found:
        git = found or git_command(Path(os.devnull), os.environ)
        follows_git = found is not None and not is_ignored(folder)
        which_files = ["--untracked"] if follows_git and not file else ["--no-index", "--no-exclude-standard"]
        words = [*git.words, "-c", "grep.fullName=false", "grep", *which_files, *how, *where]
        return run_process(words, folder, limit_seconds=LIMIT_SECONDS, environ=git.environ)


def _hits(output: str, folder: Path) -> Iterator[_Hit]:
    """Yield the hits of an output: a file's name, which may have line breaks, NUL, the line's number and the line."""
    at = 0
    while (end := output.find("\0", at)) >= 0:
        file, found = output[at:end], _LINE.match(output, end + 1)
        if "\n" in file and not os.path.lexists(
            folder / file
        ):  # what stands before it is a note, not a part of the name
            file = file.rpartition("\n")[2]
        if found and file:
            yield _Hit(file.removeprefix("./"), found[1], found[2].rstrip("\r"))
        at = (output.find("\n", found.end() if found else end) + 1) or len(output)


def _format_hits(hits: Sequence[_Hit], folder: Path, workspace: Workspace, *, requested: str) -> str:
    """Return the hits by file and what was left out; a file of secrets is shown only if it was requested by name."""
    secret = sorted({hit.file for hit in hits if is_secret(hit.file) and hit.file != requested})
    shown = [hit for hit in hits if hit.file not in secret]
    lines: list[str] = []
    for at, hit in enumerate(shown[:MOST_HITS]):
        if not at or shown[at - 1].file != hit.file:
            lines.append(quote_name(display_path(folder / hit.file, workspace)))
        lines.append(f"{hit.line}\t{cut_line(hit.text, LONGEST_LINE)}")
    if len(shown) > MOST_HITS:
        lines.append(f"[the first {MOST_HITS} of {len(shown):,} lines; narrow the pattern, the path or the glob]")
    if secret:
        lines.append(f"[passed over, since they may hold secrets: {', '.join(map(quote_name, secret[:10]))}]")
    return "\n".join(lines) or "[nothing matches]"


_DESCRIPTION = "Finds lines that match a regular expression in the project's files, ignored and binary ones left out."
SEARCH = Tool("search", _DESCRIPTION, SearchArguments, _action, _run, _summary)
