"""The table of settings: every key with its kind, its default, its variable and its aliases.

Reading, errors, `infold config` and the reference page all go by this table; nothing else knows what can be set.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias, assert_never

from msgspec import Struct

from infold.core.policy import LARGEST_TOKENS, PREFIX, PRESETS, Amount, is_true, remaining, share, tokens
from infold.errors import PolicyError

Value: TypeAlias = bool | int | str | Amount | tuple[str, ...] | None
"""What a setting can be; none is one that is not set."""


HIDDEN = "***"


SMALLEST_GROUPED = 10_000


_PASSWORD = re.compile(r"(?<=://)([^/@\s]*?):\S*(?=@)|(?<=[?&])((?:ssl)?password=)[^&\s]*", re.IGNORECASE)


def told(value: Value) -> str:
    """A value as it can be written back; a password inside an address is hidden."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int():
            return _shown_digits(value)
        case Amount():
            return _shown_amount(value)
        case tuple():
            return ", ".join(value) or "none"
        case str():
            return _PASSWORD.sub(_hidden, value)
        case _:
            assert_never(value)


def has_password(value: Value) -> bool:
    """Whether a value is an address with a password in it."""
    return isinstance(value, str) and _PASSWORD.search(value) is not None


def _shown_digits(number: int) -> str:
    return f"{number:_}" if number >= SMALLEST_GROUPED else str(number)


def _shown_amount(amount: Amount) -> str:
    if amount.unit == "share":
        return f"{amount.value * 100:.4g}%"
    return f"{'remaining ' if amount.unit == 'remaining' else ''}{_shown_digits(int(amount.value))}"


def _hidden(found: re.Match[str]) -> str:
    return f"{found[2]}{HIDDEN}" if found[2] else f"{found[1]}:{HIDDEN}"


PLACES = "give 'memory', the path of a file, or a postgresql:// address"
"""What to give, in words."""


ELSEWHERE = ("postgresql://", "postgres://")
"""How the address of a store begins that is no file."""


def problem_with(place: str) -> str:
    """What is wrong with a place, without anything secret in it; empty if it can be one."""
    scheme, is_address, _ = place.partition("://")
    if not is_address or place.startswith(ELSEWHERE):
        return ""
    if scheme == "sqlite":
        return "a SQLite file is named by its path, as in sqlite:sessions.sqlite3, without slashes before it"
    return f"infold has no store for addresses that begin with {scheme}://"


def path_of(place: str) -> Path:
    """The file of a place that is one; `~` is the user's home, for programs start commands without a shell."""
    return Path(place.removeprefix("sqlite:")).expanduser()


LARGEST_PORT = 65_535


_NUMBER = re.compile(r"(\d[\d_]*(?:\.\d+)?|\.\d+) ?([km]?)", re.IGNORECASE)


_RULE = re.compile(r"[a-z_*]+(?::\S.*)?")


_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}


class Kind(Struct, frozen=True):
    """A kind of value: what it is called, what to give where it is wrong, and its reader.

    `of_text` makes of a variable's text what TOML would have given, or leaves it for the reader to refuse.
    """

    name: str
    remedy: str
    read: Callable[[object], Value]
    of_text: Callable[[str], object] = str


# Readers. `bool` is a kind of `int` to Python and to nobody else.


def _yes_or_no(text: str) -> object:
    try:
        return is_true(text)
    except ValueError:
        return text


def _switch(raw: object) -> Value:
    if raw is True or raw is False:
        return raw
    raise ValueError(f"{raw!r} is neither true nor false")


def _tokens(raw: object) -> Value:
    number = _number(raw) if isinstance(raw, str) else raw
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= LARGEST_TOKENS:
        raise ValueError(f"{raw!r} is no number of tokens")
    return number


def _amount(raw: object) -> Value:
    try:
        amount = _amount_of_text(raw) if isinstance(raw, str) else _amount_of_number(raw)
    except PolicyError as error:
        raise ValueError(error.problem) from error
    if amount.value == 0 and amount.unit != "remaining":
        raise ValueError(f"{raw!r} leaves nothing")
    return amount


def _amount_of_text(text: str) -> Amount:
    written = text.strip().lower()
    if written.endswith("%"):
        return share(round(_number(written[:-1].strip()) / 100, 6))
    if written.startswith("remaining "):
        return remaining(_whole(_number(written.removeprefix("remaining ").strip()), text))
    return _amount_of_number(_number(written))


def _amount_of_number(number: object) -> Amount:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < inf:
        raise ValueError(f"{number!r} is no amount")
    return share(float(number)) if number <= 1 else tokens(_whole(number, number))


def _whole(number: float, raw: object) -> int:
    if number != int(number):
        raise ValueError(f"{raw!r} is neither a share up to 1 nor whole tokens")
    return int(number)


def _number(text: str) -> float:
    """A number with k or m for thousands and millions: 8000, 64k, 1.5m, 200_000."""
    found = _NUMBER.fullmatch(text.strip()) if len(text) <= len("1_000_000_000.000") + 1 else None
    if found is None:
        raise ValueError(f"{text!r} is no number")
    return round(float(found[1].replace("_", "")) * _UNITS[found[2].lower()], 6)


def _counted(least: int, most: int) -> Callable[[object], Value]:
    def read(raw: object) -> Value:
        if isinstance(raw, bool) or not isinstance(raw, int) or not least <= raw <= most:
            raise ValueError(f"{raw!r} is no whole number from {least} to {most:,}")
        return raw

    return read


def _digits(text: str) -> object:
    written = text.strip().replace("_", "")
    return int(written) if written.isdecimal() and len(written) < 20 else text


def _cap(raw: object) -> Value:
    if isinstance(raw, str) and raw.strip().lower() == "off":
        return None
    return _counted(1, 1 << 62)(raw)


def _text(raw: object) -> str | None:
    if not isinstance(raw, str) or not raw.isprintable():
        raise ValueError("it is no text of one line")
    return raw.strip() or None


def _stated_text(raw: object) -> str:
    text = _text(raw)
    if text is None:
        raise ValueError("it is empty")
    return text


def _place(raw: object) -> Value:
    place = _stated_text(raw)
    problem = problem_with(place)
    if problem:
        raise ValueError(problem)
    return place


def _address(raw: object) -> Value:
    address = _stated_text(raw)
    if not re.fullmatch(r"https?://[^\s/]+.*", address):
        raise ValueError(f"{told(address)!r} is no address")
    return address.rstrip("/")


def _host(raw: object) -> Value:
    host = _stated_text(raw)
    if not re.fullmatch(r"[\w.:\[\]-]+", host):
        raise ValueError(f"{host!r} is no host")
    return host


def _hosts(raw: object) -> Value:
    hosts = [part.strip() for part in raw.split(",") if part.strip()] if isinstance(raw, str) else raw
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise ValueError(f"{raw!r} is no list of hosts")
    return () if hosts == ["none"] else tuple(str(_host(host)) for host in hosts)


def _tenant(raw: object) -> Value:
    tenant = _stated_text(raw)
    if not re.fullmatch(r"[\w.@-]{1,64}", tenant):
        raise ValueError(f"{tenant!r} is no tenant")
    return tenant


def _preset(raw: object) -> Value:
    if not isinstance(raw, str) or raw not in PRESETS:
        raise ValueError(f"no preset is named {raw!r}")
    return raw


def _names(raw: object) -> Value:
    if isinstance(raw, str):
        words = [word.strip() for word in raw.split(",") if word.strip()]
        return None if words == ["all"] else () if words == ["none"] else tuple(words)
    if not isinstance(raw, list) or not all(isinstance(name, str) and name for name in raw):
        raise ValueError(f"{raw!r} is no list of names")
    return tuple(raw)


def _rules(raw: object) -> Value:
    rules = [part.strip() for part in raw.split(",")] if isinstance(raw, str) else raw
    if not isinstance(rules, list) or not all(isinstance(rule, str) and _RULE.fullmatch(rule) for rule in rules):
        raise ValueError(f"{raw!r} is no list of rules")
    return tuple(rules)


SWITCH = Kind("true or false", "give true or false (in the environment also 1/0, yes/no, on/off)", _switch, _yes_or_no)


TOKENS = Kind("tokens", "give a number of tokens such as 8000, 200_000 or '64k'", _tokens)


AMOUNT = Kind(
    "amount",
    "give a share of the usable window such as 0.9 or '90%', tokens such as 48000, or 'remaining 20000'",
    _amount,
)


COUNT = Kind("whole number", "give a whole number from 1 on", _counted(1, LARGEST_TOKENS), _digits)


TURNS = Kind("whole number", "give a whole number of turns from 0 to 10,000", _counted(0, 10_000), _digits)


PORT = Kind("port", "give a port, or 0 for any that is free", _counted(0, LARGEST_PORT), _digits)


CAP = Kind("whole number or off", "give a whole number from 1 on, or 'off'", _cap, _digits)


TEXT = Kind("text", "give a text of one line", _text)


PLACE = Kind("place", PLACES, _place)


ADDRESS = Kind("address", "give an address that begins with http:// or https://", _address)


HOST = Kind("host", "give a host name or an IP address", _host)


HOSTS = Kind("list of hosts", "give a list of host names or IP addresses", _hosts)


TENANT = Kind("tenant", "give up to 64 letters, digits and . _ @ -", _tenant)


PRESET = Kind("preset", f"choose one of {', '.join(sorted(PRESETS))}", _preset)


NAMES = Kind("list of names", "give a list of names, or 'all' or 'none'", _names)


RULES = Kind("list of rules", "give a list of tools, or of tools with a pattern such as 'shell:git status*'", _rules)


LIKE, MISSPELT = 0.6, 0.85
"""How like a known name, from 0 to 1, another must be: to be hinted at, and to count as a slip of the pen."""


PROJECT_KEYS = frozenset(
    {
        *("preset", "window", "recall.enabled", "recall.budget_tokens", "plugins.seven_sections"),
        *("permissions.ask", "permissions.deny"),
    }
)
"""The keys that a project's file may hold, next to those of `compaction` except its model."""


class Key(Struct, frozen=True):
    """One setting: its name in a file, how it is written, and what holds where nobody sets it.

    `unset` says in words what it means that there is no value. `from_preset`: without a value the preset decides.
    """

    name: str
    kind: Kind
    help: str
    default: Value = None
    unset: str = ""
    aliases: tuple[str, ...] = ()
    from_preset: bool = False

    @property
    def per_session(self) -> bool:
        """Whether the tables of a model and of an agent may hold it."""
        return self.name in ("preset", "window") or self.name.startswith(("compaction.", "permissions."))

    @property
    def per_project(self) -> bool:
        """Whether a file that belongs to a project may hold it: only how sessions are kept in their window, and what agents
        are forbidden. Everything else chooses who is asked, what is run, paid for, sent somewhere or deleted."""
        is_of_window = self.name.startswith("compaction.") and self.name != "compaction.model"
        return is_of_window or self.name in PROJECT_KEYS

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return variable_of(self.name)


def variable_of(name: str) -> str:
    """The variable for a key or an alias: `compaction.keep_turns` is `INFOLD_COMPACTION_KEEP_TURNS`."""
    return PREFIX + name.upper().replace(".", "_").replace("-", "_")


UPSTREAM = Key(
    "upstreams.<provider>.base_url",
    ADDRESS,
    "Where the gateway sends requests for a provider, such as `upstreams.openai.base_url`.",
    unset="none; if no provider has one, the embedded model answers",
)
"""The one key that is a family: a provider's name of lower-case letters, digits and hyphens stands in its middle."""


KEYS: tuple[Key, ...] = (
    Key("preset", PRESET, "Which preset decides when and how to compact.", "infold"),
    Key("model", TEXT, "The model whose window and prices count where a request does not name one.", unset="not named"),
    Key(
        "window",
        TOKENS,
        "The window, in place of the model's own.",
        unset="the model's own",
        aliases=("CONTEXT_WINDOW_TOKENS",),
        from_preset=True,
    ),
    Key(
        "store",
        PLACE,
        "Where sessions are kept: `memory`, a file's path or a `postgresql://` address.",
        unset="in memory; those of the agent in a file of your own",
    ),
    Key(
        "compaction.auto",
        SWITCH,
        "Whether sessions are compacted unasked. Off means off.",
        default=True,
        aliases=("auto_compact",),
        from_preset=True,
    ),
    Key(
        "compaction.prune",
        SWITCH,
        "Whether old tool results become stubs.",
        default=True,
        aliases=("enable_prune",),
        from_preset=True,
    ),
    Key(
        "compaction.reserved",
        TOKENS,
        "What of the window stays free for the reply; 0 is honoured.",
        unset="by its rule",
        from_preset=True,
    ),
    Key(
        "compaction.trigger",
        AMOUNT,
        "How full the usable window is when a compaction begins.",
        aliases=("COMPACT_TRIGGER",),
        from_preset=True,
    ),
    Key(
        "compaction.target",
        AMOUNT,
        "How full a compaction aims to leave it.",
        unset="the trigger",
        aliases=("COMPACT_TARGET",),
        from_preset=True,
    ),
    Key(
        "compaction.keep_turns",
        COUNT,
        "How many of the last turns stay verbatim, in presets that count their tail in turns.",
        unset="not by turns",
        aliases=("KEEP_LAST_TURNS",),
        from_preset=True,
    ),
    Key(
        "compaction.tail_turns",
        TURNS,
        "Of how many of the last turns the tail may be, in presets that count it in tokens; 0 keeps no tail.",
        unset="no limit",
        from_preset=True,
    ),
    Key(
        "compaction.preserve_recent_tokens",
        TOKENS,
        "How many tokens of recent messages stay verbatim, in presets that count their tail in tokens.",
        unset="by its rule",
        from_preset=True,
    ),
    Key(
        "compaction.attempts",
        COUNT,
        "How often a session is compacted for one user prompt at most.",
        unset="no bound",
        aliases=("MAX_COMPACTION_ATTEMPTS",),
        from_preset=True,
    ),
    Key("compaction.model", TEXT, "The model that writes summaries.", unset="none: by code, or the client's own"),
    Key(
        "compaction.price",
        SWITCH,
        "Whether the head is also folded where that is cheaper at the model's prices, after 20 calls at least.",
        from_preset=True,
    ),
    Key(
        "compaction.recovers",
        SWITCH,
        "Whether the server refuses what is too large, so that the expected size decides; off for one that truncates.",
        unset="by the server's address: off for Ollama, LM Studio and Z.ai",
    ),
    Key("compaction.background", SWITCH, "Whether compactions are prepared before they are due.", default=False),
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
        "agent.environment",
        NAMES,
        "Which variables with keys of model providers the agent's commands may see.",
        (),
    ),
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


BY_NAME = MappingProxyType({key.name: key for key in KEYS if key is not UPSTREAM})


ALIASES = MappingProxyType({alias: key for key in KEYS for alias in key.aliases})


BORROWED = MappingProxyType({alias: key for alias, key in ALIASES.items() if alias.isupper()})
"""Document 003's own variables. They are common names, so without our prefix they count only for its preset."""


_UPSTREAM_NAME = re.compile(r"upstreams\.[a-z0-9][a-z0-9-]*\.base_url")


def key_named(name: str) -> Key | None:
    """The key that a name or an alias stands for, if any."""
    if _UPSTREAM_NAME.fullmatch(name):
        return UPSTREAM
    return BY_NAME.get(name) or ALIASES.get(name)


def nearest(name: str, known: Iterable[str], *, likeness: float = LIKE) -> str:
    """The known name that was most likely meant, with or without the table it belongs to; empty where none is."""
    names = {one: one for one in known}
    last_words = {one.rpartition(".")[2]: one for one in names}
    return next((table[like[0]] for table in (last_words, names) if (like := _alike(name, table, likeness))), "")


def _alike(name: str, known: Iterable[str], likeness: float) -> list[str]:
    return get_close_matches(name, known, n=1, cutoff=likeness)
