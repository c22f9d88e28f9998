"""What an agent may do: rules about tools and about what a call wishes, and what they answer. Nothing here asks or acts.

A rule names a tool and a pattern of what is wished: a command, a path from the project's root. The last rule that fits wins.
Two names are not tools but add to a tool's own rules: `outside` for what lies outside the project and for changes to files that
run later (`.git`, hooks, build servers' files), `secrets` for files of keys and passwords; their patterns begin with the tool,
as in `outside:read /usr/include/*`. The strictest answer counts.

Commands. An allowing pattern speaks for one simple command, never for what follows behind an operator: `git status*` does not
allow `git status; rm -rf x`, because each piece must be allowed by itself. Substitutions, groups, redirections to files,
here-documents and comments are asked for unless all commands are allowed, or a rule without `*` names the command word for word.
What is not caught: an allowed program that runs others by itself (`make`, `find -exec`, `git -c alias…`) or writes files by an
option; a path outside the project, or a name of secrets, that a program builds as it runs. And a denying pattern is a
seat belt, no wall: there is always another way to spell a command. Allow patterns, not whole programs that can do anything.
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
"""What a person answers who is asked."""

PERMISSIONS: tuple[Permission, ...] = get_args(Permission)
"""The answers, the strictest last."""

EVERYTHING = "*"
OUTSIDE, SECRETS = "outside", "secrets"
TOOLS = ("shell", "read", "write", "edit", "search", "list", "todo", "skill", "recall")
NAMES = (EVERYTHING, OUTSIDE, SECRETS, *TOOLS)
"""What a rule may name."""

REVEALING = ("read", "search", "edit")
"""Tools that show what is in the file they are given."""

SUBCOMMANDS = frozenset(
    {
        *("git", "gh", "npm", "pnpm", "yarn", "bun", "cargo", "go", "uv", "pip", "poetry", "pdm", "hatch", "bundle"),
        *("docker", "kubectl", "terraform", "dotnet", "mix", "gradle", "mvn", "make", "just", "systemctl"),
    }
)
"""Programs whose second word says what they do, so that leave to run them means that word and whatever follows it."""

_SUBCOMMAND = re.compile(r"(\S+) ([a-z][a-z0-9:_-]*)(?= |$)")


class PermissionRule(Struct, frozen=True):
    """What is answered to a wish of a tool that fits a pattern: `*` is anything, `?` any one character, `\\` takes what follows
    as it is. `granted`: a person said so during the session; such a rule gives leave, but none that was denied."""

    tool: str
    pattern: str
    answer: Permission
    granted: bool = False


Rules: TypeAlias = tuple[PermissionRule, ...]
"""Rules in order; the later win, so a caller extends them by adding to the end."""


def parse_rules(said: Mapping[str, str]) -> Rules:
    """Rules as written in a table, `{"shell": "ask", "shell:git status*": "allow"}`, in its order.

    Raises `UsageError` for a name that is no tool and an answer that is none: a rule with a slip in it would protect nobody.
    """
    return tuple(_rule(name, answer) for name, answer in said.items())


def rules_from_settings(permissions: Permissions) -> Rules:
    """Rules from settings, whose order says nothing: with a pattern they win over those without, denials over all.

    Raises `UsageError` for a name that is no tool.
    """
    stated: tuple[tuple[Permission, tuple[str, ...]], ...] = (("allow", permissions.allow), ("ask", permissions.ask))
    mild = [_rule(name, answer) for answer, names in stated for name in names]
    broad_first = sorted(mild, key=lambda rule: rule.pattern != EVERYTHING)
    return (*broad_first, *(_rule(name, "deny") for name in permissions.deny))


def _rule(said: str, answer: str) -> PermissionRule:
    tool, _, pattern = said.partition(":")
    if tool.strip() not in NAMES:
        raise UsageError(f"permissions: there is no tool {tool.strip()!r}; name one of {', '.join(NAMES)}")
    for known in PERMISSIONS:
        if answer == known:
            return PermissionRule(tool.strip(), pattern.strip() or EVERYTHING, known)
    raise UsageError(f"permissions: {said} is {answer!r}; say one of {', '.join(PERMISSIONS)}")


_BEYOND = {OUTSIDE: "ask", SECRETS: "ask"}

BUILD_RULES = parse_rules(
    {**dict.fromkeys(TOOLS, "allow"), "shell": "ask", "shell:cd *": "allow", "shell:pwd": "allow", **_BEYOND}
)
"""What holds for an agent that builds: everything in the project but commands."""

PLAN_RULES = (*BUILD_RULES, *parse_rules({"write": "deny", "edit": "deny"}))
"""What holds for an agent that only reads: commands are asked for, files are not changed."""

DENY_ALL = parse_rules({EVERYTHING: "deny", OUTSIDE: "deny", SECRETS: "deny"})
"""What holds for an agent without tools, such as the one that compacts."""


def decide(action: ActionRequest, rules: Rules) -> Permission:
    """What the rules say to a wish; where none fits, it is asked for."""
    own = _command_answer(action.what, rules) if action.tool == "shell" else _answer(action.tool, action.what, rules)
    return _strictest((own, *(_answer(name, f"{action.tool} {action.what}", rules) for name in _beyond(action))))


def is_offered(tool: str, rules: Rules) -> bool:
    """Whether a model is told of a tool at all: not where every wish would be denied."""
    answer: Permission = "ask"
    for rule in rules:
        if rule.tool in (tool, EVERYTHING):
            is_broad = rule.pattern == EVERYTHING
            answer = rule.answer if is_broad or rule.answer != "deny" else answer
    return answer != "deny"


def granted_rules(action: ActionRequest) -> Rules:
    """The rules that a person gives who allows a wish for good; what was denied stays so.

    For a path tool: the tool, and outside the project or for secrets this very path; reading outside, its folder too. For a
    command: the command as it stands, and of known programs every use of the same subcommand (`git status` with whatever
    follows it).
    """
    patterns = [_literal(action.what), *_simple_grants(action.what)] if action.tool == "shell" else [EVERYTHING]
    given = [
        *((action.tool, pattern) for pattern in patterns),
        *((name, f"{action.tool} {_literal(action.what)}") for name in _beyond(action)),
    ]
    if action.tool == "read" and action.outside:
        given.append((OUTSIDE, f"read {_literal(str(PurePosixPath(action.what).parent))}/*"))
    return tuple(PermissionRule(name, pattern, "allow", granted=True) for name, pattern in dict.fromkeys(given))


def missing_rules(action: ActionRequest, rules: Rules) -> tuple[str, ...]:
    """The rules that would allow just this wish, as a person writes them; none where it is denied, whatever is allowed."""
    if decide(action, rules) == "deny":
        return ()
    own = _command_answer(action.what, rules) if action.tool == "shell" else _answer(action.tool, action.what, rules)
    beyond = [name for name in _beyond(action) if _answer(name, f"{action.tool} {action.what}", rules) != "allow"]
    literal = _literal(action.what)
    return (
        *((f"{action.tool}:{literal}",) if own != "allow" else ()),
        *(f"{name}:{action.tool} {literal}" for name in beyond),
    )


def format_rules(rules: Rules) -> str:
    """Rules in one line for a person, as they could be written in settings."""
    return ", ".join(rule.tool if rule.pattern == EVERYTHING else f"{rule.tool}:{rule.pattern}" for rule in rules)


def _simple_grants(command: str) -> Iterator[str]:
    pieces, plain = parse_command(command)
    for piece in pieces if plain else ():
        found = _SUBCOMMAND.match(piece)
        if found and found[1] in SUBCOMMANDS:
            yield _literal(found[0])
            yield f"{_literal(found[0])} *"
        else:
            yield _literal(piece)


def _literal(text: str) -> str:
    return re.sub(r"[*?\\]", r"\\\g<0>", text)


# What rules answer.


def _answer(name: str, what: str, rules: Iterable[PermissionRule]) -> Permission:
    """The answer of the last rule that fits; one that was granted turns it to allow, unless it is a denial."""
    fitting = [rule for rule in _about(name, rules) if _fits(rule.pattern, what)]
    stated: Permission = next((rule.answer for rule in reversed(fitting) if not rule.granted), "ask")
    return "allow" if stated != "deny" and any(rule.granted for rule in fitting) else stated


def _command_answer(command: str, rules: Rules) -> Permission:
    """The strictest answer to the pieces of a command; to the whole where a rule names it word for word."""
    own = tuple(_about("shell", rules))
    pieces, plain = parse_command(command)
    by_piece = [_answer("shell", piece, own) for piece in pieces] or ["ask"]
    fitting = [rule for rule in own if rule.pattern != EVERYTHING and _fits(rule.pattern, command)]
    stated = [rule for rule in fitting if not rule.granted][-1:]
    if "deny" in by_piece or any(rule.answer == "deny" for rule in stated):
        return "deny"
    named = [rule for rule in (*stated, *fitting) if _is_literal(rule.pattern) and (rule.granted or rule in stated)]
    if named:
        return named[-1].answer
    return _strictest((*by_piece, "allow" if plain or _is_free(own) else "ask"))


def _about(name: str, rules: Iterable[PermissionRule]) -> Iterator[PermissionRule]:
    names = (name,) if name in (OUTSIDE, SECRETS) else (name, EVERYTHING)
    return (rule for rule in rules if rule.tool in names)


def _is_free(rules: Rules) -> bool:
    """Whether all commands are allowed, whatever is in them."""
    free = False
    for rule in rules:
        is_broad = rule.pattern == EVERYTHING and not rule.granted
        free = rule.answer == "allow" if is_broad else free and rule.answer == "allow"
    return free


def _is_literal(pattern: str) -> bool:
    return re.search(r"[*?]", re.sub(r"\\.", "", pattern, flags=re.DOTALL)) is None


def _fits(pattern: str, what: str) -> bool:
    return _expression(pattern).fullmatch(what) is not None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    translated = {"*": ".*", "?": "."}
    whole = "".join(translated.get(piece) or re.escape(piece[-1]) for piece in pieces)
    return re.compile(whole, re.DOTALL)


def _beyond(action: ActionRequest) -> tuple[str, ...]:
    """What must be allowed beside the tool itself."""
    return tuple(name for name, is_so in ((OUTSIDE, action.outside), (SECRETS, _reveals(action))) if is_so)


def _reveals(action: ActionRequest) -> bool:
    """Whether a wish is for a file of secrets, or a command that names one."""
    if action.tool == "shell":
        return action.reveals or any(map(mentions_secret, split_words(action.what)))
    return action.tool in REVEALING and is_secret(action.what)


def _strictest(answers: Iterable[Permission]) -> Permission:
    return max(answers, key=PERMISSIONS.index)
