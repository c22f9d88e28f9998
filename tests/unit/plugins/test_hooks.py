"""The hooks by name, and the mark that makes a function one of them."""

import pytest

from infold.core.summary_request import Additions
from infold.errors import UsageError
from infold.plugins.hooks import HOOK_NAMES, HookSpecs, hook
from infold.ports import CompactionContext


def test_every_hook_goes_by_its_names() -> None:
    """S3.5: each hook has a dotted name and its own; the documented alias of the compacting hook is one."""
    specs = {name for name in vars(HookSpecs) if not name.startswith("_")}

    assert {hook for name, hook in HOOK_NAMES.items() if "." in name} == specs
    assert set(HOOK_NAMES) >= specs
    assert HOOK_NAMES["experimental.session.compacting"] == HOOK_NAMES["session.compacting"] == "session_compacting"


def test_marking_leaves_a_function_as_it_is() -> None:
    """A hook can still be called by itself, as a test of the plugin would."""

    @hook("session.compacting")
    def more(occasion: CompactionContext | None) -> Additions:
        return Additions(contexts=("more",))

    assert more(None) == Additions(contexts=("more",))


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("session.compactin", "did you mean 'session.compacting'?"),
        ("compaction_before", "did you mean 'compaction.before'?"),
        ("zzz", "choose one of session.compacting, "),
    ],
)
def test_an_unknown_hook_is_refused(name: str, advice: str) -> None:
    """A misspelt hook would never be asked, so it is an error that names the nearest one."""
    with pytest.raises(UsageError, match=name) as caught:
        hook(name)

    assert advice in str(caught.value)


def test_what_must_be_awaited_is_refused() -> None:
    """Hooks are called; an `async def` would say nothing, so it is an error when it is marked."""

    async def later(occasion: CompactionContext) -> Additions | None:
        return None

    with pytest.raises(UsageError, match="plain function"):
        hook("session.compacting")(later)
