"""Settings of a process, read once from files and the environment, each value with its origin."""

from infold.settings.resolve import Settings, StoreLimits, read_settings
from infold.settings.schema import KEYS, Key, format_value

__all__ = ["KEYS", "Key", "Settings", "StoreLimits", "format_value", "read_settings"]
