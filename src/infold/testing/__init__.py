"""Fakes and contracts for code that uses infold or implements its ports.

`ScriptedServer` and `ScriptedModel` answer from a script; `AnthropicRules` is a script that refuses what Anthropic's API would;
`check_store` and `check_model` check an adapter rule by rule.
"""

from infold.testing.anthropic_rules import AnthropicRefusal, AnthropicRules
from infold.testing.model_contract import check_model
from infold.testing.script import Fail, Hang, Say, Script, ScriptedAnswer, ScriptedRequest, Send, Trouble, in_turn
from infold.testing.scripted_model import ScriptedModel
from infold.testing.scripted_server import ScriptedServer
from infold.testing.store_contract import check_store

__all__ = [
    "AnthropicRefusal",
    "AnthropicRules",
    "Fail",
    "Hang",
    "Say",
    "Script",
    "ScriptedAnswer",
    "ScriptedModel",
    "ScriptedRequest",
    "ScriptedServer",
    "Send",
    "Trouble",
    "check_model",
    "check_store",
    "in_turn",
]
