"""Plugins: foreign code that takes part in compactions, found by entry point and isolated from the session."""

from infold.plugins.hooks import HOOK_NAMES, HookSpecs, hook
from infold.plugins.runner import LONGEST_TEXT, Plugin, PluginHooks, installed_plugins

__all__ = [
    "HOOK_NAMES",
    "HookSpecs",
    "LONGEST_TEXT",
    "Plugin",
    "PluginHooks",
    "hook",
    "installed_plugins",
]
