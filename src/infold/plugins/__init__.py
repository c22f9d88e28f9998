"""Plugins: other people's code that is asked about a compaction, found by entry point and kept from doing harm."""

from infold.plugins.hooks import HOOK_NAMES, HookSpecs, hook, hookimpl
from infold.plugins.manager import LONGEST_TEXT, Plugin, PluginHooks, installed_plugins

__all__ = [
    "HOOK_NAMES",
    "HookSpecs",
    "LONGEST_TEXT",
    "Plugin",
    "PluginHooks",
    "hook",
    "hookimpl",
    "installed_plugins",
]
