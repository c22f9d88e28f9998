"""Resolve, check, read and replace the files that a model names.

Every link is followed before anything is decided, so a link in the project that leads out of it counts as outside. So does, for
a tool that would change it, a file that runs later: settings and hooks name programs that the next harmless command runs.
"""

import os
import stat
from contextlib import suppress
from difflib import get_close_matches
from errno import EACCES
from fnmatch import fnmatch
from itertools import pairwise
from mimetypes import guess_type
from pathlib import Path, PurePosixPath
from uuid import uuid4

from msgspec.structs import replace

from infold.agent.tools.tool import ActionRequest, ToolFailed, Workspace
from infold.transcripts.source import is_database_in_use

RUN_LATER_FOLDERS = (
    *(".git", ".husky", ".githooks", ".github/workflows", ".github/actions", ".gitlab/ci", ".gitea", ".forgejo"),
    *(".circleci", ".buildkite", ".woodpecker", ".teamcity", ".azure-pipelines", ".tekton", ".devcontainer"),
    *(".vscode", ".idea", ".zed", ".fleet", ".direnv", ".mise", ".yarn/releases", ".yarn/plugins", "node_modules/.bin"),
    *(".claude", ".cursor", ".codex", ".gemini", ".opencode", ".windsurf"),
)
"""Folders of which everything counts."""


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
)
"""Files that count in any folder."""


ENVIRONMENTS = (".venv", "venv", ".env", "env", ".tox", ".nox")


ENVIRONMENT_FOLDERS = ("bin", "scripts", "lib", "lib64")
"""In a Python environment, the folders with programs and modules that the next command runs."""


def is_run_later_name(path: str) -> bool:
    """Whether what is at a path from the project's root runs, or names programs that run, without being started."""
    pure = PurePosixPath(path.casefold())
    if any(f"/{folder}/" in f"/{pure}/" for folder in RUN_LATER_FOLDERS) or any(
        fnmatch(pure.name, name) for name in RUN_LATER_FILES
    ):
        return True
    parts = pure.parts
    return any(one in ENVIRONMENTS and after in ENVIRONMENT_FOLDERS for one, after in pairwise(parts))


RUNS_LATER = "it runs later, without being asked for again"
"""Why a change inside the project is asked for."""


MOST_NAMES = 500
"""Names of a folder that are compared with one that is not there."""


def resolve_path(path: str, workspace: Workspace) -> Path:
    """Where a path leads: from the project's root, `~` as the home folder, every link followed.

    Raises `ToolFailed` for what no path can be.
    """
    if "\0" in path:
        raise ToolFailed("a path cannot hold a NUL character; give the path as list shows it")
    try:
        place = workspace.root / Path(path).expanduser()
    except RuntimeError:  # nobody is called so, or has no home
        place = workspace.root / path
    return Path(os.path.realpath(place))


def is_inside(path: Path, workspace: Workspace) -> bool:
    """Whether a located path is the project's root or below it."""
    return path.is_relative_to(os.path.realpath(workspace.root))


def display_path(path: Path, workspace: Workspace) -> str:
    """A located path as it is shown: from the project's root, or in full where it is outside."""
    root = Path(os.path.realpath(workspace.root))
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def path_action(tool: str, path: str, workspace: Workspace) -> ActionRequest:
    """The wish of a tool that is about one path."""
    place = resolve_path(path, workspace)
    return ActionRequest(tool, display_path(place, workspace), outside=not is_inside(place, workspace))


def change_action(tool: str, path: str, workspace: Workspace) -> ActionRequest:
    """The wish of a tool that would change what is at a path."""
    action = path_action(tool, path, workspace)
    later = is_run_later(resolve_path(path, workspace), workspace)
    return replace(action, outside=True, why="" if action.outside else RUNS_LATER) if later else action


def is_run_later(place: Path, workspace: Workspace) -> bool:
    """Whether a located path is one of a repository's own files, or another file that runs without being started."""
    return is_run_later_name(display_path(place, workspace)) or _is_gits_own(place, workspace)


def _is_gits_own(place: Path, workspace: Workspace) -> bool:
    """Whether a located path belongs to a repository that is not called `.git`, or would make a folder one, which always has a
    `HEAD`."""
    parts = [part.casefold() for part in Path(display_path(place, workspace)).parts]
    within = (folder for folder in place.parents if is_inside(folder, workspace))
    return parts[-1:] == ["head"] or any(map(_is_repository, within))


def _is_repository(folder: Path) -> bool:
    return all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))


def resolve_folder(path: str, workspace: Workspace) -> Path:
    """The folder at a path; raises `ToolFailed` where there is none."""
    place = resolve_path(path, workspace)
    if place.is_dir():
        return place
    if place.exists():
        raise ToolFailed(f"{display_path(place, workspace)} is a file, not a folder; give its folder, or use read")
    raise missing_path(place, workspace)


def missing_path(path: Path, workspace: Workspace) -> ToolFailed:
    """What to say of a path with nothing at it: names beside it that look alike, or how far the path goes."""
    parent = next((folder for folder in path.parents if folder.is_dir()), path)
    wanted = path.relative_to(parent).parts[0] if path != parent else path.name
    close = get_close_matches(wanted, _names_in(parent), n=3, cutoff=0.5)
    if close:
        advice = "did you mean " + " or ".join(display_path(parent / name, workspace) for name in close) + "?"
    else:
        advice = f"use list on {display_path(parent, workspace)} to see what is there"
    return ToolFailed(f"there is no {display_path(path, workspace)}; {advice}")


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(place.name for place in folder.iterdir())[:MOST_NAMES]
    except OSError:
        return []


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
    *("kubeconfig", "kubeconfig.*", "*.kubeconfig", "vault-token", "master.key"),
    *(".*_history", ".*history", "consolehost_history.txt"),
)


AMBIGUOUS_SECRET_NAMES = ("*.env", "*.key", "credentials", "secrets")
"""Names that in code mean something else as often as not: `process.env`, `item.key`."""


HARMLESS_NAMES = (
    *("*.example", "*.sample", "*.template", "*.dist", "*.defaults", "*.pub", "*.md", "*.rst"),
    *("*.py", "*.pyi", "*.js", "*.mjs", "*.ts", "*.tsx", "*.jsx", "*.go", "*.rs", "*.rb", "*.java", "*.kt", "*.cs"),
    *("*.c", "*.h", "*.cpp", "*.hpp", "*.swift", "*.scala", "*.ex", "*.exs", "*.html", "*.css", "*.vue", "*.svelte"),
)
"""Files that only show what such a file looks like, public keys, and source code that is about secrets."""


SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".secrets")


SECRET_PATHS = (
    *(".docker/config.json", ".config/gh/hosts.yml", ".config/gcloud", ".cargo/credentials", ".gem/credentials"),
    *(".config/rclone/rclone.conf", ".config/op", ".config/hub", ".subversion/auth", ".m2/settings.xml"),
)
"""Files and folders that hold secrets in one place only; elsewhere their names are ordinary."""


def is_secret(path: str) -> bool:
    """Whether a file of that name is likely to hold a secret."""
    return _is_among(path, (*SECRET_NAMES, *AMBIGUOUS_SECRET_NAMES))


def mentions_secret(word: str) -> bool:
    """Whether a word of a command is the name of such a file, and not a piece of code that reads like one."""
    return _is_among(word, (*SECRET_NAMES, *AMBIGUOUS_SECRET_NAMES) if "/" in word else SECRET_NAMES)


def _is_among(path: str, patterns: tuple[str, ...]) -> bool:
    pure = PurePosixPath(path.lower())
    if any(part in SECRET_FOLDERS for part in pure.parts) or any(f"/{ending}" in f"/{pure}" for ending in SECRET_PATHS):
        return not fnmatch(pure.name, "*.pub")
    if any(fnmatch(pure.name, pattern) for pattern in HARMLESS_NAMES):
        return False
    return any(fnmatch(pure.name, pattern) for pattern in patterns)


LARGEST_BYTES = 64 * 1024 * 1024
"""Files over this size are for the shell: reading one whole takes longer than it is worth."""


SAMPLED_BYTES = 8_192
"""How far into a file a NUL byte is looked for, which no text has."""


ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def read_text_file(path: Path, workspace: Workspace) -> bytes:
    """The bytes of a text file; raises `ToolFailed` for a folder, a device, a binary or huge file, and for nothing at all."""
    name = display_path(path, workspace)
    try:
        found = path.stat()
    except FileNotFoundError:
        raise missing_path(path, workspace) from None
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailed(f"{name} is a folder; use list to see what is in it")
    if not stat.S_ISREG(found.st_mode):
        raise ToolFailed(f"{name} is no regular file but a device, a socket or a pipe; use the shell if you must")
    if found.st_size > LARGEST_BYTES:
        raise ToolFailed(f"{name} has {found.st_size:,} bytes; use search, or head, tail and sed -n in the shell")
    if is_database_in_use(path):
        raise ToolFailed(f"{name} is a SQLite database that is in use, not text; look at it with sqlite3 in the shell")
    content = path.read_bytes()
    if b"\0" in content[:SAMPLED_BYTES]:
        kind = guess_type(path.name)[0] or "of no known kind"
        raise ToolFailed(f"{name} is a binary file ({kind}, {len(content):,} bytes), not text; look at it in the shell")
    return content


def encode_text(text: str) -> bytes:
    """Text as it is written: in UTF-8, and bytes that were none as they were before.

    Raises `ToolFailed` for half a surrogate pair, which nothing can hold.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        broken = f"character {error.start + 1} is half of a surrogate pair"
        raise ToolFailed(f"the text cannot be written: {broken}; give the whole character") from None


def replace_file(path: Path, content: bytes) -> None:
    """Put content at a path, so that no reader ever sees half of it; a file that was there keeps its mode.

    Folders on the way are made. Raises `OSError`, which names the path, where it cannot be written; a file that is read-only is
    such a place, though another could be put there in its stead.
    """
    if _is_read_only(path):
        raise PermissionError(EACCES, "the file is read-only", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name[:100]}.{uuid4().hex[:12]}"
    try:
        with beside.open("xb") as file:
            file.write(content)
        with suppress(FileNotFoundError):
            beside.chmod(stat.S_IMODE(path.stat().st_mode))
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _is_read_only(path: Path) -> bool:
    """Whether a file is there that this user may not write, or that nobody may: who may do anything still keeps to that."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not mode & ANY_WRITE or not os.access(path, os.W_OK)
