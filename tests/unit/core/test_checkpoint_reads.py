"""How a checkpoint reads to the model that goes on with the work."""

import json

import pytest

from infold.core.budget import Window, budget_for
from infold.core.checkpoint_text import LATEST, RULES
from infold.core.compact import checkpoint_for
from infold.core.cut import Cut
from infold.core.gauge import PlanInputs
from infold.core.ledger import is_lookup
from infold.core.messages import Message
from infold.core.plan import Fold
from infold.core.policy import INFOLD
from infold.testing.builders import calls, replies, result, session, user


def bash(command: str, output: str) -> tuple[Message, ...]:
    """A command and its output."""
    return calls("bash", arguments=json.dumps({"command": command})), result(output=output)


def folded(*messages: Message, kept: int = 1, budget: int = 3_000) -> str:
    """The text of a checkpoint over all messages but the newest."""
    log = session(*messages, replies("done") if kept == 1 else messages[-1])
    step = Fold(Cut.at(log, len(log.live) - kept), budget, "trigger")
    checkpoint, _ = checkpoint_for(log, step, PlanInputs(INFOLD, budget_for(Window(64_000), INFOLD)))
    return checkpoint.text


def block(text: str, heading: str) -> str:
    """What stands under a heading; empty if there is none."""
    return next((one for one in text.split("\n\n") if one.startswith(heading)), "")


def test_the_latest_request_is_the_newest_of_a_person() -> None:
    """B38: no folded request is called the latest if a person has asked for something since."""
    work = (user("Build the quay."), replies("done"), user("Paint the crane."), replies("done"))

    assert block(folded(*work), LATEST) == f"{LATEST}\n- Paint the crane."
    assert LATEST not in folded(*work, user("Now the lamp."), kept=2)
    assert LATEST in folded(*work, user("<note>", synthetic=True), kept=2)


def test_commands_say_how_they_ended() -> None:
    """B38: a command that changed or checked something stands with its outcome; what only looked something up does not."""
    text = folded(
        user("Build it."),
        *bash("ls -la docs", "a\nb"),
        *bash("rg quay src | head -5", "no more than words here"),
        *bash("make build", "built"),
        *bash("bun test", "bun test v1\n 12 pass\n 3 fail\nRan 15 tests"),
        *bash("npx mocha", "  8 passing (20ms)\n  1 pending"),
    )

    commands = block(text, "Checks run")
    assert "`make build` → ok" in commands
    assert "12 pass" in commands
    assert "3 fail" in commands
    assert "8 passing" in commands
    assert "ls -la" not in text
    assert "rg quay" not in text


def test_open_errors_stand_apart_from_settled_ones() -> None:
    """B38: an error that was settled later is not listed as open; one of a command that only looks something up is not listed."""
    text = folded(
        user("Build it."),
        *bash("make", "fatal: no rule\nexit code: 2"),
        *bash("make", "all built\nexit code: 0"),
        *bash("cat missing.txt", "cat: missing.txt: No such file\nexit code: 1"),
        *bash("make lint", "error: unused name\nexit code: 1"),
    )

    assert "error: unused name" in block(text, "Errors not seen to be settled")
    assert block(text, "Failed at first and succeeded since").endswith("\n- make: fatal: no rule")
    assert "No such file" not in text


def test_a_dialogue_keeps_values_of_its_results() -> None:
    """B53: a session without files keeps what its tools returned, each with its call."""
    call = calls("find_booking", arguments=json.dumps({"customer": "ada_9213"}))
    answer = result(output=json.dumps({"booking": "HAT-4471X", "fare": 1287.35, "berth": "upper_deck"}, indent=1))
    text = folded(user("When does my ferry leave?"), call, answer, replies("At noon. I decided on berth 12."))

    assert '"booking": "HAT-4471X"' in text
    assert '"fare": 1287.35' in text
    assert "I decided on berth 12." in block(text, "Decisions")
    assert "find_booking" in text


def test_no_sentence_of_the_user_stands_twice() -> None:
    """B38: what stands under one heading is left out under the others."""
    text = folded(
        user("Build the quay. Never paint it red."),
        replies("done"),
        user("The crane is next. Always oil it first."),
        replies("done"),
        user("Now the lamp."),
        replies("done"),
    )

    assert text.count("Never paint it red.") == 1
    assert text.count("Always oil it first.") == 1
    assert "The crane is next." in text
    assert block(text, RULES).endswith("Always oil it first.")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("Stay out of the billing module.", "You can go into the billing module after all."),
        ("Summaries are three lines long.", "Summaries may be as long as you like from now on."),
        ("Please don't run the full suite.", "Go ahead and run the full suite whenever you want."),
        ("Lass das Abrechnungsmodul in Ruhe.", "Das Abrechnungsmodul darfst du jetzt doch bearbeiten."),
        ("Die Schnittstelle bleibt auf Version 2.", "Die Schnittstelle kann jetzt auf Version 3 gehen."),
        ("Laisse le module de facturation tranquille.", "Finalement tu peux modifier le module de facturation."),
        ("Demande-moi avant d'installer quoi que ce soit.", "Inutile de me demander avant d'installer, vas-y."),
        ("摘要写三行。", "摘要以后不限三行，写长一点也行。"),
        ("請求モジュールはそのままにしてください。", "請求モジュールはもう変更して構いません。"),
        ("コミットに絵文字を使わないで。", "コミットの絵文字は使っていいです。"),
        ("요약은 세 줄입니다.", "요약은 세 줄보다 길어도 됩니다."),
        ("설치하기 전에 물어보세요.", "설치하기 전에 안 물어봐도 돼요."),
    ],
)
def test_later_words_stand_behind_the_rule(rule: str, words: str) -> None:
    """B48: words that take a rule back stand behind it; nothing says that the rule is void."""
    text = folded(
        user(f"Begin. {rule}"), replies("done"), user(words), replies("done"), user("Go on."), replies("done")
    )

    assert f'{rule} (later: "{words}")' in text
    assert text.count(rule) == 1


def test_the_last_outcome_of_a_check_stands_once() -> None:
    """B53: what shows only a part of the output does not make another check of it."""
    text = folded(
        user("Test it."),
        *bash("pytest -q 2>&1 | tail -5", "2 failed"),
        *bash("pytest -q", "1 failed"),
        *bash("pytest -q | grep 'a | b'", "3 passed"),
        *bash("pytest 'a | tail'", "4 passed"),
    )

    assert block(text, "Checks run").splitlines()[1:] == [
        "- `pytest 'a | tail'` → 4 passed",
        "- `pytest -q | grep 'a | b'` → 3 passed",
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd /srv && git status", True),
        ("cat a.txt | grep 'x > y' | wc -l", True),
        ("ls 2>/dev/null", True),
        ("cat a.txt > b.txt", False),
        ("find . -name '*.pyc' -delete", False),
        ("git status && make", False),
        ("make --help | head", True),
        ("LANG=C ls", True),
        ("find src -name '*.py' | xargs -0 grep -l feed", True),
        ("find src -name '*.pyc' | xargs rm", False),
        ("for f in a b; do cat $f; done", True),
        ("if true; then make; fi", False),
    ],
)
def test_a_lookup_changes_and_checks_nothing(command: str, expected: bool) -> None:
    """B38: a command line is a lookup if all of its commands are, and nothing is written."""
    assert is_lookup(command) is expected
