"""The values of the process: one schema, read once from files and environment, each value with its origin."""

from infold.settings.layers import Stated
from infold.settings.reading import (
    AgentSettings,
    GatewaySettings,
    PluginSettings,
    RecallSettings,
    Settings,
    StoreLimits,
    read_settings,
)
from infold.settings.schema import KEYS, Key, key_named, nearest
from infold.settings.sources import user_file
from infold.settings.terms import SessionTerms
from infold.settings.values import Value, told

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
