"""A place in, a store out; a name in, a summariser out."""

import subprocess
import sys
from pathlib import Path

import pytest

from infold.core.summary import SummaryRequest
from infold.errors import UsageError
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore
from infold.wiring import open_store, summariser_for

ASKING = """
import sys
sys.modules[{missing!r}] = None
from infold.wiring import summariser_for
try:
    print(summariser_for({model!r}).__self__.__module__)
except Exception as error:
    print(type(error).__name__, error)
"""


def asked(model: str, *, missing: str = "no_such_module", **environment: str) -> str:
    """What a process with that environment says of a summariser by that name."""
    code = ASKING.format(model=model, missing=missing)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return run.stdout


def test_a_place_names_its_store(tmp_path: Path) -> None:
    """B27: memory by its name, a file by its path."""
    file = open_store(f"sqlite:{tmp_path / 'a.sqlite3'}")
    assert isinstance(file, SqliteStore)
    file.close()

    assert isinstance(open_store("memory"), MemoryStore)
    assert (tmp_path / "a.sqlite3").exists()


def test_no_place_is_told() -> None:
    """An empty place is answered with what may stand there."""
    with pytest.raises(UsageError, match="give 'memory'"):
        open_store("")


def test_a_callable_is_its_own_summariser() -> None:
    """What is no name is given back as it is, and nothing stays nothing."""

    def summarise(request: SummaryRequest) -> str:
        return str(request)

    assert summariser_for(summarise) is summarise
    assert summariser_for(None) is None


@pytest.mark.slow
def test_a_name_chooses_its_provider() -> None:
    """S3.2: Claude is asked through its own SDK, every other model through OpenAI's, at whatever address that is told."""
    claude = asked("anthropic/claude-haiku-4-5", ANTHROPIC_API_KEY="k")
    local = asked("qwen3-8b", OPENAI_API_KEY="k", OPENAI_BASE_URL="http://127.0.0.1:9/v1")

    assert claude.strip() == "infold.models.anthropic"
    assert local.strip() == "infold.models.openai_chat"


@pytest.mark.slow
@pytest.mark.parametrize(("model", "package"), [("claude-haiku-4-5", "anthropic"), ("gpt-4o", "openai")])
def test_a_missing_package_is_told(model: str, package: str) -> None:
    """The error says what to install, or to name another model."""
    told = asked(model, missing=package)

    assert told.startswith(f"UsageError {model} needs {package}")
    assert f"pip install 'infold[{package}]', or name another model" in told
