"""The hooks by name, and the mark that makes a function one of them."""

import subprocess
import sys

import pytest
from pluggy import PluginManager

from infold.core.summary_request import Additions
from infold.errors import UsageError
from infold.plugins.hooks import GROUP, HOOK_NAMES, HookSpecs, hook
from infold.ports import Occasion

SPECS = {name for name, value in vars(HookSpecs).items() if hasattr(value, f"{GROUP}_spec")}


def test_every_hook_goes_by_its_names() -> None:
    """S3.5: each hook has a dotted name and its own; the documented alias of the compacting hook is one."""
    dotted = {spec: name for name, spec in reversed(HOOK_NAMES.items()) if "." in name}

    assert set(HOOK_NAMES.values()) == set(dotted) == SPECS
    assert set(HOOK_NAMES) >= SPECS
    assert HOOK_NAMES["experimental.session.compacting"] == HOOK_NAMES["session.compacting"] == "session_compacting"


@pytest.mark.parametrize("name", HOOK_NAMES)
def test_a_function_of_any_name_can_be_a_hook(name: str) -> None:
    """S3.5: a marked function is found by what it was marked as, not by what it is called."""

    class Marked:
        @hook(name)
        def any_name(self) -> None:
            """Say nothing."""

    manager = PluginManager(GROUP)
    manager.add_hookspecs(HookSpecs)
    manager.register(Marked())
    manager.check_pending()

    assert len(getattr(manager.hook, HOOK_NAMES[name]).get_hookimpls()) == 1


def test_marking_leaves_a_function_as_it_is() -> None:
    """A hook can still be called by itself, as a test of the plugin would."""

    @hook("session.compacting")
    def more(occasion: Occasion | None) -> Additions:
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

    async def later(occasion: Occasion) -> Additions | None:
        return None

    with pytest.raises(UsageError, match="plain function"):
        hook("session.compacting")(later)


@pytest.mark.slow
def test_the_library_loads_without_plugins() -> None:
    """Importing infold, its core and `fit` does not import pluggy."""
    code = (
        "import pkgutil, sys, infold, infold.core\n"
        "for found in pkgutil.iter_modules(infold.core.__path__, 'infold.core.'): __import__(found.name)\n"
        "infold.fit\n"
        "sys.exit('pluggy' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
