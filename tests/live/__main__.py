"""Live checks: where a provider's API differs from what infold assumes.

Asks a provider a few dozen small questions with your key and compares the
answers with what infold's code and its scripted servers take for granted.
Nothing is changed in your account. Requests that are refused for their size
are not billed; the rest costs about a cent.
"""

import argparse
import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import Assumed, cost_of, lookup
from infold.core.messages import Usage

from . import anthropic_checks, gemini_checks, openai_checks
from .api import Api, CannotTell, Check, Finding, KeyRefused, Provider, Verdict

CHECKS: Mapping[str, tuple[Provider, Callable[[Api], tuple[Check, ...]]]] = {
    "anthropic": (anthropic_checks.PROVIDER, lambda api: anthropic_checks.AnthropicChecks(api).checks()),
    "openai": (openai_checks.PROVIDER, lambda api: openai_checks.OpenAIChecks(api).checks()),
    "gemini": (gemini_checks.PROVIDER, lambda api: gemini_checks.GeminiChecks(api).checks()),
}
COLUMNS = 80
MARKS: Mapping[Verdict, str] = {"same": "same", "different": "DIFFERENT", "could not tell": "could not tell"}
SAME, DIFFERS, NOT_RUN, INTERRUPTED = 0, 1, 2, 130

EPILOG = """\
examples:
  make live                              every provider that has a key
  make live PROVIDER=openai MODEL=gpt-5.6-luna
  python -m tests.live --list            the checks, without a call
  python -m tests.live --only thinking   checks whose name begins so
  python -m tests.live --yes --json live.json

keys, from the environment:
  ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY (or GOOGLE_API_KEY)

exit status: 0 nothing differs, 1 something differs, 2 nothing could be
checked. What was refused is in the folder of results, without your key: please
attach it to a report if something differs.
"""


class Result(Struct, frozen=True):
    """One check with what it found; `saved` are the names of the refusals on the way."""

    provider: str
    model: str
    name: str
    assumes: str
    where: str
    verdict: Verdict
    found: str
    calls: int
    saved: tuple[str, ...]


class Stop(Exception):
    """The checks cannot be run; the text says what to do."""


class Task(Struct, frozen=True):
    """The checks to run against one provider, with the key that they need."""

    api: Api
    checks: tuple[Check, ...]


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run the checks that the arguments name; return the exit status."""
    options = _parser().parse_args(arguments)
    results: list[Result] = []
    tasks: list[Task] = []
    try:
        providers = _providers(options, environ)
        if options.list:
            _print_list(providers, options)
            return SAME
        tasks = [_task(provider, key, options) for provider, key in providers.items()]
        _confirm(tasks, is_sure=options.yes)
        _require_writable(options)
        refused = [refusal for task in tasks if (refusal := _run(task, results))]
        status = _status(results, is_refused=bool(refused))
    except Stop as reason:
        print(reason, file=sys.stderr)
        return NOT_RUN
    except KeyboardInterrupt:
        print("\ninterrupted; what was found so far:", file=sys.stderr)
        status = INTERRUPTED
    finally:
        for task in tasks:
            task.api.__exit__()
    _summarise(tasks, results, options)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.live",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--provider", choices=CHECKS, help="ask only this one; by default all that have a key")
    parser.add_argument("--model", help="the model to ask (needs --provider if you have several keys)")
    parser.add_argument("--overflow-model", help="a model with a small window, for requests that are too large")
    parser.add_argument(
        "--window", type=_positive, metavar="TOKENS", help="that model's window, if not the catalogue's"
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="checks whose name begins so")
    parser.add_argument("--large", action="store_true", help="also the checks that fill a window ($0.20 and more)")
    parser.add_argument("--list", action="store_true", help="print the checks and what they cost; ask nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask before the first call")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings to a file as well")
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("live-results"),
        metavar="FOLDER",
        help="where refusals are saved; by default live-results",
    )
    parser.add_argument(
        "--timeout", type=_positive, default=120, metavar="SECONDS", help="for one call; by default 120"
    )
    parser.add_argument("--base-url", type=_address, metavar="URL", help="another address of the same API")
    return parser


def _positive(text: str) -> int:
    value = int(text.replace("_", ""))
    if value <= 0:
        raise ValueError
    return value


def _address(text: str) -> str:
    """Return an address that may be sent a key: encrypted, or on this machine."""
    parts = urlsplit(text)
    is_here = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_here):
        raise argparse.ArgumentTypeError("the key is sent there: use https, or http on this machine")
    return text


# What to run.


def _providers(options: argparse.Namespace, environ: Mapping[str, str]) -> dict[Provider, str]:
    """Return the providers to ask, each with its key; raise `Stop` where a key or a choice is missing."""
    chosen = [provider for name, (provider, _) in CHECKS.items() if options.provider in (None, name)]
    keys = {provider: _key(provider, environ) for provider in chosen}
    if options.list:
        return keys
    with_key = {provider: key for provider, key in keys.items() if key}
    if not with_key:
        names = "\n".join(f"  {' or '.join(provider.keys):36} {provider.name}" for provider in chosen)
        raise Stop(f"No key found. Set one of these variables, then run it again:\n{names}")
    if len(with_key) > 1 and (options.model or options.overflow_model or options.base_url):
        names = ", ".join(provider.name for provider in with_key)
        raise Stop(f"A model or an address belongs to one provider: add --provider ({names}).")
    return with_key


def _key(provider: Provider, environ: Mapping[str, str]) -> str:
    for name in provider.keys:
        key = environ.get(name, "").strip()
        if key and (not key.isascii() or not key.isprintable() or " " in key):
            raise Stop(f"{name} holds characters that no key has; set it again.")
        if key:
            return key
    return ""


def _require_writable(options: argparse.Namespace) -> None:
    """Raise `Stop` before the first call if what will be found could not be written."""
    try:
        options.results.mkdir(parents=True, exist_ok=True)
        if options.json is not None:
            options.json.touch()
    except OSError as error:
        raise Stop(f"The results cannot be written: {error}") from error


def _task(provider: Provider, key: str, options: argparse.Namespace) -> Task:
    asked = replace(
        provider,
        model=(options.model or provider.model).removeprefix("models/"),
        overflow_model=options.overflow_model or provider.overflow_model,
        base_url=options.base_url or provider.base_url,
    )
    api = Api(asked, key, folder=options.results, timeout_seconds=options.timeout, window_tokens=options.window)
    every = CHECKS[provider.name][1](api)
    wanted = [check for check in every if _is_wanted(check, options)]
    if not wanted:
        raise Stop(f"No check of {provider.name} begins with {' or '.join(options.only)}; --list has their names.")
    return Task(api, tuple(wanted))


def _is_wanted(check: Check, options: argparse.Namespace) -> bool:
    is_named = not options.only or any(check.name.startswith(name) for name in options.only)
    return is_named and (options.large or not check.is_large)


def _confirm(tasks: Sequence[Task], *, is_sure: bool) -> None:
    """Print what the checks need; ask whether to go on. Raise `Stop` if not."""
    for task in tasks:
        for line in _needs(task):
            _print(line)
        if isinstance(lookup(task.api.model), Assumed):
            _print(f"The catalogue does not know {task.api.model}: neither its price nor its window.")
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise Stop("Nothing was asked: add --yes to go on without a question.")
    try:
        answer = input("Go on? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise Stop("Nothing was asked.")


def _needs(task: Task) -> list[str]:
    api, checks = task.api, task.checks
    calls = sum(check.calls for check in checks)
    billed = [check for check in checks if not check.is_refused]
    tokens = sum(check.input_tokens + check.output_tokens for check in billed)
    models = {check: api.overflow_model if check.is_large else api.model for check in billed}
    cost = sum(cost_of(model, Usage(check.input_tokens, check.output_tokens)) for check, model in models.items())
    lines = [
        f"{api.provider.name}, {api.model}: {len(checks)} checks, about {calls} calls, {tokens:,} tokens, ${cost:.3f}."
    ]
    refused = sum(check.is_refused for check in checks)
    if refused:
        size = api.window_tokens * 5 // 4
        most = refused * cost_of(api.overflow_model, Usage(size))
        lines.append(
            f"Of these, {refused} with {size:,} tokens to {api.overflow_model}, expected to be refused and not billed; "
            f"${most:.2f} if accepted all the same."
        )
    return lines


# Run and report.


def _run(task: Task, results: list[Result]) -> str:
    """Run the checks and append what they found; return why the key was refused, empty if it was not."""
    api = task.api
    print(f"\n{api.provider.name}, {api.model}\n")
    for number, check in enumerate(task.checks, 1):
        api.check = check.name
        calls, saved = api.calls, len(api.saved)
        try:
            finding = check.run()
        except CannotTell as reason:
            finding = Finding("could not tell", str(reason))
        except KeyRefused as refusal:
            print(f"The key in {' or '.join(api.provider.keys)} is not accepted: {refusal}", file=sys.stderr)
            return str(refusal)
        result = Result(
            api.provider.name,
            api.model,
            check.name,
            check.assumes,
            check.where,
            finding.verdict,
            api.redact(finding.found),
            api.calls - calls,
            tuple(api.saved[saved:]),
        )
        results.append(result)
        _print_result(result, f"{number}/{len(task.checks)}")
    return ""


def _print_result(result: Result, place: str) -> None:
    print(f"{MARKS[result.verdict]:15} {result.name} ({place})")
    _print(f"assumes  {result.assumes} [{result.where}]", indent="  ", hanging=" " * 11)
    _print(f"found    {result.found}", indent="  ", hanging=" " * 11)
    if result.verdict != "same":
        for name in result.saved:
            print(f"  saved    {name}")
    sys.stdout.flush()


def _summarise(tasks: Sequence[Task], results: Sequence[Result], options: argparse.Namespace) -> None:
    print()
    for task in tasks:
        api = task.api
        used = api.usage.prompt + api.usage.output + api.usage.reasoning
        _print(f"{api.provider.name}, {api.model}: {api.calls} calls, {used:,} tokens, ${api.cost:.3f}.")
        verdicts = [result.verdict for result in results if result.provider == api.provider.name]
        _print(", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in MARKS) + ".")
    differing = [result for result in results if result.verdict == "different"]
    if differing:
        names = "; ".join(f"{result.provider}: {result.name}" for result in differing)
        _print(f"Different: {names}. Please report it, with the files in {options.results}/ that are named above.")
    if options.json is not None:
        _write_json(options.json, tasks, results)


def _write_json(path: Path, tasks: Sequence[Task], results: Sequence[Result]) -> None:
    totals = [
        {
            "provider": task.api.provider.name,
            "model": task.api.model,
            "overflow_model": task.api.overflow_model,
            "calls": task.api.calls,
            "usage": task.api.usage,
            "cost_usd": round(task.api.cost, 6),
        }
        for task in tasks
    ]
    report = {"infold": version("infold"), "totals": totals, "checks": results}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def _status(results: Sequence[Result], *, is_refused: bool) -> int:
    verdicts = {result.verdict for result in results}
    if "different" in verdicts:
        return DIFFERS
    return SAME if "same" in verdicts and not is_refused else NOT_RUN


def _print_list(providers: Mapping[Provider, str], options: argparse.Namespace) -> None:
    for provider in providers:
        task = _task(provider, "not-a-key", options)
        for line in _needs(task):
            _print(line)
        print()
        for check in task.checks:
            print(f"{check.name} ({check.calls} call{'s' if check.calls > 1 else ''})")
            _print(f"{check.assumes} [{check.where}]", indent="    ", hanging="    ")
        print()
        task.api.__exit__()


def _print(text: str, *, indent: str = "", hanging: str = "") -> None:
    print(textwrap.fill(text, COLUMNS, initial_indent=indent, subsequent_indent=hanging, break_on_hyphens=False))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # as with `| head`; the interpreter would report it again when it closes the stream
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
