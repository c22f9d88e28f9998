"""Settings of a process, read once from files and the environment, each value with its origin."""

from infold.settings.load import StatedValue, user_file
from infold.settings.resolve import (
    AgentSettings,
    GatewaySettings,
    PluginSettings,
    RecallSettings,
    SessionOptions,
    Settings,
    StoreLimits,
    read_settings,
)
from infold.settings.schema import KEYS, Key, Value, find_key, format_value, nearest_name

__all__ = [
    "AgentSettings",
    "GatewaySettings",
    "KEYS",
    "Key",
    "PluginSettings",
    "RecallSettings",
    "SessionOptions",
    "Settings",
    "StatedValue",
    "StoreLimits",
    "Value",
    "find_key",
    "format_value",
    "nearest_name",
    "read_settings",
    "user_file",
]
