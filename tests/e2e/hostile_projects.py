"""Projects made by an attacker: every git setting that names a program names a canary, in each form a project may come in."""

import hashlib
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["FIRING", "FORMS", "hostile_settings", "plain_git", "set_traps"]

HOOKS = (
    *("applypatch-msg", "pre-commit", "commit-msg", "post-commit", "post-checkout", "post-index-change", "pre-auto-gc"),
    *(
        "fsmonitor-watchman",
        "reference-transaction",
        "post-rewrite",
        "query-watchman",
        "pre-push",
        "sendemail-validate",
    ),
)

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "core": ("fsmonitor", "sshCommand", "pager", "editor", "askPass", "gitProxy", "alternateRefsCommand"),
    "credential": ("helper",),
    "diff": ("external",),
    'diff "canary"': ("command", "textconv"),
    'filter "canary"': ("clean", "smudge", "process"),
    'merge "canary"': ("driver",),
    "gpg": ("program",),
    'gpg "ssh"': ("program", "defaultKeyCommand"),
    "sequence": ("editor",),
    "interactive": ("diffFilter",),
    "uploadpack": ("packObjectsHook",),
    "pager": ("ls-files", "grep", "check-ignore", "diff-files", "diff-tree", "rev-parse", "config"),
    "alias": ("ls-files", "grep", "check-ignore", "diff-files", "diff-tree", "rev-parse"),
    'trailer "canary"': ("command", "cmd"),
    'difftool "canary"': ("cmd",),
    'mergetool "canary"': ("cmd",),
    'submodule "canary"': ("update",),
    'remote "origin"': ("uploadpack", "receivepack"),
}
"""The settings that name programs, by section."""

FIRING = ("core-fsmonitor", "filter-process", "hook", "remote")
"""Canaries that ordinary commands of a user do set off in such a project."""


def hostile_settings(canaries: Path, *, worktree: str = "") -> str:
    """Return a repository's config in which every setting that can run a program leaves a file in `canaries`."""
    lines = ["[core]", " repositoryformatversion = 1", " bare = false", f" hooksPath = {canaries / 'hooks'}"]
    if worktree:
        lines.append(f" worktree = {worktree}")
    for section, names in PROGRAMS.items():
        lines.append(f"[{section}]")
        for name in names:
            mark = canaries / f"fired-{section.split()[0]}-{name}"
            leads = "!" if section == "alias" or name in ("update", "helper") else ""
            lines.append(f' {name} = "{leads}touch {mark}; false"')
    lines += [
        "[extensions]",
        " partialClone = origin",
        '[remote "origin"]',
        f" url = ext::touch {canaries}/fired-remote",
    ]
    lines += [" promisor = true", '[protocol "ext"]', " allow = always", '[protocol "ssh"]', " allow = always"]
    lines += ["[submodule]", " recurse = true", "[index]", " sparse = true", '[filter "canary"]', " required = true"]
    return "\n".join([*lines, ""])


def set_traps(canaries: Path) -> None:
    """Make the folder of canaries, with a hook of every name."""
    for folder in (canaries, canaries / "hooks"):
        folder.mkdir(exist_ok=True)
    for name in HOOKS:
        hook = canaries / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {canaries}/fired-hook\n")
        hook.chmod(0o755)


def plain_git(folder: Path, *words: str, check: bool = True) -> None:
    """Run git as a user does."""
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, check=check, capture_output=True)


def _ordinary(root: Path) -> None:
    """A small project in a repository, all of whose files choose the hostile filter and the hostile diff driver."""
    for name, text in {
        "src/app.py": "def ferry():\n    return 'needle'\n",
        "notes/read.md": "# needle\n",
        ".gitignore": "*.log\n",
        ".gitattributes": "* filter=canary diff=canary merge=canary\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    plain_git(root, "init", "-q")
    plain_git(root, "add", "-A")
    plain_git(root, "commit", "-qm", "begin")


def _sparse_index(missing: bytes = b"gone/") -> bytes:
    """An index with one sparse folder whose tree is nowhere: git fetches it as soon as it expands the index."""
    entry = struct.pack(">10I", *[0] * 6, 0o40000, 0, 0, 0) + b"\xab" * 20
    entry += struct.pack(">HH", len(missing) | 0x4000, 0x4000) + missing
    entry += b"\0" * (8 - (64 + len(missing)) % 8)
    index = b"DIRC" + struct.pack(">II", 3, 1) + entry + b"sdir" + struct.pack(">I", 0)
    return index + hashlib.sha1(index).digest()


def _bare(folder: Path, canaries: Path) -> None:
    """A repository made of ordinary files, as a clone may bring it: any folder with HEAD, objects and refs."""
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("objects", "refs"):
        (folder / name).mkdir()
        (folder / name / "keep").write_text("")
    sparse = "[core]\n sparseCheckout = true\n sparseCheckoutCone = true\n"
    (folder / "config").write_text(hostile_settings(canaries, worktree=".") + sparse)
    (folder / "index").write_bytes(_sparse_index())


def bare(folder: Path, canaries: Path) -> Path:
    """A clone with a repository checked in as ordinary files, in the folder that everyone looks at."""
    upstream, clone = folder / "upstream", folder / "project"
    upstream.mkdir()
    _ordinary(upstream)
    _bare(upstream / "src", canaries)
    (upstream / "pointer").mkdir()
    plain_git(upstream, "add", "-A")
    plain_git(upstream, "commit", "-qm", "trap")
    plain_git(folder, "clone", "-q", str(upstream), str(clone))
    return clone


def clone(folder: Path, canaries: Path) -> Path:
    """A clone in which something has already run once, such as a user's own set-up script: the settings are in place."""
    upstream, made = folder / "upstream", folder / "project"
    upstream.mkdir()
    _ordinary(upstream)
    plain_git(folder, "clone", "-q", str(upstream), str(made))
    (made / ".git" / "config").write_text(hostile_settings(canaries))
    return made


def archive(folder: Path, canaries: Path) -> Path:
    """An unpacked archive with its `.git`: settings, hooks, an included file, and a sparse index with a missing tree."""
    made = folder / "project"
    made.mkdir()
    _ordinary(made)
    (made / ".git" / "more").write_text(hostile_settings(canaries))
    (made / ".git" / "config").write_text("[include]\n path = more\n[core]\n sparseCheckout = true\n")
    (made / ".git" / "index").write_bytes(_sparse_index())
    hooks = made / ".git" / "hooks"
    shutil.rmtree(hooks, ignore_errors=True)
    shutil.copytree(canaries / "hooks", hooks)
    return made


def elsewhere(folder: Path, canaries: Path) -> Path:
    """An unpacked archive whose `.git` is a file that points at a hostile repository in the tree, with another work tree."""
    made = folder / "project"
    made.mkdir()
    _ordinary(made)
    shutil.move(made / ".git", made / "vendor")
    (made / "vendor" / "config").write_text(hostile_settings(canaries, worktree="/"))
    (made / ".git").write_text("gitdir: vendor\n")
    return made


def submodule(folder: Path, canaries: Path) -> Path:
    """An unpacked archive with a submodule and, next to it, an unregistered repository, both with hostile settings."""
    part, made = folder / "part", folder / "project"
    for place in (part, made):
        place.mkdir()
        _ordinary(place)
    plain_git(made, "submodule", "add", "-q", str(part), "src/part")
    plain_git(made, "commit", "-qm", "part")
    (made / ".git" / "modules" / "src" / "part" / "config").write_text(
        hostile_settings(canaries, worktree="../../../../src/part")
    )
    shutil.copytree(part, made / "notes" / "inner")
    (made / "notes" / "inner" / ".git" / "config").write_text(hostile_settings(canaries))
    (made / "src" / "part" / "app2.py").write_text("needle\n")
    return made


FORMS: Mapping[str, Callable[[Path, Path], Path]] = {
    "bare": bare,
    "clone": clone,
    "archive": archive,
    "elsewhere": elsewhere,
    "submodule": submodule,
}
"""The forms that a hostile project comes in; each makes one in a folder, with its canaries in another."""
