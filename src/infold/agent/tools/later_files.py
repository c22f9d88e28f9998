"""Which files run later, by their names: what git, a shell, an editor or a build server runs or obeys without being asked again.

Changing one is asked for, although it lies inside the project. Files that run only when a person starts them, such as a
Makefile, a package.json or the code itself, are what an agent is there to change.
"""

from fnmatch import fnmatch
from itertools import pairwise
from pathlib import PurePosixPath

FOLDERS = (
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
    if any(f"/{folder}/" in f"/{pure}/" for folder in FOLDERS) or any(fnmatch(pure.name, name) for name in FILES):
        return True
    parts = pure.parts
    return any(one in ENVIRONMENTS and after in PROGRAMS for one, after in pairwise(parts))
