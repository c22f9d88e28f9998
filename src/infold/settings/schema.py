"""The table of settings: every key with its kind, default, environment variable and aliases.

Loading, errors, `infold config` and the reference page all use this table; no other module knows which settings exist.
"""

import re
from collections.abc import Callable, Iterable
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias, assert_never

from msgspec import Struct

from infold.core.policy import (
    LARGEST_TOKENS,
    MEMORY_SHARES,
    PREFIX,
    PRESETS,
    Amount,
    is_true,
    memory_size,
    parse_number,
    remaining,
    share,
    tokens,
)
from infold.errors import PolicyError, nearest_names

Value: TypeAlias = bool | int | float | str | Amount | tuple[str, ...] | None
"""The value of a setting; `None` if it is not set."""

# Values as text.

SMALLEST_GROUPED = 10_000
"""From here on digits are grouped."""

_PASSWORD = re.compile(r"(?<=://)([^/@\s]*?):\S*(?=@)|(?<=[?&])((?:ssl)?password=)[^&\s]*", re.IGNORECASE)


def format_value(value: Value) -> str:
    """Return a value as it can be written in a file, with the password of an address hidden."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value:_}" if value >= SMALLEST_GROUPED else f"{value:g}"
        case Amount(unit=unit, value=number):
            whole = format_value(int(number))
            return {"share": f"{number * 100:.4g}%", "tokens": whole, "remaining": f"remaining {whole}"}[unit]
        case tuple():
            return ", ".join(value) or "none"
        case str():
            return _PASSWORD.sub(lambda found: f"{found[2]}***" if found[2] else f"{found[1]}:***", value)
        case _:
            assert_never(value)


def has_password(value: Value) -> bool:
    """Return whether a value is an address with a password in it."""
    return isinstance(value, str) and _PASSWORD.search(value) is not None


# Where a store is.

STORE_HELP = "give 'memory', the path of a file, or a postgresql:// address"

POSTGRES_SCHEMES = ("postgresql://", "postgres://")


def store_problem(place: str) -> str:
    """Return what is wrong with the address of a store, without any password in it; empty if it is valid."""
    scheme, is_address, _ = place.partition("://")
    if not is_address or place.startswith(POSTGRES_SCHEMES):
        return ""
    if scheme == "sqlite":
        return "a SQLite file is named by its path, as in sqlite:sessions.sqlite3, without slashes before it"
    return f"infold has no store for addresses that begin with {scheme}://"


def store_path(place: str) -> Path:
    """Return the path of a SQLite store's file, with `~` expanded since not every caller has a shell."""
    return Path(place.removeprefix("sqlite:")).expanduser()


def make_private_folder(path: Path) -> None:
    """Make a folder, and those above it that do not exist, for its owner alone; `Path.mkdir` leaves those to the umask."""
    for folder in reversed([one for one in (path, *path.parents) if not one.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)


# Kinds of values. Readers raise `ValueError` with the problem; `bool` is a subclass of `int`, so it is excluded.


class ValueKind(Struct, frozen=True):
    """A kind of value: its name, the remedy for a wrong value, and its reader.

    `of_text` converts an environment variable to what TOML would have given, or leaves it for the reader to reject.
    """

    name: str
    remedy: str
    read: Callable[[object], Value]
    of_text: Callable[[str], object] = str


def _switch_text(text: str) -> object:
    try:
        return is_true(text)
    except ValueError:
        return text


def _read_switch(raw: object) -> Value:
    if raw is True or raw is False:
        return raw
    raise ValueError(f"{raw!r} is neither true nor false")


def _read_tokens(raw: object) -> Value:
    number = parse_number(raw) if isinstance(raw, str) else raw
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= LARGEST_TOKENS:
        raise ValueError(f"{raw!r} is not a number of tokens")
    return number


def _read_amount(raw: object) -> Value:
    try:
        amount = _parse_amount(raw) if isinstance(raw, str) else _amount_of_number(raw)
    except PolicyError as error:
        raise ValueError(error.problem) from error
    if amount.value == 0 and amount.unit != "remaining":
        raise ValueError(f"{raw!r} leaves nothing")
    return amount


def _parse_amount(text: str) -> Amount:
    written = text.strip().lower()
    if written.endswith("%"):
        return share(round(parse_number(written[:-1].strip()) / 100, 6))
    if written.startswith("remaining "):
        return remaining(_require_whole(parse_number(written.removeprefix("remaining ").strip()), text))
    return _amount_of_number(parse_number(written))


def _amount_of_number(number: object) -> Amount:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < inf:
        raise ValueError(f"{number!r} is not an amount")
    return share(float(number)) if number <= 1 else tokens(_require_whole(number, number))


def _require_whole(number: float, raw: object) -> int:
    if number != int(number):
        raise ValueError(f"{raw!r} is neither a share up to 1 nor whole tokens")
    return int(number)


def _whole_number(least: int, most: int) -> Callable[[object], Value]:
    def read(raw: object) -> Value:
        if isinstance(raw, bool) or not isinstance(raw, int) or not least <= raw <= most:
            raise ValueError(f"{raw!r} is not a whole number from {least} to {most:,}")
        return raw

    return read


def _read_price(raw: object) -> Value:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= MOST_DOLLARS:
        raise ValueError(f"{raw!r} is not a price")
    return float(raw)


def _price_text(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _digits(text: str) -> object:
    written = text.strip().replace("_", "")
    return int(written) if written.isdecimal() and len(written) < 20 else text


def _read_cap(raw: object) -> Value:
    if isinstance(raw, str) and raw.strip().lower() == "off":
        return None
    return _whole_number(1, 1 << 62)(raw)


def _read_text(raw: object) -> str | None:
    if not isinstance(raw, str) or not raw.isprintable():
        raise ValueError("it is not a text of one line")
    return raw.strip() or None


def _matching(pattern: str, what: str) -> Callable[[object], str]:
    """Return a reader for texts that match a pattern."""

    def read(raw: object) -> str:
        text = _read_text(raw)
        if text is None:
            raise ValueError("it is empty")
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{format_value(text)!r} is not {what}")
        return text

    return read


def _read_place(raw: object) -> Value:
    place = _matching(r".*", "a place")(raw)
    problem = store_problem(place)
    if problem:
        raise ValueError(problem)
    return place


_read_host = _matching(r"[\w.:\[\]-]+", "a host")


def _read_hosts(raw: object) -> Value:
    hosts = [part.strip() for part in raw.split(",") if part.strip()] if isinstance(raw, str) else raw
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise ValueError(f"{raw!r} is not a list of hosts")
    return () if hosts == ["none"] else tuple(map(_read_host, hosts))


def _read_preset(raw: object) -> Value:
    if not isinstance(raw, str) or raw not in PRESETS:
        raise ValueError(f"unknown preset {raw!r}")
    return raw


def _read_names(raw: object) -> Value:
    if isinstance(raw, str):
        words = [word.strip() for word in raw.split(",") if word.strip()]
        return None if words == ["all"] else () if words == ["none"] else tuple(words)
    if not isinstance(raw, list) or not all(isinstance(name, str) and name for name in raw):
        raise ValueError(f"{raw!r} is not a list of names")
    return tuple(raw)


def _read_memory(raw: object) -> Value:
    text = str(raw).strip()
    wanted = MEMORY_SHARES.get(text)
    if wanted is None:
        amount = _read_amount(text)
        wanted = amount.value if isinstance(amount, Amount) and amount.unit == "share" else inf
    try:
        return memory_size(wanted)
    except PolicyError as error:
        raise ValueError(f"{raw!r} is not a share that leaves room for work") from error


def _read_rules(raw: object) -> Value:
    rules = [part.strip() for part in raw.split(",")] if isinstance(raw, str) else raw
    is_rule = re.compile(r"[a-z_*]+(?::\S.*)?").fullmatch
    if not isinstance(rules, list) or not all(isinstance(rule, str) and is_rule(rule) for rule in rules):
        raise ValueError(f"{raw!r} is not a list of rules")
    return tuple(rules)


MOST_DOLLARS = 1_000_000.0
"""No million tokens cost a million dollars; a larger number is a unit mistake."""

SWITCH = ValueKind(
    "true or false", "give true or false (in the environment also 1/0, yes/no, on/off)", _read_switch, _switch_text
)
TOKENS = ValueKind("tokens", "give a number of tokens such as 8000, 200_000 or '64k'", _read_tokens)
AMOUNT = ValueKind(
    "amount",
    "give a share of the usable window such as 0.9 or '90%', tokens such as 48000, or 'remaining 20000'",
    _read_amount,
)
PRICE = ValueKind("price", "give US dollars per million tokens, such as 2.5", _read_price, _price_text)
COUNT = ValueKind("whole number", "give a whole number from 1 on", _whole_number(1, LARGEST_TOKENS), _digits)
TURNS = ValueKind("whole number", "give a whole number of turns from 0 to 10,000", _whole_number(0, 10_000), _digits)
PORT = ValueKind("port", "give a port, or 0 for any that is free", _whole_number(0, 65_535), _digits)
CAP = ValueKind("whole number or off", "give a whole number from 1 on, or 'off'", _read_cap, _digits)
TEXT = ValueKind("text", "give a text of one line", _read_text)
PLACE = ValueKind("place", STORE_HELP, _read_place)
ADDRESS = ValueKind(
    "address",
    "give an address that begins with http:// or https://",
    lambda raw: _matching(r"https?://[^\s/]+.*", "an address")(raw).rstrip("/"),
)
HOST = ValueKind("host", "give a host name or an IP address", _read_host)
HOSTS = ValueKind("list of hosts", "give a list of host names or IP addresses", _read_hosts)
TENANT = ValueKind("tenant", "give up to 64 letters, digits and . _ @ -", _matching(r"[\w.@-]{1,64}", "a tenant"))
PRESET = ValueKind("preset", f"choose one of {', '.join(sorted(PRESETS))}", _read_preset)
CHOICE = ValueKind(
    "auto, always or never", "give auto, always or never", _matching(r"auto|always|never", "one of these")
)
MEMORY = ValueKind(
    "lean, balanced, rich or a share",
    "give lean, balanced, rich, or a share of the usable window such as 0.15",
    _read_memory,
)
NAMES = ValueKind("list of names", "give a list of names, or 'all' or 'none'", _read_names)
RULES = ValueKind(
    "list of rules", "give a list of tools, or of tools with a pattern such as 'shell:git status*'", _read_rules
)

# Keys.

LIKE, MISSPELT = 0.6, 0.85
"""How similar, from 0 to 1, a name must be to a known one to be suggested, and to be taken for a misspelling of it."""

PROJECT_KEYS = frozenset(
    {
        *("preset", "window", "working_window", "recall.enabled", "recall.budget_tokens", "plugins.seven_sections"),
        *("permissions.ask", "permissions.deny"),
    }
)
"""The keys that a project's file may set, besides those of `compaction` except its model."""


POLICY_FIELDS = MappingProxyType(
    {
        "window": "window_tokens",
        "working_window": "working_window_tokens",
        "compaction.auto": "auto",
        "compaction.prune": "prune.enabled",
        "compaction.reserved": "reserve_tokens",
        "compaction.trigger": "trigger",
        "compaction.target": "target",
        "compaction.keep_turns": "tail.turns",
        "compaction.tail_turns": "tail.turns",
        "compaction.preserve_recent_tokens": "tail.size",
        "compaction.attempts": "attempts",
        "compaction.priced": "priced",
        "compaction.memory": "summary.size",
    }
)
"""The keys that set a field of the policy, and which field."""

_ALIAS_NAMES = {
    "auto_compact": "compaction.auto",
    "enable_prune": "compaction.prune",
    "CONTEXT_WINDOW_TOKENS": "working_window",
    "COMPACT_TRIGGER": "compaction.trigger",
    "COMPACT_TARGET": "compaction.target",
    "KEEP_LAST_TURNS": "compaction.keep_turns",
    "MAX_COMPACTION_ATTEMPTS": "compaction.attempts",
}
"""The names of documents 002 (lower case) and 003 (environment variables)."""


class Key(Struct, frozen=True):
    """One setting: its name in a file, its kind, and its default.

    `unset` says in words what the absence of a value means.
    """

    name: str
    kind: ValueKind
    help: str
    default: Value = None
    unset: str = ""

    @property
    def aliases(self) -> tuple[str, ...]:
        """The documents' names for it."""
        return tuple(alias for alias, name in _ALIAS_NAMES.items() if name == self.name)

    @property
    def per_session(self) -> bool:
        """Whether the tables of a model and of an agent may hold it."""
        return self.name in ("preset", "window", "working_window", "defer_tools") or self.name.startswith(
            ("compaction.", "permissions.", "prices.")
        )

    @property
    def per_project(self) -> bool:
        """Whether a project's file may set it: how sessions are kept in their window, and what agents may not do.

        All other keys decide which model is asked, what is run, paid for, sent or deleted.
        """
        is_of_window = self.name.startswith("compaction.") and self.name != "compaction.model"
        return is_of_window or self.name in PROJECT_KEYS

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return variable_name(self.name)


def variable_name(name: str) -> str:
    """Return the variable of a key or an alias: `INFOLD_COMPACTION_KEEP_TURNS` for `compaction.keep_turns`."""
    return PREFIX + name.upper().replace(".", "_").replace("-", "_")


UPSTREAM = Key(
    "upstreams.<provider>.base_url",
    ADDRESS,
    "Where the gateway sends requests for a provider, such as `upstreams.openai.base_url`.",
    unset="none; if no provider has one, the embedded model answers",
)
"""A family of keys: the provider's name, of lower-case letters, digits and hyphens, stands in the middle."""

KEYS: tuple[Key, ...] = (
    Key("preset", PRESET, "Which preset decides when and how to compact.", "infold"),
    Key("model", TEXT, "The model whose window and prices count where a request does not name one.", unset="not named"),
    Key("window", TOKENS, "The model's window, in place of the one that is known of it.", unset="the model's own"),
    Key(
        "working_window",
        TOKENS,
        "How much of the window to work in: when to compact follows from it, but a request that cannot be made smaller may "
        "fill the window.",
        unset="the window",
    ),
    Key(
        "defer_tools",
        SWITCH,
        "Whether tools that a session never calls are left to the provider's tool search, where it has one (Anthropic).",
        default=False,
    ),
    Key(
        "prices.input",
        PRICE,
        "What a million input tokens cost, in US dollars; a model without prices in the catalogue needs `prices.output` too.",
        unset="the catalogue's; without any, no fold is made for its price",
    ),
    Key("prices.output", PRICE, "What a million output tokens cost.", unset="the catalogue's"),
    Key(
        "prices.cache_read",
        PRICE,
        "What a million tokens read from the cache cost.",
        unset="the catalogue's, or what input costs",
    ),
    Key(
        "prices.cache_write",
        PRICE,
        "What a million tokens written to the cache cost.",
        unset="the catalogue's, or what input costs",
    ),
    Key(
        "store",
        PLACE,
        "Where sessions are kept: `memory`, a file's path or a `postgresql://` address.",
        unset="in memory; those of the agent in a file of your own",
    ),
    Key("compaction.auto", SWITCH, "Whether sessions are compacted unasked. Off means off.", default=True),
    Key("compaction.prune", SWITCH, "Whether old tool results become stubs.", default=True),
    Key(
        "compaction.reserved",
        TOKENS,
        "What of the window stays free for the reply; 0 is honoured.",
        unset="by its rule",
    ),
    Key("compaction.trigger", AMOUNT, "How full the usable window is when a compaction begins."),
    Key("compaction.target", AMOUNT, "How full a compaction aims to leave it.", unset="the trigger"),
    Key(
        "compaction.keep_turns",
        COUNT,
        "How many of the last turns stay verbatim, in presets that count their tail in turns.",
        unset="not by turns",
    ),
    Key(
        "compaction.tail_turns",
        TURNS,
        "Of how many of the last turns the tail may be, in presets that count it in tokens; 0 keeps no tail.",
        unset="no limit",
    ),
    Key(
        "compaction.preserve_recent_tokens",
        TOKENS,
        "How many tokens of recent messages stay verbatim, in presets that count their tail in tokens.",
        unset="by its rule",
    ),
    Key(
        "compaction.attempts", COUNT, "How often a session is compacted for one user prompt at most.", unset="no bound"
    ),
    Key("compaction.model", TEXT, "The model that writes summaries.", unset="none: by code, or the client's own"),
    Key(
        "compaction.priced",
        CHOICE,
        "Whether the head is also folded where that is cheaper, after 20 calls at least: auto at known prices of a paid API "
        "(not for local servers, unknown models and subscriptions), always also at assumed ones.",
    ),
    Key(
        "compaction.memory",
        MEMORY,
        "How much of the usable window a compaction may leave in place of what it folds: lean (5 %), balanced (11 %), rich "
        "(22 %), or a share; the preset's own is 11 %, above 7,500 tokens a fifth of the rest.",
    ),
    Key(
        "compaction.recovers",
        SWITCH,
        "Whether the server refuses what is too large, so that the expected size decides; off for one that truncates.",
        unset="by the server's address: off for Ollama, LM Studio and Z.ai",
    ),
    Key(
        "compaction.cache_seconds",
        COUNT,
        "How long the provider keeps a request in its cache after its last use, where neither requests nor replies state it.",
        unset="the model's own: 300 for Claude, 1,800 for OpenAI's models that charge for cache writes, 300 for others",
    ),
    Key("compaction.background", SWITCH, "Whether compactions are prepared before they are due.", default=False),
    Key(
        "compaction.native",
        CHOICE,
        "Whether the provider's own compaction writes summaries: auto where it keeps more or costs less.",
        "auto",
    ),
    Key("recall.enabled", SWITCH, "Whether recall is offered to the model, where a face can offer it.", default=True),
    Key("recall.budget_tokens", TOKENS, "How much one answer of recall may hold.", 2_000),
    Key("plugins.enabled", NAMES, "Which of the installed plugins are used.", unset="all"),
    Key(
        "plugins.seven_sections",
        SWITCH,
        "Whether summaries follow the bundled template of seven sections.",
        default=False,
    ),
    Key("agent.steps", COUNT, "How many steps the agent takes for one prompt at most.", 250),
    Key("agent.result_tokens", TOKENS, "How much of one tool result the agent's model is shown at first.", 8_000),
    Key(
        "agent.titles",
        SWITCH,
        "Whether the agent's model names its sessions and their first prompts; code does so otherwise.",
        default=True,
    ),
    Key(
        "agent.snapshots",
        SWITCH,
        "Whether the agent keeps the working tree of each step, for `infold diff`.",
        default=True,
    ),
    Key(
        "agent.trust",
        SWITCH,
        "Whether the instructions, skills and settings in project folders are used without asking.",
        default=False,
    ),
    Key(
        "agent.compact_tool",
        SWITCH,
        "Whether the agent's model is offered a tool to ask for a compaction when a sub-task is done.",
        default=True,
    ),
    Key("agent.environment", NAMES, "Which variables with keys of model providers the agent's commands may see.", ()),
    Key("permissions.allow", RULES, "What an agent does unasked: tools, or `tool:pattern` of what they are to do.", ()),
    Key("permissions.ask", RULES, "What an agent asks for first; a rule with a pattern wins over one without.", ()),
    Key("permissions.deny", RULES, "What an agent may not do, whatever else is allowed.", ()),
    Key("gateway.host", HOST, "Where the gateway listens.", "127.0.0.1"),
    Key("gateway.port", PORT, "The port it listens on.", 8377),
    Key(
        "gateway.allowed_hosts",
        HOSTS,
        "Host names that the gateway answers to without a token, besides those of this machine.",
        (),
    ),
    Key(
        "gateway.tenant",
        TENANT,
        "One tenant for all callers, in place of one for each credential: a name, or an id from `infold sessions --json`.",
        unset="by credential",
    ),
    Key("gateway.max_connections", COUNT, "How many clients may be connected; half the open files at most.", 1_000),
    Key("gateway.header_seconds", COUNT, "How long a client may take to send a request's headers.", 20),
    Key("gateway.body_seconds", COUNT, "How long it may take to send the body.", 60),
    Key("gateway.idle_seconds", COUNT, "How long its connection is kept between two requests.", 75),
    UPSTREAM,
    Key("store_limits.max_age_days", CAP, "Delete sessions that have not changed for so many days.", unset="off"),
    Key("store_limits.max_bytes", CAP, "Delete the oldest sessions beyond this size of the store.", unset="off"),
    Key(
        "store_limits.media_bytes",
        CAP,
        "Keep the bytes of images, documents and sound up to this size each.",
        20_000_000,
        unset="off",
    ),
)

KEYS_BY_NAME = MappingProxyType({key.name: key for key in KEYS if key is not UPSTREAM})

ALIASES = MappingProxyType({alias: KEYS_BY_NAME[name] for alias, name in _ALIAS_NAMES.items()})

DOCUMENT_VARIABLES = MappingProxyType({alias: key for alias, key in ALIASES.items() if alias.isupper()})
"""Document 003's own variables. They are common names, so without our prefix only its preset uses them."""

_UPSTREAM_NAME = re.compile(r"upstreams\.[a-z0-9][a-z0-9-]*\.base_url")


def find_key(name: str) -> Key | None:
    """Return the key of a name or an alias, or `None` if there is no such setting."""
    if _UPSTREAM_NAME.fullmatch(name):
        return UPSTREAM
    return KEYS_BY_NAME.get(name) or ALIASES.get(name)


def nearest_name(name: str, known: Iterable[str], *, likeness: float = LIKE) -> str:
    """Return the known name most similar to a name, with or without its table; empty if none is similar enough."""
    names = {one: one for one in known}
    for table in ({one.rpartition(".")[2]: one for one in names}, names):
        if found := nearest_names(name, table, likeness=likeness):
            return table[found[0]]
    return ""
