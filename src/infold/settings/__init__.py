"""Settings of a process, read once from files and the environment, each value with its origin."""

from infold.settings.load import Stated, user_file
from infold.settings.resolve import (
    AgentSettings,
    GatewaySettings,
    PluginSettings,
    RecallSettings,
    SessionTerms,
    Settings,
    StoreLimits,
    read_settings,
)
from infold.settings.schema import KEYS, Key, Value, key_named, nearest, told

__all__ = [
    "AgentSettings",
    "GatewaySettings",
    "KEYS",
    "Key",
    "PluginSettings",
    "RecallSettings",
    "SessionTerms",
    "Settings",
    "Stated",
    "StoreLimits",
    "Value",
    "key_named",
    "nearest",
    "read_settings",
    "told",
    "user_file",
]
