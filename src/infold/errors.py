"""Every error infold raises, in one tree.

    InfoldError
    ├── UsageError            the caller can act: a value given to infold is wrong
    │   ├── UnknownKeyword    a call or a value has no keyword of that name
    │   ├── PolicyError       a policy's numbers contradict each other or make no sense
    │   ├── UnknownPreset     no preset of that name
    │   ├── SettingsError     a file or a variable sets something that is wrong
    │   ├── LogError          an entry that cannot follow the entries before it
    │   │   ├── DuplicateId       an id that the session already holds
    │   │   ├── OrphanResult      a tool result whose call is not before it
    │   │   ├── UnknownReference  an entry that names something the session does not hold
    │   │   └── IllegalCut        a checkpoint that would part a call from its result
    │   ├── HistoryChanged    a whole history that is not the session's
    │   ├── UndecodableLog    bytes that are not a log of ours
    │   ├── UnusableKey       a tenant or session id that no store can keep
    │   ├── UnknownSession    no session of that id
    │   ├── StoreClosed       a store that was closed already
    │   ├── SessionReentered  a session that its own summariser called
    │   └── FormatError       messages or a transcript that cannot be read
    │       ├── UnknownFormat     no format recognises it
    │       └── BrokenInput       a format recognises it, but it is damaged, hostile or too deep
    ├── StoreError            an operator can act, or a second try: a store did not do what it was asked
    │   ├── StoreConflict     another writer was faster; reload and try again
    │   └── StoreBroken       damaged, foreign, full, unreachable or not ours to write
    ├── ModelError            time or the user can act: a model did not answer
    │   ├── ModelBusy         it cannot answer now; the same request may succeed later
    │   ├── ModelUnreachable  no answer at its address
    │   ├── KeyRefused        there is no key for it, or the key is not accepted
    │   ├── UnknownModel      the provider has no model of that name
    │   ├── RequestRefused    the provider does not take the request as it is
    │   ├── SummaryFailed     a compaction that its policy gives up without a summary
    │   └── ModelOverflow     a model refused a request as too large for it
    ├── WindowExceeded        the user can act: even the smallest view is larger than the window
    └── PromptTooLarge        the user can act: a client's system prompt and tools leave no room for a conversation

Branches say who can act. Each error keeps its numbers and names as attributes and ends its message with what
to do.
"""

import re
from collections.abc import Iterable

MAY_PASS = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 after which the same request may succeed."""

LONGEST_REASON, MOST_READ = 300, 4_000
"""Characters of a foreign message that are repeated, and that are looked at for secrets."""

_SECRETS = re.compile(
    r"(?P<scheme>\bbearer +)[\w.~+/=-]{8,}"
    r"|(?P<basic>\bbasic +)(?=[\w+/]{0,400}(?:[\d=]|(?-i:[a-z][A-Z])))[\w+/=]{8,}"
    r"|(?P<field>[\w-]{0,40}(?:api.?key|authorization|token|secret|password|signature|credential)s?[\"']?(?: provided)?"
    r" ?[:=] ?[\"']?)(?!\d+\b)(?:(?:bearer|basic) +)?[^\s\"'&,;)}\]]{4,}"
    r"|(?P<query>[?&](?:key|sig|code|auth|access)=)[^\s\"'&#]+"
    r"|(?P<address>://)[^\s/@]{1,400}@"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp|gho|ghs|glpat|r8|nvapi|pplx|xox[abps])[-_][\w-]{6,}"
    r"|\b(?:AIza|AKIA|ASIA)[\w-]{12,}|\bya29\.[\w.-]+|\beyJ[\w-]{8,}(?:\.[\w-]+){0,2}"
    r"|\b(?=[A-Za-z]{0,400}\d)(?=\d{0,400}[A-Za-z])[A-Za-z0-9]{32,}\b",
    re.IGNORECASE,
)
"""Bearer tokens, values of fields and query parameters that hold keys, credentials in addresses, keys by their known beginnings,
and long runs of letters and digits as keys without a beginning are."""


def raised_at(error: BaseException) -> str:
    """Return where foreign code raised an error; its message may quote a session, and is not logged."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return "" if frame is None else f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}"


def without_secrets(text: str) -> str:
    """Return foreign text as one short line without API keys, bearer tokens and control characters."""
    seen = "".join(character if character.isprintable() else " " for character in text[:MOST_READ])
    line = " ".join(_SECRETS.sub(_hidden, seen).split())
    return f"{line[:LONGEST_REASON]}…" if len(line) > LONGEST_REASON else line


def _hidden(found: re.Match[str]) -> str:
    kept = next((group for group in found.groupdict().values() if group), "")
    return f"{kept}***{'@' if found['address'] else ''}"


def nearest_names(name: str, known: Iterable[str], *, most: int = 1, likeness: float = 0.6) -> list[str]:
    """Return the known names most similar to a name, the nearest first."""
    from difflib import get_close_matches  # here, because only an error needs it

    return get_close_matches(name, list(known), n=most, cutoff=likeness)


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1, likeness: float = 0.6) -> str:
    """Return the question for a misspelt name, such as "did you mean 'inspect'?"; empty if nothing known is similar."""
    near = nearest_names(name, known, most=most, likeness=likeness)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


class InfoldError(Exception):
    """The root of every error infold raises on purpose."""


class UsageError(InfoldError):
    """A value the caller gave is wrong; the message says which and what would be right."""


class UnknownKeyword(UsageError, TypeError):
    """A call or a value was given a keyword that it does not have."""

    def __init__(self, call: str, keyword: str, *, known: Iterable[str]) -> None:
        self.keyword = keyword
        self.known = tuple(known)
        advice = did_you_mean(keyword, self.known) or f"choose one of {', '.join(sorted(self.known))}"
        super().__init__(f"{call} has no {keyword!r}; {advice}")


class PolicyError(UsageError):
    """A policy value is out of range or contradicts another one."""

    def __init__(self, field: str, problem: str, *, remedy: str) -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"policy.{field}: {problem}; {remedy}")


class UnknownPreset(UsageError):
    """No preset has that name."""

    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        meant = did_you_mean(name, known)
        super().__init__(f"no preset is named {name!r}; {meant}{' ' * bool(meant)}choose one of {', '.join(known)}")


class SettingsError(UsageError):
    """A file or a variable sets something that is unknown, wrong, secret or at odds with another setting.

    `key` is empty where the whole file or a variable without a setting is meant; `where` names the file or the variable.
    `others` are further faults of the same settings, which are notes of the exception too.
    """

    def __init__(self, key: str, problem: str, *, where: str, remedy: str) -> None:
        self.key = key
        self.problem = problem
        self.where = where
        self.remedy = remedy
        self.others: tuple[SettingsError, ...] = ()
        super().__init__(f"{f'{key} ({where})' if key else where}: {problem}; {remedy}")


class LogError(UsageError):
    """An entry cannot follow the entries already in the session; the log is unchanged."""


class DuplicateId(LogError):
    """An id that the session already holds, or that one message uses twice."""

    def __init__(self, kind: str, duplicate: str) -> None:
        self.kind = kind
        self.duplicate = duplicate
        super().__init__(f"there is already a {kind} with id {duplicate!r}; give each {kind} an id of its own")


class OrphanResult(LogError):
    """A tool result that no earlier tool call asked for, or that was answered already."""

    def __init__(self, call_id: str, *, message_id: str, problem: str) -> None:
        self.call_id = call_id
        self.message_id = message_id
        super().__init__(
            f"message {message_id!r} holds a result for call {call_id!r}, {problem}; "
            "append the assistant message that made the call first, and each result once"
        )


class UnknownReference(LogError):
    """An entry names a message, part or entry that the session does not hold."""

    def __init__(self, kind: str, reference: str, *, remedy: str) -> None:
        self.kind = kind
        self.reference = reference
        super().__init__(f"no {kind} {reference!r} in this session; {remedy}")


class IllegalCut(LogError):
    """A checkpoint whose first kept message cannot begin a view."""

    def __init__(self, sequence: int, message_id: str) -> None:
        self.sequence = sequence
        self.message_id = message_id
        super().__init__(
            f"message {message_id!r} (entry {sequence}) cannot be the first one kept: a tool call, or the reasoning it "
            "depends on, would stay behind; cut at a user message or at the assistant message that makes the call"
        )


class UndecodableLog(UsageError):
    """Bytes that should be a log entry are not one."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(
            f"not an infold log entry: {detail}; read it with the version that wrote it, "
            "or convert a foreign transcript first"
        )


class UnusableKey(UsageError):
    """A tenant or session id that cannot name a session."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(f"the {name} {problem}; use a short printable text, such as a hash of it")


class UnknownSession(UsageError):
    """The tenant has no session of that id."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"there is no session {session_id!r}; list the sessions to see which there are")


class StoreClosed(UsageError):
    """A store was used after it had been closed."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(f"the store {where} is closed; open it again, or close it later")


class SessionReentered(UsageError):
    """A summariser called the session that waits for its summary."""

    def __init__(self) -> None:
        super().__init__(
            "the summariser called its own session, which waits for the summary; use another session, or call this one after "
            "`prepare` has returned"
        )


class FormatError(UsageError):
    """Messages or a transcript that cannot be read as what they should be."""


class UnknownFormat(FormatError):
    """No format recognises the input."""

    def __init__(self, what: str, *, tried: tuple[str, ...], remedy: str) -> None:
        self.what = what
        self.tried = tried
        super().__init__(f"{what} is in no format infold knows (tried {', '.join(tried)}); {remedy}")


class BrokenInput(FormatError):
    """The format is known, but the input is damaged or goes beyond a stated bound."""

    def __init__(self, format_name: str, problem: str, *, remedy: str, line: int | None = None) -> None:
        self.format_name = format_name
        self.line = line
        place = f" at line {line}" if line is not None else ""
        super().__init__(f"{format_name}{place}: {problem}; {remedy}")


class StoreError(InfoldError):
    """A store did not do what it was asked; what it held before, it holds still."""


class StoreConflict(StoreError):
    """Another writer was faster: the session has grown, or was deleted, since this writer read it."""

    def __init__(self, session_id: str, *, expected: int, actual: int) -> None:
        self.session_id = session_id
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"session {session_id!r} goes on at entry {actual}, not {expected}; load it again and repeat what was decided"
        )


class StoreBroken(StoreError):
    """The store cannot be read or written until it is repaired."""

    def __init__(self, where: str, problem: str, *, remedy: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}; {remedy}")


class WindowExceeded(InfoldError):
    """The smallest possible view is still larger than the usable window, as infold knows it or as the provider has it.

    If the view fits infold's window, the provider has refused it nevertheless.
    """

    def __init__(self, *, floor_tokens: int, usable_tokens: int, overhead_tokens: int) -> None:
        self.floor_tokens = floor_tokens
        self.usable_tokens = usable_tokens
        self.overhead_tokens = overhead_tokens
        view = f"{floor_tokens:,} tokens ({overhead_tokens:,} of them system prompt and tools)"
        if floor_tokens <= usable_tokens:
            super().__init__(
                f"the provider refused a view of {view}, though the usable window is {usable_tokens:,}, and nothing more "
                "can be left out; look at what it answered, or set the model's window to what it takes"
            )
            return
        if overhead_tokens > usable_tokens:
            super().__init__(
                f"the system prompt and tools alone are {overhead_tokens:,} tokens, the usable window is {usable_tokens:,}; "
                "shorten the system prompt, offer fewer tools, lower the reserve or choose a larger model"
            )
            return
        super().__init__(
            f"the smallest view is {view}, the usable window is {usable_tokens:,}; shorten the system prompt or the newest "
            "message, offer fewer tools, lower the reserve or choose a larger model"
        )


class PromptTooLarge(InfoldError):
    """The system prompt and the tools of a client's request leave no room for a conversation, so it is not sent.

    The words must not be those of a provider's refusal for size, at which agents compact and try again.
    """

    def __init__(self, *, overhead_tokens: int, usable_tokens: int, window_tokens: int) -> None:
        self.overhead_tokens = overhead_tokens
        self.usable_tokens = usable_tokens
        self.window_tokens = window_tokens
        super().__init__(
            f"infold did not send this request: its system prompt and tools take about {overhead_tokens:,} tokens, and only "
            f"{usable_tokens:,} of the model's {window_tokens:,} can be used for the prompt, so that no room is left for a "
            "conversation; serve the model with more context and set that as infold's window (--window), offer fewer tools, or "
            "shorten the system prompt"
        )


class HistoryChanged(UsageError):
    """A whole history does not hold what the session has folded or begun with; it is another session's."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the history changed: {problem}; pass the list the session was made from, with new items at its end, "
            "or begin a new session"
        )


class ModelError(InfoldError):
    """A model could not be asked, or did not answer; waiting or another model may help.

    `problem` is what was wrong, `status` the HTTP status it came with, if any. `is_lasting`: the same request would fail again.
    """

    is_lasting: bool = False
    status: int | None = None

    def __init__(self, model: str, problem: str, *, remedy: str = "try again, or name another model") -> None:
        self.model = model
        self.problem = problem
        super().__init__(f"{model}: {problem}; {remedy}")


def reason_of(error: ModelError) -> str:
    """Return why a model failed, for events, logs and pages: the provider's status and message, without secrets."""
    told = error.status is None or str(error.status) in error.problem
    return without_secrets(f"{error.model}: {error.problem if told else f'status {error.status}: {error.problem}'}")


class ModelBusy(ModelError):
    """A model cannot answer now: too many requests, a server in trouble, a reply that broke off.

    `wait_seconds` is how long its provider asks to wait before the next try; 0 where it does not say.
    """

    def __init__(
        self,
        model: str,
        problem: str,
        *,
        remedy: str | None = None,
        wait_seconds: float = 0.0,
    ) -> None:
        self.wait_seconds = wait_seconds
        super().__init__(model, problem, remedy=remedy or f"try again {_later(wait_seconds)}, or name another model")


def _later(seconds: float) -> str:
    if seconds < 1:
        return "in a while"
    return f"in {seconds:.0f} seconds" if seconds < 120 else f"in {seconds / 60:.0f} minutes"


class ModelUnreachable(ModelError):
    """There is no answer at the model's address."""

    def __init__(self, model: str, address: str, problem: str) -> None:
        self.address = address
        super().__init__(model, f"no answer at {address} ({problem})", remedy="check the address and the network")


class KeyRefused(ModelError):
    """There is no key for the model, or the provider does not accept it; `variable` is where the key is looked for."""

    is_lasting = True

    def __init__(self, model: str, problem: str, *, variable: str) -> None:
        self.variable = variable
        super().__init__(model, problem, remedy=f"set {variable} to a key that may use this model")


class UnknownModel(ModelError):
    """The provider has no model of that name, or the key may not use it."""

    is_lasting = True

    def __init__(self, model: str, problem: str) -> None:
        super().__init__(model, problem, remedy="check the name with --model; 'infold models' lists known ones")


class RequestRefused(ModelError):
    """The provider does not take the request, for another reason than its size."""

    is_lasting = True

    def __init__(self, model: str, problem: str) -> None:
        super().__init__(model, problem, remedy="change what is asked, or name another model")


class SummaryFailed(ModelError):
    """A summary failed, and the policy ends the agent's loop there; `faults` say why each try was of no use."""

    def __init__(self, reason: str, faults: tuple[str, ...]) -> None:
        self.faults = faults
        problem = f"no summary could be written ({', '.join(faults)}){f': {reason}' if reason else ''}"
        super().__init__("compaction", problem, remedy="nothing was folded; ask again, or name another model")


class ModelOverflow(ModelError):
    """A model refused a request as too large; `limit_tokens` is what it takes, where it said so.

    `refusal` is the exception or the body that said it, whose numbers are learned from. `problem` is what else has to be
    left out, where the size was not the reason.
    """

    def __init__(
        self, model: str, limit_tokens: int | None = None, *, refusal: object = None, problem: str = ""
    ) -> None:
        self.limit_tokens = limit_tokens
        self.refusal = refusal
        told = "" if limit_tokens is None else f" of {limit_tokens:,} tokens"
        size = f"the request is over its limit{told}"
        super().__init__(model, problem or size, remedy="remove that" if problem else "ask it for less at once")


def kind_of(value: object) -> str:
    """Return what a value is, for an error that says what was given: "an int", "a Client"."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"
