"""How full is the window, by the provider's own count, when a session is compacted for the first time?

    python benchmarks/window_fill.py [--write]

A client grows a coding session step by step, by each way into infold, against a provider that counts 0.85, 1 or 1.25 times what
infold expects of the model's family, or by cl100k, an independent tokenizer; with reported usage and without. The provider
refuses a request that leaves no room for the reply it asks for (15 % of the window), so that 100 % is the usable window. The
session goes on until it was compacted twice, and every refusal is counted. The first table is by the window alone
(`priced="never"`), the second by default: folds for their price where the catalogue has one. Its server is on loopback, where
`auto` means never; so the models with a price are played with `always`, which is what `auto` is at a paid address.
"""

import argparse
import json
import random
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from dataclasses import replace as replace_case
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from msgspec.structs import replace
from openai import OpenAI
from splintr import Tokenizer

from infold import Session, SessionSettings, fit, open_store, wrap
from infold.agent.run import RunOptions, UserInterface, open_run
from infold.catalogue import lookup
from infold.core.budget import Window, budget_for
from infold.core.events import Clipped, Compacted, Event, Pruned
from infold.core.messages import Message, ModelRef, SessionId, Usage
from infold.core.policy import INFOLD, Policy, PriceUse, Ruler
from infold.core.summary_request import COMPACTION_AGENT
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, measure, measure_message
from infold.errors import WindowExceeded
from infold.formats.registry import OPENAI_CHAT
from infold.gateway.app import Gateway, application
from infold.gateway.event_hub import EventHub
from infold.gateway.tenants import Tenants, TenantSessions
from infold.gateway.upstream import PROVIDERS, Upstreams
from infold.ports import SessionKey
from infold.session.counting import counting_for
from infold.settings import read_settings
from infold.testing import wire_replies
from infold.testing.script import Fail, Say, ScriptedAnswer, ScriptedRequest, WireReply
from infold.testing.scripted_model import ScriptedModel
from infold.testing.scripted_server import ScriptedServer
from infold.wiring import system_clock

RESULTS = Path(__file__).parent / "results"
WINDOW = 32_000
MODELS = ("gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro", "grok-4", "my-deployment")
COUNTS = ("0.85", "1", "1.25", "cl100k")
PRICED_COUNTS = ("1", "1.25")
LARGE_MODELS = ("gpt-5", "claude-sonnet-4-5", "my-deployment", "ollama/llama3.1:8b")
MOST_STEPS, MOST_COMPACTIONS = 400, 2
STEP_LINES = 36
"""Lines of a tool result: some 700 tokens, so that about 40 calls fill the window."""

TASK = "Count the ships of every harbour. Never guess a number."
SUMMARY = (
    "The harbours read so far were counted one by one from their files; the next file is to be read, then the sum told."
)
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}]
WORDS = (
    *(
        "Anna",
        "Husum",
        "berth",
        "departs",
        "ferry",
        "crane",
        "44",
        "tide_table",
        "north,",
        "quay;",
    ),
    *(
        "cargo=wheat",
        "arrival",
        "12:15",
        "captain",
        "returns",
        "None",
        "def",
        "load(self,",
        "path):",
    ),
    *(
        "import",
        "json",
        "status:",
        "ok",
        "delayed",
        "container",
        "harbour",
        "pilot",
        "radio",
        "channel_16",
    ),
    *(
        "'Nordsee'",
        "->",
        "list[int]",
    ),
)
KEY = SessionKey("", SessionId("s"))


@dataclass(frozen=True, slots=True)
class Case:
    """One run: whose model, by which way in, how the provider counts, and whether it reports usage."""

    model: str
    entry: str
    count: str
    reports: bool
    priced: PriceUse = "never"
    window: int = WINDOW

    @property
    def output(self) -> int:
        """The reply that is asked for: what infold reserves for it."""
        return self.window - self.usable

    @property
    def usable(self) -> int:
        """What may be filled."""
        return budget_for(Window(self.window), INFOLD).usable_tokens


@dataclass(frozen=True, slots=True)
class Fill:
    """The first compaction: the fill by the provider's count, why, after how many calls; and all refusals of the session."""

    percent: float
    reason: str
    calls: int
    refusals: int
    after_percent: float
    saving: float = 0.0


def main() -> None:
    """Play all cases and print the table."""
    parser = argparse.ArgumentParser(description="measure window fill at the first compaction")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    parser.add_argument("--jobs", type=int, default=2, help="how many cases to play at once")
    options = parser.parse_args()
    cases = [
        Case(model, entry, count, reports)
        for model in MODELS
        for entry in PLAYERS
        for count in COUNTS
        for reports in ((False,) if entry == "fit" else (True, False))
    ]
    cases += [replace_case(case, priced=default_use(case.model)) for case in cases if case.count in PRICED_COUNTS]
    cases += [
        Case(model, "Session recovers", "1", reports=True, priced="auto", window=200_000) for model in LARGE_MODELS
    ]
    with ProcessPoolExecutor(options.jobs) as processes:
        found = list(zip(cases, processes.map(first_fill, cases), strict=True))
    print(table(found))
    if options.write:
        rows = [{**asdict(case), **asdict(fill)} for case, fill in found]
        record = {
            "command": "python benchmarks/window_fill.py --write",
            "window": WINDOW,
            "rows": rows,
        }
        (RESULTS / "window_fill.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / "window_fill.txt").write_text(table(found) + "\n")


def default_use(model: str) -> PriceUse:
    """Return what `auto` is for a model at a paid address: folds for price if it has one."""
    return "always" if lookup(model).entry.prices is not None else "auto"


def first_fill(case: Case) -> Fill:
    """Play a case up to its first compaction."""
    provider = Provider(case)
    PLAYERS[case.entry](case, provider)
    reasons = [event.reason for event in provider.events if isinstance(event, Pruned | Clipped | Compacted)]
    savings = [event.saving for event in provider.events if isinstance(event, Compacted)]
    return Fill(
        round(100 * provider.fill_tokens / case.usable, 1),
        reasons[0] if reasons else "none",
        provider.first_calls,
        len(provider.refused),
        round(100 * provider.after_tokens / case.usable, 1),
        round(sum(savings[:1]), 4),
    )


# The provider.


@dataclass(slots=True)
class Provider:
    """Counts in its own way, refuses what does not fit, and asks for the next file until there were a few compactions."""

    case: Case
    events: list[Event] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    summaries: int = 0
    compactions: int = 0
    fill_tokens: int = 0
    after_tokens: int = 0
    first_calls: int = 0

    @property
    def is_done(self) -> bool:
        """Whether there were enough compactions, or too many calls."""
        return self.compactions >= MOST_COMPACTIONS or len(self.accepted) >= MOST_STEPS

    def answer(self, request: ScriptedRequest) -> ScriptedAnswer:
        """Refuse, or call for the next file."""
        if _is_summary(request):
            self.summaries += 1
            return Say(SUMMARY)
        tokens = self.count(request)
        if tokens > self.case.usable:
            self.refused.append(tokens)
            return Fail(400, _overflow(tokens, self.case))
        if self.accepted and tokens < self.accepted[-1]:
            self._note_compaction(tokens)
        self.accepted.append(tokens)
        if self.is_done:
            return Say("All ships are counted.", usage=self._usage(tokens))
        return Say(calls=(("read", {"path": f"harbour_{len(self.accepted)}.txt"}),), usage=self._usage(tokens))

    def _note_compaction(self, tokens: int) -> None:
        """Note the first one: what was refused before it, or what one more step would have made of the request before."""
        self.compactions += 1
        if self.compactions == 1:
            grown = 2 * self.accepted[-1] - self.accepted[-2]
            self.fill_tokens = self.refused[0] if self.refused else grown
            self.after_tokens, self.first_calls = tokens, len(self.accepted)

    def count(self, request: ScriptedRequest) -> int:
        """Return the provider's own count of a request."""
        beside = OPENAI_CHAT.tools_text(request.body)
        if self.case.count == "cl100k":
            return _size(request.messages, beside, _cl100k())
        ruler = counting_for(lookup(self.case.model).entry.family).ruler
        return int(_size(request.messages, beside, ruler) * float(self.case.count))

    def _usage(self, tokens: int) -> Usage:
        return Usage(tokens, 40) if self.case.reports else Usage(0, 0)


def _size(messages: Sequence[Message], beside: str, ruler: Ruler) -> int:
    inside = sum(MESSAGE_OVERHEAD_TOKENS + sum(measure_message(message, ruler)) for message in messages)
    return inside + measure(beside, ruler)


@cache
def _cl100k() -> Callable[[str], int]:
    tokenizer = Tokenizer.from_pretrained("cl100k_base")
    return cache(lambda text: len(tokenizer.encode(text)))


def _is_summary(request: ScriptedRequest) -> bool:
    items = request.body["messages"]
    text = json.dumps([items[0], items[-1]])
    return COMPACTION_AGENT.system_text[:60] in text or "Write notes on the conversation so far" in text


def _overflow(tokens: int, case: Case) -> dict[str, Any]:
    words = (
        f"This model's maximum context length is {case.window} tokens. However, you requested {tokens + case.output} tokens "
        f"({tokens} in the messages, {case.output} in the completion). Please reduce the length of the messages or completion."
    )
    return {"error": {"message": words, "type": "invalid_request_error", "code": "context_length_exceeded"}}


def page(number: int) -> str:
    """Return one file's text, the same each time."""
    words = random.Random(number)
    return "\n".join(" ".join(words.choices(WORDS, k=9)) for _ in range(STEP_LINES))


# The ways in.


def _policy(case: Case) -> Policy:
    return replace(INFOLD, priced=case.priced)


def _environ(case: Case) -> dict[str, str]:
    return {"INFOLD_WINDOW": str(case.window), "INFOLD_COMPACTION_PRICED": case.priced}


class Conversation:
    """The client's own list, which grows by a call and its result."""

    def __init__(self) -> None:
        self.items: list[Any] = [{"role": "user", "content": TASK}]

    def take(self, message: dict[str, Any]) -> None:
        """Append a reply and the results of its calls."""
        self.items.append({name: value for name, value in message.items() if value is not None and name != "refusal"})
        for call in message.get("tool_calls") or ():
            text = page(len(self.items))
            self.items.append({"role": "tool", "tool_call_id": call["id"], "content": text})


def _asked(items: list[Any], model: str) -> ScriptedRequest:
    body = {"model": model, "messages": items, "tools": TOOLS}
    return ScriptedRequest("", {}, body, OPENAI_CHAT.name, OPENAI_CHAT.decode(items).messages)


def _replied(answer: ScriptedAnswer, number: int, model: str) -> dict[str, Any]:
    assert isinstance(answer, Say)
    return wire_replies.chat_body(WireReply(answer, answer.usage or Usage(0, 0), number, model))


def play_fit(case: Case, provider: Provider) -> None:
    """A stateless caller who sends whatever `fit` gives."""
    talk = Conversation()
    while not provider.is_done:
        fitted = fit(talk.items, model=case.model, window=case.window, tools=TOOLS, policy=_policy(case))
        provider.events += fitted.report.events
        answer = provider.answer(_asked(fitted.messages, case.model))
        if isinstance(answer, Fail):
            provider.fill_tokens = provider.refused[0]
            return
        talk.take(_replied(answer, len(talk.items), case.model)["choices"][0]["message"])


def _play_session(case: Case, provider: Provider, *, recovers: bool) -> None:
    talk = Conversation()
    settings = SessionSettings(
        model=case.model,
        window=case.window,
        policy=_policy(case),
        recovers=recovers,
        summariser=lambda _: SUMMARY,
        on_event=provider.events.append,
    )
    with open_store("memory") as store, Session(store, "s", settings) as session:
        while not provider.is_done:
            ready = session.prepare(talk.items, tools=TOOLS, output_tokens=case.output)
            answer = provider.answer(_asked(ready.messages, case.model))
            if isinstance(answer, Fail):
                smaller = session.recover(answer.body)
                assert smaller is not None
                answer = provider.answer(_asked(smaller.messages, case.model))
            body = _replied(answer, len(talk.items), case.model)
            session.record(body)
            talk.take(body["choices"][0]["message"])


def play_session(case: Case, provider: Provider) -> None:
    """A loop around a session that does not promise to recover."""
    _play_session(case, provider, recovers=False)


def play_recovering(case: Case, provider: Provider) -> None:
    """A loop that passes refusals to `recover`."""
    _play_session(case, provider, recovers=True)


def _play_client(case: Case, provider: Provider, client: OpenAI) -> None:
    """The SDK's own way: with usage in one piece, without it as a stream that nobody asked for usage."""
    talk = Conversation()
    while not provider.is_done:
        asked: dict[str, Any] = {"model": case.model, "messages": talk.items, "tools": TOOLS, "max_tokens": case.output}
        if case.reports:
            talk.take(client.chat.completions.create(**asked).choices[0].message.model_dump(exclude_none=True))
            continue
        text, calls = "", dict[int, dict[str, Any]]()
        for chunk in client.chat.completions.create(stream=True, **asked):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for piece in choice.delta.tool_calls or ():
                    new = {"id": piece.id, "type": "function", "function": {"name": "read", "arguments": ""}}
                    call = calls.setdefault(piece.index, new)
                    call["function"]["arguments"] += (piece.function and piece.function.arguments) or ""
        talk.take(
            {"role": "assistant", "content": text or None, **({"tool_calls": [*calls.values()]} if calls else {})}
        )


def play_wrap(case: Case, provider: Provider) -> None:
    """A wrapped OpenAI client."""
    settings = SessionSettings(window=case.window, policy=_policy(case), on_event=provider.events.append)
    with ScriptedServer(provider.answer) as server:
        client = wrap(OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0), settings)
        _play_client(case, provider, client)
        client.close()


def play_gateway(case: Case, provider: Provider) -> None:
    """The same client through the gateway."""
    with (
        ScriptedServer(provider.answer) as server,
        _gateway(server.url, provider) as url,
        OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client,
    ):
        _play_client(case, provider, client)


@contextmanager
def _gateway(upstream: str, provider: Provider) -> Iterator[str]:
    hub = EventHub()
    hub.bus.subscribe(Event, provider.events.append)
    settings = read_settings(_environ(provider.case), Path(tempfile.gettempdir()))
    with open_store("memory") as store, socket.socket() as listener:
        gateway = Gateway(
            upstreams=Upstreams(dict.fromkeys(PROVIDERS, upstream)),
            tenants=Tenants(b"benchmark"),
            sessions=TenantSessions(store, settings, hub),
            hub=hub,
        )
        config = uvicorn.Config(application(gateway), log_level="error", access_log=False, ws="none")
        server = uvicorn.Server(config)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def play_agent(case: Case, provider: Provider) -> None:
    """The terminal agent, reading real files."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        root.mkdir()
        for number in range(1, MOST_STEPS):
            (root / f"harbour_{number}.txt").write_text(page(number))
        environ = {"HOME": folder, "XDG_CONFIG_HOME": f"{folder}/config", "INFOLD_AGENT_SNAPSHOTS": "0"}
        environ |= {"INFOLD_AGENT_TITLES": "0", **_environ(case)}
        model = ScriptedModel(provider.answer, ref=ModelRef("", case.model))
        place = RunOptions(
            root=root,
            environ=environ,
            clock=system_clock(),
            window=case.window,
            output_tokens=case.output,
            steps=MOST_STEPS,
        )
        person = UserInterface(
            lambda told: provider.events.append(told) if isinstance(told, Event) else None, lambda _: "no"
        )
        with open_store("memory") as store:
            work = open_run(store, KEY, model, options=place, settings=read_settings(environ, root), ui=person)
            try:
                work.run(TASK)
            except WindowExceeded as error:
                sys.exit(f"{case}: {error}")


PLAYERS: dict[str, Callable[[Case, Provider], None]] = {
    "fit": play_fit,
    "Session": play_session,
    "Session recovers": play_recovering,
    "wrap": play_wrap,
    "gateway": play_gateway,
    "agent": play_agent,
}


def table(found: list[tuple[Case, Fill]]) -> str:
    """Lay the fills out, a row for each model and way in; `r`: that request was refused once and recovered."""
    usual = [(case, fill) for case, fill in found if case.window == WINDOW]
    lines = [
        f"First compaction in per cent of the usable window ({found[0][0].usable:,} of {WINDOW:,}), by the provider's own count.",
        "r: refused once and recovered within the request; R: refused, and the caller has to see to it; $: folded for its price.",
        "",
        'By the window alone (priced = "never")',
        *_rows([(case, fill) for case, fill in usual if case.priced == "never"], COUNTS),
        "",
        'By default (priced = "auto"), with the models that have a price at a paid address',
        *_rows([(case, fill) for case, fill in usual if case.priced != "never"], PRICED_COUNTS),
        "",
        "By default, window 200,000 (Session recovers, factor 1, with usage)",
    ]
    for case, fill in found:
        if case.window != WINDOW:
            saving = f", expected saving ${fill.saving}" if fill.saving else ""
            lines.append(f"{case.model:19}{fill.percent:6.0f} %   {fill.reason}, {fill.calls} calls{saving}")
    return "\n".join(lines)


def _rows(found: list[tuple[Case, Fill]], counts: Sequence[str]) -> Iterator[str]:
    width = 8 * len(counts)
    yield f"{'':37}{'with usage':^{width}}{'without usage':^{width}}"
    yield f"{'model':19}{'entry point':18}" + 2 * "".join(f"{name:>8}" for name in counts) + "   reason"
    for model in MODELS:
        for entry in PLAYERS:
            row = [(case, fill) for case, fill in found if (case.model, case.entry) == (model, entry)]
            cells = [
                next((shown(c, f) for c, f in row if (c.reports, c.count) == (reports, count)), "-")
                for reports in (True, False)
                for count in counts
            ]
            reasons = "/".join(sorted({fill.reason for _, fill in row}))
            yield f"{model:19}{entry:18}" + "".join(f"{cell:>8}" for cell in cells) + f"   {reasons}"


def shown(case: Case, fill: Fill) -> str:
    """Return one cell."""
    price = "$" if fill.reason == "price" else ""
    mark = price if not fill.refusals else "R" if case.entry in ("fit", "Session") else "r" * fill.refusals
    return f"{fill.percent:.0f}{mark}"


if __name__ == "__main__":
    main()
