"""How each kind of setting is written, in a file and in the environment.

A reader turns what TOML gives, or a variable's text, into a value and raises `ValueError` with what is wrong; whoever asked
adds where it stood.
"""

import re
from collections.abc import Callable
from math import inf

from msgspec import Struct

from infold.core.policy import LARGEST_TOKENS, PRESETS, Amount, is_true, remaining, share, tokens
from infold.errors import PolicyError
from infold.settings.places import PLACES, problem_with
from infold.settings.values import Value, told

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
