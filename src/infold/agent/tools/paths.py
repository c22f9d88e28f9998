"""Where the paths lead that a model writes, whether that is inside the project, and how they are named to model and person.

Every link is followed before anything is decided, so a link in the project that leads out of it counts as outside. So does, for
a tool that would change it, a file that runs later: settings and hooks name programs that the next harmless command runs.
"""

import os
from difflib import get_close_matches
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from infold.agent.tools.tool import ToolFailed, Wish, Workplace

RUN_LATER_FOLDERS = (
    *(".git", ".husky", ".githooks", ".github/workflows", ".github/actions", ".gitlab/ci", ".gitea", ".forgejo"),
    *(".circleci", ".buildkite", ".woodpecker", ".teamcity", ".azure-pipelines", ".tekton", ".devcontainer"),
    *(".vscode", ".idea", ".zed", ".fleet", ".direnv", ".mise", ".yarn/releases", ".yarn/plugins", "node_modules/.bin"),
    *(".claude", ".cursor", ".codex", ".gemini", ".opencode", ".windsurf"),
)
"""Folders of which everything counts."""


FILES = (
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


PROGRAMS = ("bin", "scripts", "lib", "lib64")
"""In a Python environment, the folders with programs and modules that the next command runs."""


def runs_later(path: str) -> bool:
    """Whether what is at a path from the project's root runs, or names programs that run, without being started."""
    pure = PurePosixPath(path.casefold())
    if any(f"/{folder}/" in f"/{pure}/" for folder in RUN_LATER_FOLDERS) or any(
        fnmatch(pure.name, name) for name in FILES
    ):
        return True
    parts = pure.parts
    return any(one in ENVIRONMENTS and after in PROGRAMS for one, after in pairwise(parts))


RUNS_LATER = "it runs later, without being asked for again"
"""Why a change inside the project is asked for."""


MOST_NAMES = 500
"""Names of a folder that are compared with one that is not there."""


def located(path: str, workplace: Workplace) -> Path:
    """Where a path leads: from the project's root, `~` as the home folder, every link followed.

    Raises `ToolFailed` for what no path can be.
    """
    if "\0" in path:
        raise ToolFailed("a path cannot hold a NUL character; give the path as list shows it")
    try:
        place = workplace.root / Path(path).expanduser()
    except RuntimeError:  # nobody is called so, or has no home
        place = workplace.root / path
    return Path(os.path.realpath(place))


def is_inside(path: Path, workplace: Workplace) -> bool:
    """Whether a located path is the project's root or below it."""
    return path.is_relative_to(os.path.realpath(workplace.root))


def named(path: Path, workplace: Workplace) -> str:
    """A located path as it is shown: from the project's root, or in full where it is outside."""
    root = Path(os.path.realpath(workplace.root))
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def path_wish(tool: str, path: str, workplace: Workplace) -> Wish:
    """The wish of a tool that is about one path."""
    place = located(path, workplace)
    return Wish(tool, named(place, workplace), outside=not is_inside(place, workplace))


def change_wish(tool: str, path: str, workplace: Workplace) -> Wish:
    """The wish of a tool that would change what is at a path."""
    wish = path_wish(tool, path, workplace)
    later = is_run_later(located(path, workplace), workplace)
    return replace(wish, outside=True, why="" if wish.outside else RUNS_LATER) if later else wish


def is_run_later(place: Path, workplace: Workplace) -> bool:
    """Whether a located path is one of a repository's own files, or another file that runs without being started."""
    return runs_later(named(place, workplace)) or _is_gits_own(place, workplace)


def _is_gits_own(place: Path, workplace: Workplace) -> bool:
    """Whether a located path belongs to a repository that is not called `.git`, or would make a folder one, which always has a
    `HEAD`."""
    parts = [part.casefold() for part in Path(named(place, workplace)).parts]
    within = (folder for folder in place.parents if is_inside(folder, workplace))
    return parts[-1:] == ["head"] or any(map(_is_repository, within))


def _is_repository(folder: Path) -> bool:
    return all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))


def folder_at(path: str, workplace: Workplace) -> Path:
    """The folder at a path; raises `ToolFailed` where there is none."""
    place = located(path, workplace)
    if place.is_dir():
        return place
    if place.exists():
        raise ToolFailed(f"{named(place, workplace)} is a file, not a folder; give its folder, or use read")
    raise missing(place, workplace)


def missing(path: Path, workplace: Workplace) -> ToolFailed:
    """What to say of a path with nothing at it: names beside it that look alike, or how far the path goes."""
    parent = next((folder for folder in path.parents if folder.is_dir()), path)
    wanted = path.relative_to(parent).parts[0] if path != parent else path.name
    close = get_close_matches(wanted, _names_in(parent), n=3, cutoff=0.5)
    if close:
        advice = "did you mean " + " or ".join(named(parent / name, workplace) for name in close) + "?"
    else:
        advice = f"use list on {named(parent, workplace)} to see what is there"
    return ToolFailed(f"there is no {named(path, workplace)}; {advice}")


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(place.name for place in folder.iterdir())[:MOST_NAMES]
    except OSError:
        return []


CERTAIN = (
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


LIKELY = ("*.env", "*.key", "credentials", "secrets")
"""Names that in code mean something else as often as not: `process.env`, `item.key`."""


HARMLESS = (
    *("*.example", "*.sample", "*.template", "*.dist", "*.defaults", "*.pub", "*.md", "*.rst"),
    *("*.py", "*.pyi", "*.js", "*.mjs", "*.ts", "*.tsx", "*.jsx", "*.go", "*.rs", "*.rb", "*.java", "*.kt", "*.cs"),
    *("*.c", "*.h", "*.cpp", "*.hpp", "*.swift", "*.scala", "*.ex", "*.exs", "*.html", "*.css", "*.vue", "*.svelte"),
)
"""Files that only show what such a file looks like, public keys, and source code that is about secrets."""


SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".secrets")


ENDINGS = (
    *(".docker/config.json", ".config/gh/hosts.yml", ".config/gcloud", ".cargo/credentials", ".gem/credentials"),
    *(".config/rclone/rclone.conf", ".config/op", ".config/hub", ".subversion/auth", ".m2/settings.xml"),
)
"""Files and folders that hold secrets in one place only; elsewhere their names are ordinary."""


def is_secret(path: str) -> bool:
    """Whether a file of that name is likely to hold a secret."""
    return _is_among(path, (*CERTAIN, *LIKELY))


def mentions_secret(word: str) -> bool:
    """Whether a word of a command is the name of such a file, and not a piece of code that reads like one."""
    return _is_among(word, (*CERTAIN, *LIKELY) if "/" in word else CERTAIN)


def _is_among(path: str, patterns: tuple[str, ...]) -> bool:
    pure = PurePosixPath(path.lower())
    if any(part in SECRET_FOLDERS for part in pure.parts) or any(f"/{ending}" in f"/{pure}" for ending in ENDINGS):
        return not fnmatch(pure.name, "*.pub")
    if any(fnmatch(pure.name, pattern) for pattern in HARMLESS):
        return False
    return any(fnmatch(pure.name, pattern) for pattern in patterns)
