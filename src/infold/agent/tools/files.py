"""Resolve, check, read and replace the files that a model names.

Every link is followed before anything is decided, so a link in the project that leads out of it counts as outside. So does, for
a tool that would change it, a file that runs later: settings and hooks name programs that the next harmless command runs.
"""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from errno import EACCES, EBUSY, EINVAL
from fnmatch import fnmatch
from itertools import pairwise
from mimetypes import guess_type
from pathlib import Path, PurePosixPath
from uuid import uuid4

from infold.agent.tools.tool import ActionRequest, ToolFailed, Workspace
from infold.transcripts.source import is_database_in_use

# Paths.

MOST_NAMES = 500
"""Names in a folder that are compared with one that does not exist."""


def resolve_path(path: str, workspace: Workspace) -> Path:
    """Return where a path leads: from the project's root, with `~` as the home folder and every link followed.

    Raise `ToolFailed` if it cannot be a path.
    """
    if "\0" in path:
        raise ToolFailed("a path cannot hold a NUL character; give the path as list shows it")
    try:
        place = workspace.root / Path(path).expanduser()
    except RuntimeError:  # an unknown user, or one without a home
        place = workspace.root / path
    return Path(os.path.realpath(place))


def target_path(path: str, workspace: Workspace) -> Path:
    """Return the path that a call was permitted, which is not resolved again; if nothing was decided, where the path leads."""
    return resolve_path(path, workspace) if workspace.target is None else workspace.target


def is_inside(path: Path, workspace: Workspace) -> bool:
    """Return whether a resolved path is the project's root or below it."""
    return path.is_relative_to(os.path.realpath(workspace.root))


def display_path(path: Path, workspace: Workspace) -> str:
    """Return a resolved path as it is shown: from the project's root, or in full if it is outside."""
    root = Path(os.path.realpath(workspace.root))
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def quote_name(name: str) -> str:
    """Return a file's name for a model: as it is, or like a string of JSON if it would break its line or cannot be seen.

    Anyone may have chosen the name, and a line break in it would begin another line of the output.
    """
    if all(character.isprintable() or _is_surrogate(character) for character in name):
        return name
    escaped = (c if c.isprintable() and c not in '"\\' else json.dumps(c)[1:-1] for c in name)
    return f'"{"".join(escaped)}"'


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def named_path(name: str, workspace: Workspace) -> Path:
    """Return the resolved path that `display_path` shows so; links are not followed."""
    return Path(os.path.realpath(workspace.root)) / name


def path_action(tool: str, path: str, workspace: Workspace, *, changes: bool = False) -> ActionRequest:
    """Return the action of a tool that reads, or `changes`, one path."""
    place = resolve_path(path, workspace)
    outside, later = not is_inside(place, workspace), changes and is_run_later(place, workspace)
    why = RUNS_LATER if later and not outside else ""
    return ActionRequest(tool, display_path(place, workspace), outside=outside or later, why=why)


def resolve_folder(path: str, workspace: Workspace) -> Path:
    """Return the folder at a path; raise `ToolFailed` if it does not exist or is a file."""
    place = target_path(path, workspace)
    if place.is_dir():
        return place
    if place.exists():
        raise ToolFailed(f"{display_path(place, workspace)} is a file, not a folder; give its folder, or use read")
    raise missing_path(place, workspace)


def missing_path(path: Path, workspace: Workspace) -> ToolFailed:
    """Return the error for a path that does not exist: similar names, or how far the path does exist."""
    parent = next((folder for folder in path.parents if folder.is_dir()), path)
    wanted = path.relative_to(parent).parts[0] if path != parent else path.name
    names: list[str] = []
    with suppress(OSError):
        names = sorted(place.name for place in parent.iterdir())[:MOST_NAMES]
    close = get_close_matches(wanted, names, n=3, cutoff=0.5)
    if close:
        advice = (
            "did you mean " + " or ".join(quote_name(display_path(parent / name, workspace)) for name in close) + "?"
        )
    else:
        advice = f"use list on {quote_name(display_path(parent, workspace))} to see what is there"
    return ToolFailed(f"there is no {display_path(path, workspace)}; {advice}")


# Reading and writing.

LARGEST_BYTES = 64 * 1024 * 1024
"""Larger files are for the shell: reading one whole takes too long."""

SAMPLED_BYTES = 8_192
"""How far into a file a NUL byte, which no text has, is looked for."""

FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""`O_PATH`, which Linux has, needs no right to list the folder."""

ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def _open_folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open the folder at a resolved path, made if it does not exist and `make` is set; follow no link on the way.

    Raise `ToolFailed` if a part of the path is a link, which it was not when it was resolved, else `OSError`.
    """
    descriptor = os.open(path.anchor, FOLDER_FLAGS)
    try:
        for place in (*reversed(path.parents), path)[1:]:
            below = _open_below(descriptor, place, make=make)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _open_below(descriptor: int, place: Path, *, make: bool) -> int:
    """Open a folder in an open one."""
    try:
        return os.open(place.name, FOLDER_FLAGS, dir_fd=descriptor)
    except FileNotFoundError as error:
        if not make:
            raise OSError(error.errno, error.strerror, str(place)) from error
        with suppress(FileExistsError):
            os.mkdir(place.name, dir_fd=descriptor)
        return _open_below(descriptor, place, make=False)
    except OSError as error:
        _refuse_link(os.lstat(place.name, dir_fd=descriptor), place)
        raise OSError(error.errno, error.strerror, str(place)) from error


def _refuse_link(found: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise ToolFailed(f"{path} is a link now, which it was not before; look at it, then make the call again")


def read_text_file(path: Path, workspace: Workspace) -> bytes:
    """Return the bytes of a text file; raise `ToolFailed` if it is missing, a folder, a device, binary or huge.

    No link on the way is followed: the path is a resolved one.
    """
    name = display_path(path, workspace)
    try:
        with _open_folder(path.parent) as folder:
            _refuse_unreadable(os.lstat(path.name or ".", dir_fd=folder), path, name)
            descriptor = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        raise missing_path(path, workspace) from None
    with os.fdopen(descriptor, "rb") as file:
        content = file.read()
    if b"\0" in content[:SAMPLED_BYTES]:
        kind = guess_type(path.name)[0] or "of no known kind"
        raise ToolFailed(f"{name} is a binary file ({kind}, {len(content):,} bytes), not text; look at it in the shell")
    return content


def _refuse_unreadable(found: os.stat_result, path: Path, name: str) -> None:
    """Raise `ToolFailed` for what is not to be opened."""
    _refuse_link(found, path)
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailed(f"{name} is a folder; use list to see what is in it")
    if not stat.S_ISREG(found.st_mode):
        raise ToolFailed(f"{name} is no regular file but a device, a socket or a pipe; use the shell if you must")
    if found.st_size > LARGEST_BYTES:
        raise ToolFailed(f"{name} has {found.st_size:,} bytes; use search, or head, tail and sed -n in the shell")
    if is_database_in_use(path):
        raise ToolFailed(f"{name} is a SQLite database that is in use, not text; look at it with sqlite3 in the shell")


def read_beginning(path: Path, most_bytes: int) -> bytes:
    """Return the beginning of a file; raise `OSError` if it is not a regular file, or a database in use.

    Reading a pipe would wait for ever; closing a database that this process uses would drop its locks.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(EINVAL, "it is no file", str(path))
    if is_database_in_use(path):
        raise OSError(EBUSY, "it is a SQLite database in use", str(path))
    with path.open("rb") as file:
        return file.read(most_bytes)


def encode_text(text: str) -> bytes:
    """Return text in UTF-8, with bytes that were not UTF-8 restored; raise `ToolFailed` for half a surrogate pair."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        broken = f"character {error.start + 1} is half of a surrogate pair"
        raise ToolFailed(f"the text cannot be written: {broken}; give the whole character") from None


def replace_file(path: Path, content: bytes, new_mode: int = 0o666) -> None:
    """Write a file atomically, with the folders it needs; a file that existed keeps its mode. `path` is a resolved one.

    Raise `ToolFailed` if there is a link on the way, and `OSError`, which names the path, if it cannot be written; a read-only
    file is not replaced either.
    """
    with _open_folder(path.parent, make=True) as folder:
        mode = _mode_to_keep(path, folder)
        temporary = f".{path.name[:100]}.{uuid4().hex[:12]}"
        try:
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, new_mode, dir_fd=folder
            )
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                if mode is not None:
                    os.fchmod(descriptor, mode)
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, str(path)) from error
            raise


def _mode_to_keep(path: Path, folder: int) -> int | None:
    """Return the mode of a file in an open folder, or `None` if it does not exist.

    Raise `PermissionError` if this user may not write it, or if it has no write permission, which root respects too.
    """
    try:
        found = os.lstat(path.name, dir_fd=folder)
    except FileNotFoundError:
        return None
    _refuse_link(found, path)
    if not found.st_mode & ANY_WRITE or not os.access(path.name, os.W_OK, dir_fd=folder):
        raise PermissionError(EACCES, "the file is read-only", str(path))
    return stat.S_IMODE(found.st_mode)


# Files that run later, and those that steer agents: text in them is obeyed like the user's own.

RUN_LATER_FOLDERS = (
    *(".git", ".husky", ".githooks", ".github/workflows", ".github/actions", ".gitlab/ci", ".gitea", ".forgejo"),
    *(".circleci", ".buildkite", ".woodpecker", ".teamcity", ".azure-pipelines", ".tekton", ".devcontainer"),
    *(".vscode", ".idea", ".zed", ".fleet", ".direnv", ".mise", ".yarn/releases", ".yarn/plugins", "node_modules/.bin"),
    *(".claude", ".cursor", ".codex", ".gemini", ".opencode", ".windsurf", ".clinerules", ".roo", ".kiro"),
    *(".infold", ".agents", ".github/instructions", ".github/prompts"),
)
"""Folders in which every file counts."""

RUN_LATER_FILES = (
    *(".envrc", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml", "lefthook*.y*ml"),
    *(".lefthook*.y*ml", ".overcommit.yml", ".gitmodules", ".gitconfig"),
    *(".gitlab-ci.y*ml", ".travis.yml", ".drone.y*ml", ".cirrus.y*ml", ".woodpecker.y*ml", "appveyor.yml"),
    *(".appveyor.yml", "azure-pipelines*.y*ml", "bitbucket-pipelines.yml", "jenkinsfile*", "cloudbuild.y*ml"),
    *("buildspec.y*ml", "codeship-*.y*ml", ".semaphore.yml", "netlify.toml", "vercel.json", "render.yaml"),
    *(".yarnrc.yml", ".npmrc", ".bazelrc", "mise.toml", ".mise.toml", ".mise.*.toml", ".tool-versions.local"),
    *("*.code-workspace", ".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".gdbinit", ".lldbinit"),
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile"),
    *(".mcp.json", "sitecustomize.py", "usercustomize.py", "*.pth"),
    *("agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", "copilot-instructions.md"),
    *(
        ".cursorrules",
        ".windsurfrules",
        ".goosehints",
        ".aider.conf.yml",
        "opencode.json*",
        "infold.toml",
        "infold.json",
    ),
)
"""Files that count in any folder."""

ENVIRONMENTS = (".venv", "venv", ".env", "env", ".tox", ".nox")
ENVIRONMENT_FOLDERS = ("bin", "scripts", "lib", "lib64")
"""In a Python environment, the folders with programs and modules that the next command runs."""

RUNS_LATER = "it runs later, or steers agents, without being asked for again"
"""Why the user is asked about a change inside the project."""


def is_run_later_name(path: str) -> bool:
    """Return whether a file at this path from the project's root runs, or names programs that run, without being started."""
    pure = PurePosixPath(path.casefold())
    return (
        any(f"/{folder}/" in f"/{pure}/" for folder in RUN_LATER_FOLDERS)
        or any(fnmatch(pure.name, name) for name in RUN_LATER_FILES)
        or any(one in ENVIRONMENTS and after in ENVIRONMENT_FOLDERS for one, after in pairwise(pure.parts))
    )


def is_run_later(path: Path, workspace: Workspace) -> bool:
    """Return whether a resolved path runs later by its name, or belongs to a repository.

    A repository need not be called `.git`; a file called `HEAD` may make a folder one.
    """
    name = display_path(path, workspace)
    return (
        is_run_later_name(name)
        or Path(name).name.casefold() == "head"
        or any(
            all(os.path.lexists(folder / part) for part in ("HEAD", "objects", "refs"))
            for folder in path.parents
            if is_inside(folder, workspace)
        )
    )


# Files of secrets.

SECRET_NAMES = (
    *(".env", ".env.*", ".envrc", ".dev.vars", "*.pem", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.bks"),
    *("*.kdbx", "*.kdb", "*.ppk", "*.ovpn", "*.keychain", "*.keychain-db", "*.agekey", "*.gpgkey"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_xmss*", "ssh_host_*_key"),
    *(".netrc", "_netrc", ".authinfo", ".pgpass", ".my.cnf", ".mylogin.cnf", ".git-credentials", ".htpasswd"),
    *(".npmrc", ".pypirc", ".dockercfg", ".s3cfg", ".boto", ".sentryclirc", ".clasprc.json", ".vault-token"),
    *("credentials.*", "*-credentials.*", "*_credentials.*", "client_secret*.json", "service[-_]account*.json"),
    *("*firebase-adminsdk*.json", "application_default_credentials.json", "secrets.*", "secret.*", "*.secrets"),
    *(".secrets", ".secret", "auth.json", "token.json", ".token", "local.settings.json", "wp-config.php"),
    *("*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*", ".terraformrc", "*.tfrc", "*.tfrc.json"),
    *("kubeconfig", "kubeconfig.*", "*.kubeconfig", "vault-token", "master.key", ".dockerconfigjson", "wallet.dat"),
    *("token.txt", "*[-_]token.txt", "api[-_]key*.txt", "apikey*.txt", "password.txt", "passwords.txt"),
    *(".*_history", ".*history", "consolehost_history.txt"),
)

AMBIGUOUS_SECRET_NAMES = ("*.env", "*.key", "credentials", "secrets")
"""Names that often mean something else in code: `process.env`, `item.key`."""

HARMLESS_NAMES = (
    *("*.example", "*.sample", "*.template", "*.dist", "*.defaults", "*.pub", "*.md", "*.rst"),
    *("*.py", "*.pyi", "*.js", "*.mjs", "*.ts", "*.tsx", "*.jsx", "*.go", "*.rs", "*.rb", "*.java", "*.kt", "*.cs"),
    *("*.c", "*.h", "*.cpp", "*.hpp", "*.swift", "*.scala", "*.ex", "*.exs", "*.html", "*.css", "*.vue", "*.svelte"),
)
"""Examples of such files, public keys, and source code about secrets."""

SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".secrets")

SECRET_PATHS = (
    *(".docker/config.json", ".config/gh/hosts.yml", ".config/gcloud", ".cargo/credentials", ".gem/credentials"),
    *(".config/rclone/rclone.conf", ".config/op", ".config/hub", ".subversion/auth", ".m2/settings.xml"),
)
"""Files and folders whose names are ordinary elsewhere."""


def is_secret(path: str) -> bool:
    """Return whether a file of that name is likely to hold a secret."""
    return _matches_secret(path, (*SECRET_NAMES, *AMBIGUOUS_SECRET_NAMES))


def mentions_secret(word: str) -> bool:
    """Return whether a word of a command is likely to name such a file, and not to be code that looks like one."""
    return _matches_secret(word, (*SECRET_NAMES, *AMBIGUOUS_SECRET_NAMES) if "/" in word else SECRET_NAMES)


def _matches_secret(path: str, patterns: tuple[str, ...]) -> bool:
    pure = PurePosixPath(path.lower())
    if any(part in SECRET_FOLDERS for part in pure.parts) or any(f"/{ending}" in f"/{pure}" for ending in SECRET_PATHS):
        return not fnmatch(pure.name, "*.pub")
    if any(fnmatch(pure.name, pattern) for pattern in HARMLESS_NAMES):
        return False
    return any(fnmatch(pure.name, pattern) for pattern in patterns)
