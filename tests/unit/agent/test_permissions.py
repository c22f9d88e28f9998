"""What an agent may do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infold.agent.permissions import (
    BUILD_RULES,
    DENY_ALL,
    PLAN_RULES,
    TOOLS,
    Permission,
    PermissionRule,
    decide,
    format_rules,
    granted_rules,
    is_offered,
    missing_rules,
    parse_rules,
    rules_from_settings,
)
from infold.agent.tools.tool import ActionRequest
from infold.errors import UsageError
from infold.settings.resolve import Permissions

GIT = (*BUILD_RULES, *parse_rules({"shell:git status*": "allow", "shell:git log*": "allow", "shell:wc *": "allow"}))


def runs(command: str, *, outside: bool = False) -> ActionRequest:
    """Return the action of running a command."""
    return ActionRequest("shell", command, outside=outside)


@pytest.mark.parametrize("tool", ["read", "search", "list", "todo", "skill", "recall", "write", "edit"])
def test_work_in_the_project_is_allowed(tool: str) -> None:
    """S5.5: an agent that builds reads and writes in the project unasked; one that plans only reads."""
    assert decide(ActionRequest(tool, "src/a.py"), BUILD_RULES) == "allow"
    assert decide(ActionRequest(tool, "src/a.py"), PLAN_RULES) == ("deny" if tool in ("write", "edit") else "allow")


def test_commands_are_asked_for() -> None:
    """S5.5: no command runs unasked, unless it only changes folder."""
    assert decide(runs("make"), BUILD_RULES) == decide(runs("ls"), PLAN_RULES) == "ask"
    assert decide(runs("cd src"), BUILD_RULES) == "allow"
    assert decide(runs("cd src && rm x"), BUILD_RULES) == "ask"


def test_the_compaction_agent_may_do_nothing() -> None:
    """S3.2: under its rules every action is denied, inside and outside."""
    for tool in (*TOOLS, "made-up"):
        assert decide(ActionRequest(tool, "x"), DENY_ALL) == "deny"
        assert decide(ActionRequest(tool, "/x", outside=True), DENY_ALL) == "deny"
        assert not is_offered(tool, DENY_ALL)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"shell": "ask", "shell:git status*": "allow"}, "allow"),
        ({"shell:git status*": "allow", "shell": "ask"}, "ask"),
        ({"shell:git *": "deny", "shell:git status*": "allow"}, "allow"),
        ({"shell:git status*": "allow", "shell:git *": "deny"}, "deny"),
        ({"*": "deny", "shell": "allow"}, "allow"),
        ({"shell": "allow", "*": "deny"}, "deny"),
        ({"shell:git statu? -s": "allow"}, "allow"),
        ({"shell:git status": "allow"}, "ask"),
        ({"read": "allow"}, "ask"),
        ({}, "ask"),
    ],
)
def test_later_rules_win(said: dict[str, str], expected: Permission) -> None:
    """The last rule that fits decides; where none fits, it is asked for."""
    assert decide(runs("git status -s"), parse_rules(said)) == expected


def test_settings_have_no_order() -> None:
    """From lists, a rule with a pattern wins over one without, asking over allowing, and a denial over all."""
    rules = rules_from_settings(
        Permissions(
            allow=("shell:git *", "write", "shell:rm *"),
            ask=("shell", "shell:git push*"),
            deny=("write:vendor/*", "shell:rm *"),
        )
    )

    assert decide(runs("git log"), rules) == "allow"
    assert decide(runs("git push"), rules) == "ask"
    assert decide(runs("make"), rules) == "ask"
    assert decide(runs("rm x"), rules) == "deny"
    assert decide(ActionRequest("write", "vendor/a"), rules) == "deny"
    assert decide(ActionRequest("write", "a"), rules) == "allow"


@pytest.mark.parametrize("said", [{"shel": "deny"}, {"shell": "never"}, {"": "ask"}, {"shell*": "ask"}])
def test_a_typing_error_is_refused(said: dict[str, str]) -> None:
    """A rule that would not protect is refused, with what would be right."""
    with pytest.raises(UsageError, match=r"one of .*(shell|deny)"):
        parse_rules(said)


# What lies outside, and secrets.


@pytest.mark.parametrize("tool", ["read", "search", "list", "write", "edit"])
def test_outside_the_project_is_asked_for(tool: str) -> None:
    """S5.5: whatever a tool's own rules allow, beyond the project it asks; what is denied stays denied."""
    action = ActionRequest(tool, "/etc/hosts", outside=True)

    assert decide(action, BUILD_RULES) == "ask"
    assert decide(action, (*BUILD_RULES, *parse_rules({"*": "allow"}))) == "ask"
    assert decide(action, (*BUILD_RULES, *parse_rules({tool: "deny"}))) == "deny"
    assert decide(action, (*BUILD_RULES, *parse_rules({"outside": "deny"}))) == "deny"
    assert decide(action, (*BUILD_RULES, *parse_rules({f"outside:{tool} /etc/*": "allow"}))) == "allow"
    assert decide(action, (*BUILD_RULES, *parse_rules({"outside:todo /etc/*": "allow"}))) == "ask"


def test_allowed_commands_ask_outside() -> None:
    """A command that is allowed asks all the same where it names something outside."""
    assert decide(runs("git status /etc", outside=True), GIT) == "ask"


@pytest.mark.parametrize("what", [".env", "app/.env.local", "keys/server.pem", "id_ed25519"])
def test_secrets_are_asked_for(what: str) -> None:
    """Reading a file of secrets asks, by whatever tool shows it; writing one, or its example, does not."""
    assert [decide(ActionRequest(tool, what), BUILD_RULES) for tool in ("read", "search", "edit")] == ["ask"] * 3
    assert decide(ActionRequest("write", what), BUILD_RULES) == "allow"
    assert decide(ActionRequest("read", f"{what}.example"), BUILD_RULES) == "allow"
    assert decide(runs(f"wc '{what}'"), GIT) == "ask"
    assert decide(ActionRequest("read", what), (*BUILD_RULES, *parse_rules({"secrets:read *": "allow"}))) == "allow"


# Commands.


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status -s 2>&1 | wc -l",
        "git status; git log -3 && wc x || git status",
        "cd src && git log > /dev/null",
        "git log --grep='a; rm x'",
    ],
)
def test_a_command_of_allowed_pieces_is_allowed(command: str) -> None:
    """A line runs unasked where every piece of it may."""
    assert decide(runs(command), GIT) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf x",
        "git status && rm -rf x",
        "git status | sh",
        "git status & rm -rf x",
        "git status\nrm -rf x",
        "git status $(rm -rf x)",
        "git status `rm -rf x`",
        'git status "$(rm -rf x)"',
        "git status <(rm -rf x)",
        "git status > x",
        "git status # it's\nrm -rf x\n# it's",
        "git status $'\\'' ; rm -rf x ; '",
        "(git status)",
        "git= rm -rf x",
        "GIT_PAGER='rm -rf x' git log",
        "g\\it status",
        "sudo git status",
        "git status ${x:-`rm -rf x`}",
        "wc x; ''rm -rf x",
        "git status 'open",
        "",
    ],
)
def test_nothing_hides_behind_an_allowed_command(command: str) -> None:
    """What follows an allowed command, or is nested in it, is asked for; so is what is not understood for certain."""
    assert decide(runs(command), GIT) == "ask"


WORDS = st.sampled_from(["git status", "git log -1", "wc -l x", "git status 'a b'", 'wc "a;b"'])
BETWEEN = st.sampled_from([";", " ; ", "&&", "||", "|", "&", "\n", " |& ", ";;", "\n\n"])
EVIL = st.sampled_from(
    ["rm -rf x", "sh", "curl x", "'rm' x", "r\\m x", "/bin/rm x", "$X", "~/x", "{rm,x}", "! rm x", "rm>x"]
)
NESTED = st.sampled_from(
    ["$({})", "`{}`", '"$({})"', '"`{}`"', "<({})", "$(echo $({}))", "${{x:-`{}`}}", "({})", "x=$({})"]
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.lists(WORDS, max_size=4), EVIL, st.lists(WORDS, max_size=4), st.data())
def test_an_unlisted_program_is_never_run_unasked(
    before: list[str], evil: str, after: list[str], data: st.DataObject
) -> None:
    """S5.5: whatever stands around it, under whatever operators, a program that no rule allows is asked for."""
    pieces = [*before, evil, *after]
    command = pieces[0] + "".join(data.draw(BETWEEN) + piece for piece in pieces[1:])

    assert decide(runs(command), GIT) == "ask"


@pytest.mark.slow
@settings(deadline=None)
@given(WORDS, EVIL, NESTED, st.sampled_from(["", ";", " "]), WORDS)
def test_an_unlisted_program_is_never_nested_unasked(first: str, evil: str, nested: str, after: str, last: str) -> None:
    """Nor may it stand in a substitution or a group, wherever that stands."""
    assert decide(runs(f"{first} {nested.format(evil)}{after}{last if after else ''}"), GIT) == "ask"


@settings(deadline=None)
@given(st.text(alphabet="gitsaulowc rm;&|'\"\\$`(){}<>#\n=*?[]!-", max_size=30))
def test_any_text_gets_an_answer(text: str) -> None:
    """No command breaks the rules, and every one gets an answer; only an allowed beginning can be allowed."""
    answer = decide(runs(text), GIT)

    assert answer in ("allow", "ask")
    assert answer == "ask" or text.lstrip(" \n;&|\t").startswith(("git status", "git log", "wc ", "cd ", "pwd"))


def test_everything_allowed_is_everything() -> None:
    """If all commands are allowed none is asked about; with exceptions, those that could hide one are."""
    free = (*BUILD_RULES, *parse_rules({"shell": "allow"}))
    partly = (*free, *parse_rules({"shell:rm *": "ask"}))

    assert decide(runs("for f in *; do echo $(cat $f) > x; done"), free) == "allow"
    assert decide(runs("make && ls"), partly) == "allow"
    assert decide(runs("make && rm x"), partly) == "ask"
    assert decide(runs("echo $(date)"), partly) == "ask"


@pytest.mark.parametrize("command", ["rm x", "ls; rm x", "echo $(rm x)", "(cd a && rm x)", "ls | xargs rm", "sudo ls"])
def test_what_is_denied_is_denied_anywhere(command: str) -> None:
    """A denial holds for every piece, also inside a substitution, and a pattern may look into the whole line."""
    denying = {"shell": "allow", "shell:rm *": "deny", "shell:*xargs*": "deny", "shell:*sudo*": "deny"}

    assert decide(runs(command), parse_rules(denying)) == "deny"


def test_a_command_may_be_named_word_for_word() -> None:
    """A rule without wildcards names one command, whatever is in it, and nothing else."""
    rules = (*GIT, *parse_rules({"shell:make > log.txt": "allow", "shell:git status; x": "ask"}))

    assert decide(runs("make > log.txt"), rules) == "allow"
    assert decide(runs("make > log.txt2"), rules) == "ask"
    assert decide(runs("git status; x"), (*rules, *parse_rules({"shell:git*": "allow"}))) == "ask"


# What a person grants for good.


def test_a_grant_holds_for_the_same() -> None:
    """Who says always is not asked for the same again; nothing else comes with it."""
    command = "make > 'my *log'"
    rules = (*BUILD_RULES, *granted_rules(runs(command)))

    assert decide(runs(command), rules) == "allow"
    assert decide(runs("make > 'my xlog'"), rules) == "ask"
    assert decide(runs("make"), rules) == "ask"


def test_a_grant_of_a_subcommand_is_for_all_its_uses() -> None:
    """Of programs that are known for subcommands, the subcommand is granted with whatever follows; of others the words alone."""
    rules = (*BUILD_RULES, *granted_rules(runs("git add a.py && pytest -q x && rm build")))

    assert decide(runs("git add b.py"), rules) == "allow"
    assert decide(runs("rm build; pytest -q x"), rules) == "allow"
    for other in ("git addx", "git push", "rm build /", "pytest -q y", "git add b.py; rm x", "git -C x add"):
        assert decide(runs(other), rules) == "ask"


def test_a_grant_outside_is_for_the_tool_that_asked() -> None:
    """Permission to read a file outside covers its folder, never writing there; a secret is granted alone."""
    rules = (
        *BUILD_RULES,
        *granted_rules(ActionRequest("read", "/usr/include/a.h", outside=True)),
        *granted_rules(ActionRequest("read", ".env")),
    )

    assert decide(ActionRequest("read", "/usr/include/b.h", outside=True), rules) == "allow"
    assert decide(ActionRequest("write", "/usr/include/a.h", outside=True), rules) == "ask"
    assert decide(ActionRequest("read", "/usr/x", outside=True), rules) == "ask"
    assert decide(ActionRequest("read", ".env"), rules) == "allow"
    assert decide(ActionRequest("read", "app/.env"), rules) == "ask"
    assert decide(ActionRequest("edit", ".env"), rules) == "ask"


def test_a_grant_does_not_override_a_denial() -> None:
    """What rules deny stays denied, whatever was granted before or after."""
    rules = parse_rules({"write": "ask", "write:vendor/*": "deny", "shell:*-f*": "deny"})
    grants = (*granted_rules(ActionRequest("write", "a")), *granted_rules(runs("git push")))

    for ordered in ((*rules, *grants), (*grants, *rules)):
        assert decide(ActionRequest("write", "b"), ordered) == "allow"
        assert decide(ActionRequest("write", "vendor/a"), ordered) == "deny"
        assert decide(runs("git push origin"), ordered) == "allow"
        assert decide(runs("git push -f"), ordered) == "deny"
    assert decide(runs("rm -f x"), (*rules, *granted_rules(runs("rm -f x")))) == "deny"


def test_grants_are_shown_as_rules() -> None:
    """A person can be shown what always would mean."""
    assert format_rules(granted_rules(runs("git add *"))) == r"shell:git add \*, shell:git add, shell:git add *"
    assert format_rules((PermissionRule("write", "*", "allow"),)) == "write"


@pytest.mark.parametrize(
    ("action", "rules"),
    [
        (runs("ls"), ("shell:ls",)),
        (runs("ls *.py > a; rm b"), (r"shell:ls \*.py > a; rm b",)),
        (runs("cat /etc/hosts", outside=True), ("shell:cat /etc/hosts", "outside:shell cat /etc/hosts")),
        (ActionRequest("write", ".git/config", outside=True), ("outside:write .git/config",)),
        (ActionRequest("read", ".env"), ("secrets:read .env",)),
        (ActionRequest("read", "a"), ()),
    ],
)
def test_missing_rules_allow_the_action(action: ActionRequest, rules: tuple[str, ...]) -> None:
    """The rules that are suggested are exactly those that are missing, and with them the action is allowed."""
    assert missing_rules(action, BUILD_RULES) == rules
    assert decide(action, (*BUILD_RULES, *parse_rules(dict.fromkeys(rules, "allow")))) == "allow"


def test_no_rules_are_missing_for_a_denial() -> None:
    """No rules are suggested for what stays denied."""
    assert missing_rules(ActionRequest("write", "a"), PLAN_RULES) == ()
