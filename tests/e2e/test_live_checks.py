"""The checks for a real provider, against scripted servers: those that keep to the rules, and those that do not."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.live.__main__ import CHECKS, main
from tests.live.api import Api
from tests.support.provider_rules import problems

from infold.core.messages import Usage
from infold.formats.codec import dicts_in
from infold.formats.registry import OPENAI_RESPONSES
from infold.testing import (
    AnthropicRules,
    Fail,
    Hang,
    Say,
    Script,
    ScriptedAnswer,
    ScriptedRequest,
    ScriptedServer,
    Send,
)

Found: TypeAlias = dict[str, Any]

PROJECT = Path(__file__).parents[2]
WINDOW = 20_000
KEY = "sk-test-0123456789"
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "gemini": "GOOGLE_API_KEY"}
LOOK_UP = Say(calls=(("stock", {"article": 113}),), reasoning="101, 103, 107, 109, 113: the fifth.")
Run: TypeAlias = Callable[..., tuple[int, dict[str, Found]]]


# Servers that keep to the rules.


def think(request: ScriptedRequest) -> Say:
    """Think before each answer, look up the stock if asked to, and cache a long system prompt."""
    long = sum(len(str(block)) for block in dicts_in(request.body.get("system"))) > 5_000
    if long:
        is_first = "one" in str(request.body["messages"])
        usage = Usage(10, 5, cache_write=4_000) if is_first else Usage(10, 5, cache_read=4_000)
        return Say("Ready.", usage=usage)
    is_question = "with the tool" in str(request.body["messages"][-1]["content"])
    return LOOK_UP if is_question else Say("Ready.", reasoning="Let me think.")


def obey_anthropic(rules: AnthropicRules, request: ScriptedRequest) -> ScriptedAnswer:
    """Answer as the rules say, refuse unknown fields, and report the cache of an hour."""
    if "infold_live_check" in request.body:
        return refuse("infold_live_check: Extra inputs are not permitted")
    answer = rules(request)
    if isinstance(answer, Send) and "'1h'" in str(request.body.get("system")):
        answer.body["usage"]["cache_creation"] = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 4_000}
    return answer


class OpenAIRules:
    """Refuse what OpenAI documents as refused; read a repeated prompt from the cache."""

    def __init__(self) -> None:
        self._prompts: set[str] = set()

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        body = request.body
        if "infold_live_check" in body:
            return refuse("Unknown parameter: 'infold_live_check'.")
        items = dicts_in(body.get("input"))
        if request.format == OPENAI_RESPONSES.name and (found := problems(OPENAI_RESPONSES, items)):
            return refuse(found[0])
        if any(item.get("type") == "reasoning" and item["encrypted_content"] != "c2VhbGVk" for item in items):
            return refuse("The encrypted content gAAA... could not be verified.")
        return self._answer(request, items)

    def _answer(self, request: ScriptedRequest, items: list[Found]) -> Say:
        body = request.body
        if request.path.endswith("/compact"):
            return Say("The stock of article 113 is looked up.")
        if body.get("max_output_tokens") == 16:
            return Say("One, two", finish="length")
        prompt = str(body.get("instructions") or "")
        is_cached = prompt in self._prompts
        self._prompts.add(prompt or "-")
        if is_cached:
            return Say("Ready.", usage=Usage(10, 5, cache_read=4_000))
        return LOOK_UP if items and "with the tool" in str(items[-1].get("content")) else Say("Ready.")


def obey_gemini(request: ScriptedRequest) -> ScriptedAnswer:
    """Refuse a call of the turn under way that has no signature."""
    if "infoldLiveCheck" in request.body:
        return refuse('Invalid JSON payload received. Unknown name "infoldLiveCheck": Cannot find field.')
    contents = request.body["contents"]
    asked = max(n for n, content in enumerate(contents) if "text" in content["parts"][0] and content["role"] == "user")
    parts = [part for content in contents[asked:] for part in content["parts"] if "functionCall" in part]
    if any("thoughtSignature" not in part for part in parts):
        return refuse("Function call is missing a thought_signature in functionCall parts.")
    if request.body.get("generationConfig"):
        return Say("One, two", finish="length")
    return LOOK_UP if "with the tool" in str(contents[-1]) else Say("Ready.")


def refuse(words: str) -> Fail:
    return Fail(400, {"type": "error", "error": {"type": "invalid_request_error", "message": words}})


def rule_keeper(provider: str, **options: Any) -> Script:
    """A script that keeps to the documented rules of a provider."""
    if provider == "anthropic":
        return partial(obey_anthropic, AnthropicRules(think, **options))
    return OpenAIRules() if provider == "openai" else obey_gemini


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the checks against a script; return the exit status and the findings by name."""

    def run_checks(
        provider: str, script: Script, *options: str, window: int | None = WINDOW
    ) -> tuple[int, dict[str, Found]]:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        with ScriptedServer(script, window_tokens=window) as server:
            given = ["--provider", provider, "--base-url", server.url, "--window", str(WINDOW), "--yes"]
            given += ["--results", str(tmp_path / "refusals"), "--json", str(report), "--timeout", "20", *options]
            status = main(given, {KEYS[provider]: KEY})
        checks = json.loads(report.read_bytes())["checks"] if report.exists() else []
        return status, {check["name"]: check for check in checks}

    return run_checks


def names(found: dict[str, Found], verdict: str) -> list[str]:
    return [name for name, check in found.items() if check["verdict"] == verdict]


# Findings.


@pytest.mark.slow
@pytest.mark.parametrize("provider", CHECKS)
def test_a_server_that_keeps_to_the_rules_is_the_same(provider: str, run: Run) -> None:
    """Against a scripted server with the documented rules every check finds what infold assumes."""
    status, found = run(provider, rule_keeper(provider))

    assert {name: check["found"] for name, check in found.items() if check["verdict"] != "same"} == {}
    assert status == 0
    assert len(found) >= 14


@pytest.mark.slow
@pytest.mark.parametrize("provider", CHECKS)
def test_a_server_that_knows_too_little_is_not_different(provider: str, run: Run) -> None:
    """Where a server never thinks, calls or caches, the checks that need it say that they could not tell."""
    status, found = run(provider, lambda _: Say("Ready."))

    assert names(found, "different") == []
    assert {"usage", "stream", "overflow"} <= {*names(found, "same")}
    assert {"unknown field"} <= {*names(found, "could not tell")}
    assert status == 0


@pytest.mark.slow
def test_the_strict_reading_is_a_difference(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """An API that forbids to remove thinking in an open tool loop differs in that one point, and the status is 1."""
    status, found = run("anthropic", rule_keeper("anthropic", is_strict=True))

    assert names(found, "different") == ["thinking, all removed in a tool loop"]
    assert "strict reading holds; infold recovers" in found["thinking, all removed in a tool loop"]["found"]
    assert status == 1
    assert "DIFFERENT       thinking, all removed in a tool loop" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_that_does_not_bind_is_a_difference(run: Run) -> None:
    """An API that accepts thinking behind a changed prefix differs from the catalogue."""
    _, found = run("anthropic", rule_keeper("anthropic", binds=False), "--only", "thinking", "--only", "compaction")

    assert {"thinking, changed prefix", "thinking, changed system"} <= {*names(found, "different")}
    assert "this account is not checked" in found["thinking, changed prefix, no control"]["found"]


@pytest.mark.slow
def test_an_older_account_is_no_difference(run: Run) -> None:
    """An account that is checked on demand only is said to be one; nothing differs."""
    status, found = run("anthropic", rule_keeper("anthropic", is_enforced=False))

    assert names(found, "different") == []
    assert status == 0
    assert found["thinking, changed prefix, no control"]["verdict"] == "could not tell"


def forget_rules(request: ScriptedRequest) -> ScriptedAnswer:
    """Reason and call the tool, but check nothing."""
    items = request.body.get("input") or request.body.get("contents") or [""]
    return LOOK_UP if "with the tool" in str(items[-1]) else Say("Ready.")


@pytest.mark.parametrize(
    ("provider", "expected"),
    [("openai", ["reasoning, alone", "reasoning, unreadable"]), ("gemini", ["signature, missing"])],
)
def test_a_server_without_a_rule_is_a_difference(provider: str, expected: list[str], run: Run) -> None:
    """A request that infold believes to be refused, and that is accepted, is a difference."""
    status, found = run(provider, forget_rules, "--only", "reasoning", "--only", "signature")

    assert names(found, "different") == expected
    assert status == 1


@pytest.mark.parametrize("provider", CHECKS)
def test_other_words_for_an_overflow_are_a_difference(provider: str, run: Run) -> None:
    """A refusal for size that infold does not recognise is reported with its words, and saved."""
    status, found = run(provider, lambda _: refuse("That is rather a lot of text."), "--only", "overflow", window=None)

    assert {check["verdict"] for check in found.values()} == {"different"}
    assert all("rather a lot" in check["found"] and check["saved"] for check in found.values())
    assert status == 1


def test_another_window_is_a_difference(run: Run) -> None:
    """A limit that is not the catalogue's is reported, though the refusal is recognised."""
    status, found = run("gemini", lambda _: Say(), "--only", "overflow", window=WINDOW - 1)

    assert status == 1
    assert "limit 19,999" in found["overflow"]["found"]


def test_a_refusal_for_another_reason_proves_nothing(run: Run) -> None:
    """A request that is refused because the account has no money is not taken for the refusal that was expected."""
    broke = refuse("Your credit balance is too low to access the API.")
    _, found = run("anthropic", lambda _: broke, window=None)

    assert {name for name in names(found, "same") if not name.startswith("count")} == set()
    assert names(found, "different") == []


# Secrets.


def test_the_key_is_nowhere(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that a provider repeats, whole or masked, and an account's name are neither printed nor saved."""
    words = f"No: {KEY}, sk-te******6789, organisation org-AbCdEf123456.\x1b[2J"
    run("openai", lambda _: refuse(words), "--only", "usage")

    printed = capsys.readouterr()
    texts = [path.read_text() for path in tmp_path.rglob("*.json")]
    assert len(texts) == 3
    for text in (*texts, printed.out, printed.err):
        assert not re.search(r"sk-te|org-Ab", text)
    assert "[removed]" in printed.out
    assert "\x1b" not in printed.out


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_ends_the_run(status: int, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that is not accepted is named by its variable, after one call; the status is 2."""
    ended, found = run("openai", lambda _: Fail(status, {"error": {"message": f"Incorrect API key provided: {KEY}"}}))

    error = capsys.readouterr().err
    assert (ended, found) == (2, {})
    assert "OPENAI_API_KEY is not accepted" in error
    assert KEY not in error


@pytest.mark.parametrize(("name", "key"), [("ANTHROPIC_API_KEY", "kéy"), ("GEMINI_API_KEY", "a\nb")])
def test_a_key_that_cannot_be_sent_is_not_printed(name: str, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A variable with characters that no header may have is named; its value is not shown."""
    assert main(["--yes"], {name: key}) == 2
    assert capsys.readouterr().err == f"{name} holds characters that no key has; set it again.\n"


def test_a_key_is_sent_encrypted_only(capsys: pytest.CaptureFixture[str]) -> None:
    """An address without encryption on another machine is refused."""
    with pytest.raises(SystemExit) as ended:
        main(["--base-url", "http://example.com"], {})
    assert ended.value.code == 2
    assert "use https" in capsys.readouterr().err


# Trouble.


def test_a_rate_limit_is_waited_for(run: Run) -> None:
    """A request that came too early is sent again; one that stays refused is reported, and the next check runs."""
    answers: Iterator[ScriptedAnswer] = iter([Fail(429, headers={"retry-after": "0"}), Say("Ready.")])
    limited = Fail(429, {"error": {"message": "Rate limit reached"}}, headers={"retry-after": "0.01"})
    status, found = run("openai", lambda _: next(answers, limited), "--only", "usage", "--only", "stream")

    assert [check["verdict"] for check in found.values()] == ["same", "could not tell", "could not tell"]
    assert "Rate limit reached" in found["stream"]["found"]
    assert status == 0


def test_a_silent_server_is_reported(run: Run) -> None:
    """A call without an answer ends after the time limit."""
    status, found = run("anthropic", lambda _: Hang(30), "--only", "usage", "--timeout", "1")

    assert "time limit" in found["usage"]["found"]
    assert status == 2


@pytest.mark.slow
@pytest.mark.parametrize("provider", CHECKS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[1]",
        b"null",
        b'{"content": 3, "output": [1, {"type": 2}], "candidates": {"content": null}, "usage": []}',
        b'{"content": [{"type": "thinking"}, 4], "output": {"a": 1}, "candidates": [{"content": {"parts": [{}, 5]}}]}',
        b'{"content": [{"type": "tool_use"}], "output": [{"type": "reasoning", "encrypted_content": 5}], "usageMetadata": 3}',
    ],
)
def test_odd_answers_are_findings(provider: str, body: bytes, run: Run) -> None:
    """Whatever is answered, each check ends with a verdict."""
    odd = Fail(200, body)
    _, found = run(provider, lambda _: odd)

    assert len(found) >= 14


# The command.


def test_without_a_key_it_says_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a key the variables are named, and the status is 2."""
    assert main([], {}) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in (*KEYS.values(), "GEMINI_API_KEY"))


def test_nothing_is_asked_without_consent(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal and without --yes only the estimate is printed."""
    assert main(["--provider", "openai"], {KEYS["openai"]: KEY}) == 2
    printed = capsys.readouterr()
    assert "calls" in printed.out
    assert "add --yes" in printed.err


def test_results_that_cannot_be_written_are_noticed_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A place for the results that cannot be written to is refused before the first call."""
    given = ["--yes", "--results", str(tmp_path), "--json", str(tmp_path / "missing" / "report.json")]

    assert main(given, {KEYS["openai"]: KEY}) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_model_needs_a_provider(capsys: pytest.CaptureFixture[str]) -> None:
    """With several keys a model's name does not say whom to ask."""
    assert main(["--model", "m"], {KEYS["openai"]: KEY, KEYS["anthropic"]: KEY}) == 2
    assert "--provider (anthropic, openai)" in capsys.readouterr().err


def test_an_unknown_name_of_a_check_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that no check begins with is answered with where the names are."""
    assert main(["--only", "nothing", "--yes"], {KEYS["openai"]: KEY}) == 2
    assert "--list has their names" in capsys.readouterr().err


def test_the_list_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The list needs no key; neither it nor the help is wider than 80 columns."""
    assert main(["--list", "--large"], {}) == 0
    with pytest.raises(SystemExit):
        main(["--help"], {})
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert "window (2 calls)" in lines


@pytest.mark.slow
def test_output_fits_a_terminal(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """No line of a run is wider than 80 columns, and totals stand at the end."""
    run("anthropic", rule_keeper("anthropic", is_strict=True))

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert any(
        re.fullmatch(r"anthropic, claude-haiku-5-5: \d+ calls, [\d,]+ tokens, \$0\.\d+\.", line) for line in lines
    )


@pytest.mark.slow
def test_a_reply_may_end_at_the_window(run: Run) -> None:
    """Both ways to meet the end of a window are known: a refusal that is recognised, and the stop reason."""
    words = "input length and `max_tokens` exceed context limit: 19500 + 8000 > 20000, decrease input length or `max_tokens`"
    _, refused = run("anthropic", lambda _: refuse(words), "--large", "--only", "window")
    ended = Send({"content": [], "stop_reason": "model_context_window_exceeded", "usage": {}})
    _, stopped = run("anthropic", lambda _: ended, "--large", "--only", "window")

    assert refused["window"]["verdict"] == stopped["window"]["verdict"] == "same"
    assert "model_context_window_exceeded" in stopped["window"]["found"]


@pytest.mark.parametrize("provider", CHECKS)
def test_assumptions_name_their_place(provider: str, tmp_path: Path) -> None:
    """Each check has a name of its own, and says where in the code or the docs its assumption stands."""
    asked, make = CHECKS[provider]
    with Api(asked, KEY, folder=tmp_path, timeout_seconds=1) as api:
        checks = make(api)

    assert len({check.name for check in checks}) == len(checks)
    for check in checks:
        assert (PROJECT / check.where).is_file() if "/" in check.where else _resolve(check.where)


def _resolve(name: str) -> object:
    """The module, or the name in a module, that a dotted name stands for."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(import_module(module), attribute) or True
