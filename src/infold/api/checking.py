"""What callers give, checked before it reaches code that trusts it: a wrong kind is told together with what to pass."""

from infold.core.budget import Window
from infold.core.policy import Policy
from infold.engine.circumstances import Beside
from infold.errors import UsageError, kind_of
from infold.ports import FullStore


def check_terms(model: object, window: object, policy: object) -> None:
    """Raise `UsageError` for a model, a window or a policy of a wrong kind."""
    if model is not None and not isinstance(model, str):
        raise UsageError(f"the model is {kind_of(model)}; give its name as text, such as 'gpt-5'")
    if window is not None and not isinstance(window, Window) and not _is_whole(window):
        raise UsageError(f"the window is {window!r}; give a whole number of tokens such as 8000, or a Window")
    if not isinstance(policy, str | Policy):
        raise UsageError(f"the policy is {kind_of(policy)}; give a preset's name such as 'infold', or a Policy")


def check_plugins(plugins: object) -> None:
    """Raise `UsageError` for a text where a list of plugins belongs; letter by letter it would be one."""
    if isinstance(plugins, str):
        raise UsageError(f"the plugins are one text; give a list, such as installed_plugins([{plugins!r}])")


def check_store(store: object) -> None:
    """Raise `UsageError` for what is no store, above all for the place of one."""
    if isinstance(store, str):
        raise UsageError(f"the store is a text; open it first: open_store({store!r})")
    if not hasattr(store, "newest_first"):
        raise UsageError(f"the store is {kind_of(store)}; give what open_store(…) gives, or a {FullStore.__name__}")


def text(what: str, value: str, *, example: str) -> str:
    """The value, if it is text; raises `UsageError` otherwise."""
    if not isinstance(value, str):
        raise UsageError(f"the {what} is {kind_of(value)}; give text, such as {example!r}")
    return value


def whole(what: str, value: int) -> int:
    """The value, if it is a whole number; raises `UsageError` otherwise."""
    if not _is_whole(value):
        raise UsageError(f"{what} is {value!r}; give a whole number")
    return value


def beside(system: object, tools: object, output_tokens: int) -> Beside:
    """What is sent beside a request's messages."""
    return Beside(system, tools, whole("output_tokens", output_tokens))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
