"""What an agent may do: rules about tools and requested actions, and what they decide. Nothing here asks or acts.

A rule names a tool and a pattern for the action: a command, a path from the project's root. The last matching rule wins.
Two names are not tools but add to a tool's own rules: `outside` for what lies outside the project and for changes to files that
run later (`.git`, hooks, build servers' files), `secrets` for files of keys and passwords; their patterns begin with the tool,
as in `outside:read /usr/include/*`. The strictest decision counts.

Commands. An allowing pattern covers one simple command and nothing behind an operator: `git status*` does not allow
`git status; rm -rf x`, because each simple command must be allowed by itself. Substitutions, groups, redirections to files,
here-documents and comments are asked for unless all commands are allowed, or a rule without `*` names the command word for word.
Not caught: an allowed program that runs others by itself (`make`, `find -exec`, `git -c alias…`) or writes files by an
option; a path outside the project, or a name of secrets, that a program builds as it runs. A denying pattern is a seat belt, not
a wall: there is always another way to spell a command. Allow patterns, not whole programs that can do anything.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import PurePosixPath
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from infold.agent.tools.commands import parse_command, split_words
from infold.agent.tools.files import is_secret, mentions_secret
from infold.agent.tools.tool import ActionRequest
from infold.errors import UsageError
from infold.settings.resolve import Permissions

Permission: TypeAlias = Literal["allow", "ask", "deny"]
Consent: TypeAlias = Literal["once", "always", "no"]
"""The user's answer."""

PERMISSIONS: tuple[Permission, ...] = get_args(Permission)
"""The strictest last."""

EVERYTHING = "*"
OUTSIDE, SECRETS = "outside", "secrets"
TOOLS = ("shell", "read", "write", "edit", "search", "list", "todo", "skill", "recall", "compact")
NAMES = (EVERYTHING, OUTSIDE, SECRETS, *TOOLS)
"""What a rule may name."""

REVEALING_TOOLS = ("read", "search", "edit")
"""Tools that show the content of the file they are given."""

SUBCOMMANDS = frozenset(
    {
        *("git", "gh", "npm", "pnpm", "yarn", "bun", "cargo", "go", "uv", "pip", "poetry", "pdm", "hatch", "bundle"),
        *("docker", "kubectl", "terraform", "dotnet", "mix", "gradle", "mvn", "make", "just", "systemctl"),
    }
)
"""Programs whose second word says what they do: permission for one covers that word with any arguments."""

_SUBCOMMAND = re.compile(r"(\S+) ([a-z][a-z0-9:_-]*)(?= |$)")


class PermissionRule(Struct, frozen=True):
    """The permission for a tool's actions that match a pattern: `*` is anything, `?` any character, `\\` escapes the next one.

    `granted`: the user allowed it during the session, which does not override a denial.
    """

    tool: str
    pattern: str
    permission: Permission
    granted: bool = False


Rules: TypeAlias = tuple[PermissionRule, ...]
"""Rules in order; the later win, so a caller extends them by adding to the end."""


def parse_rules(table: Mapping[str, str]) -> Rules:
    """Return the rules of a table such as `{"shell": "ask", "shell:git status*": "allow"}`, in its order.

    Raise `UsageError` for an unknown tool or permission: a rule with a typing error would not protect.
    """
    return tuple(_parse_rule(name, permission) for name, permission in table.items())


def rules_from_settings(permissions: Permissions) -> Rules:
    """Return the rules of settings, which have no order: those with a pattern win over those without, denials over all.

    Raise `UsageError` for an unknown tool.
    """
    allowing = [_parse_rule(name, "allow") for name in permissions.allow]
    asking = [_parse_rule(name, "ask") for name in permissions.ask]
    broad_first = sorted((*allowing, *asking), key=lambda rule: rule.pattern != EVERYTHING)
    return (*broad_first, *(_parse_rule(name, "deny") for name in permissions.deny))


def _parse_rule(text: str, permission: str) -> PermissionRule:
    tool, _, pattern = text.partition(":")
    if tool.strip() not in NAMES:
        raise UsageError(f"permissions: there is no tool {tool.strip()!r}; name one of {', '.join(NAMES)}")
    for known in PERMISSIONS:
        if permission == known:
            return PermissionRule(tool.strip(), pattern.strip() or EVERYTHING, known)
    raise UsageError(f"permissions: {text} is {permission!r}; say one of {', '.join(PERMISSIONS)}")


_COMMANDS_ASKED = {"shell": "ask", "shell:cd *": "allow", "shell:pwd": "allow", OUTSIDE: "ask", SECRETS: "ask"}
BUILD_RULES = parse_rules({**dict.fromkeys(TOOLS, "allow"), **_COMMANDS_ASKED})
"""Rules of an agent that builds: everything in the project except commands."""

PLAN_RULES = (*BUILD_RULES, *parse_rules({"write": "deny", "edit": "deny"}))
"""Rules of an agent that only reads: commands are asked for, files are not changed."""

DENY_ALL = parse_rules({EVERYTHING: "deny", OUTSIDE: "deny", SECRETS: "deny"})
"""Rules of an agent without tools, such as the one that compacts."""


def decide(action: ActionRequest, rules: Rules) -> Permission:
    """Return what the rules say about an action: `ask` if none matches."""
    return max(_permissions_needed(action, rules).values(), key=PERMISSIONS.index)


def is_offered(tool: str, rules: Rules) -> bool:
    """Return whether a model is offered a tool: not if every action would be denied."""
    permission: Permission = "ask"
    for rule in rules:
        if rule.tool in (tool, EVERYTHING) and (rule.pattern == EVERYTHING or rule.permission != "deny"):
            permission = rule.permission
    return permission != "deny"


def granted_rules(action: ActionRequest) -> Rules:
    """Return the rules that hold after the user allows an action for good; denials stay.

    For a path tool: the tool, and outside the project or for secrets this path only; reading outside, its folder too. For a
    command: the command as it stands, and for known programs every use of the same subcommand (`git status` with any
    arguments).
    """
    literal = _escape(action.what)
    patterns = [literal, *_subcommand_patterns(action.what)] if action.tool == "shell" else [EVERYTHING]
    given = [(action.tool, pattern) for pattern in patterns]
    given += [(name, f"{action.tool} {literal}") for name in _extra_names(action)]
    if action.tool == "read" and action.outside:
        given.append((OUTSIDE, f"read {_escape(str(PurePosixPath(action.what).parent))}/*"))
    return tuple(PermissionRule(name, pattern, "allow", granted=True) for name, pattern in dict.fromkeys(given))


def missing_rules(action: ActionRequest, rules: Rules) -> tuple[str, ...]:
    """Return the rules that would allow exactly this action, as settings spell them; none if it is denied."""
    needed = _permissions_needed(action, rules)
    return () if "deny" in needed.values() else tuple(rule for rule, found in needed.items() if found != "allow")


def format_rules(rules: Rules) -> str:
    """Return rules in one line, as settings spell them."""
    return ", ".join(rule.tool if rule.pattern == EVERYTHING else f"{rule.tool}:{rule.pattern}" for rule in rules)


def _subcommand_patterns(command: str) -> Iterator[str]:
    pieces, plain = parse_command(command)
    for piece in pieces if plain else ():
        found = _SUBCOMMAND.match(piece)
        if found and found[1] in SUBCOMMANDS:
            yield _escape(found[0])
            yield f"{_escape(found[0])} *"
        else:
            yield _escape(piece)


def _escape(text: str) -> str:
    return re.sub(r"[*?\\]", r"\\\g<0>", text)


# What rules decide.


def _permissions_needed(action: ActionRequest, rules: Rules) -> dict[str, Permission]:
    """Return the permission for the tool itself, and for `outside` and `secrets` if they apply.

    The keys are the rules that would allow exactly this action, as settings spell them.
    """
    tool, what, literal = action.tool, action.what, _escape(action.what)
    own = _command_permission(what, rules) if tool == "shell" else _permission(tool, what, rules)
    extra = {f"{name}:{tool} {literal}": _permission(name, f"{tool} {what}", rules) for name in _extra_names(action)}
    return {f"{tool}:{literal}": own, **extra}


def _permission(name: str, what: str, rules: Iterable[PermissionRule]) -> Permission:
    """Return the permission of the last matching rule; a granted one turns it into allow, unless it is a denial."""
    matching = [rule for rule in _rules_about(name, rules) if _expression(rule.pattern).fullmatch(what)]
    stated: Permission = next((rule.permission for rule in reversed(matching) if not rule.granted), "ask")
    return "allow" if stated != "deny" and any(rule.granted for rule in matching) else stated


def _command_permission(command: str, rules: Rules) -> Permission:
    """Return the strictest permission of the simple commands; that of the whole if a rule names it word for word."""
    own = tuple(_rules_about("shell", rules))
    pieces, plain = parse_command(command)
    by_piece = [_permission("shell", piece, own) for piece in pieces] or ["ask"]
    matching = [rule for rule in own if rule.pattern != EVERYTHING and _expression(rule.pattern).fullmatch(command)]
    stated = [rule for rule in matching if not rule.granted][-1:]
    if "deny" in by_piece or any(rule.permission == "deny" for rule in stated):
        return "deny"
    literal = [rule for rule in (*stated, *matching) if _is_literal(rule.pattern) and (rule.granted or rule in stated)]
    if literal:
        return literal[-1].permission
    return max((*by_piece, "allow" if plain or _allows_every_command(own) else "ask"), key=PERMISSIONS.index)


def _rules_about(name: str, rules: Iterable[PermissionRule]) -> Iterator[PermissionRule]:
    names = (name,) if name in (OUTSIDE, SECRETS) else (name, EVERYTHING)
    return (rule for rule in rules if rule.tool in names)


def _allows_every_command(rules: Rules) -> bool:
    is_free = False
    for rule in rules:
        is_broad = rule.pattern == EVERYTHING and not rule.granted
        is_free = rule.permission == "allow" if is_broad else is_free and rule.permission == "allow"
    return is_free


def _is_literal(pattern: str) -> bool:
    return re.search(r"[*?]", re.sub(r"\\.", "", pattern, flags=re.DOTALL)) is None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    translated = {"*": ".*", "?": "."}
    whole = "".join(translated.get(piece) or re.escape(piece[-1]) for piece in pieces)
    return re.compile(whole, re.DOTALL)


def _extra_names(action: ActionRequest) -> tuple[str, ...]:
    """Return which of `outside` and `secrets` must be allowed in addition to the tool itself."""
    if action.tool == "shell":
        reveals = action.reveals or any(map(mentions_secret, split_words(action.what)))
    else:
        reveals = action.tool in REVEALING_TOOLS and is_secret(action.what)
    return tuple(name for name, applies in ((OUTSIDE, action.outside), (SECRETS, reveals)) if applies)
