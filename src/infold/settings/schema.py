"""The table of settings: every key with its kind, its default, its variable and its aliases.

Reading, errors, `infold config` and the reference page all go by this table; nothing else knows what can be set.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from types import MappingProxyType

from msgspec import Struct

from infold.core.policy import PREFIX
from infold.settings.kinds import (
    ADDRESS,
    AMOUNT,
    CAP,
    COUNT,
    HOST,
    HOSTS,
    NAMES,
    PLACE,
    PORT,
    PRESET,
    RULES,
    SWITCH,
    TENANT,
    TEXT,
    TOKENS,
    TURNS,
    Kind,
)
from infold.settings.values import Value

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
