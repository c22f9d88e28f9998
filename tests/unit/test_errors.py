"""The error tree: drawn, exported, and helpful."""

import re

import pytest

from infold import errors
from infold.errors import (
    BrokenInput,
    DuplicateId,
    HistoryChanged,
    IllegalCut,
    InfoldError,
    KeyRefused,
    ModelBusy,
    ModelError,
    ModelOverflow,
    ModelUnreachable,
    OrphanResult,
    PolicyError,
    PromptTooLarge,
    RequestRefused,
    SessionReentered,
    SettingsError,
    StoreBroken,
    StoreClosed,
    StoreConflict,
    StoreError,
    SummaryFailed,
    UndecodableLog,
    UnknownFormat,
    UnknownKeyword,
    UnknownModel,
    UnknownPreset,
    UnknownReference,
    UnknownSession,
    UnusableKey,
    UsageError,
    WindowExceeded,
)

DEFINED = {value for value in vars(errors).values() if isinstance(value, type) and value.__module__ == errors.__name__}

EXAMPLES: tuple[tuple[InfoldError, str], ...] = (
    (PolicyError("target", "90 is not below 80", remedy="lower the target"), "lower the target"),
    (UnknownKeyword("fit()", "windw", known=("model", "window")), "did you mean 'window'?"),
    (UnknownPreset("fast", known=("infold", "proactive")), "choose one of infold, proactive"),
    (SettingsError("window", "'x' is no number", where="a.toml", remedy="give a number"), "give a number"),
    (DuplicateId("message", "m1"), "give each message an id of its own"),
    (
        OrphanResult("c1", message_id="m1", problem="which nobody made"),
        "append the assistant message that made the call first, and each result once",
    ),
    (UnknownReference("part", "9.9", remedy="name a part by its handle"), "name a part by its handle"),
    (IllegalCut(4, "m4"), "cut at a user message or at the assistant message that makes the call"),
    (UndecodableLog("truncated"), "read it with the version that wrote it, or convert a foreign transcript first"),
    (UnusableKey("tenant", "is endless"), "use a short printable text, such as a hash of it"),
    (UnknownSession("s1"), "list the sessions to see which there are"),
    (StoreClosed("a.db"), "open it again, or close it later"),
    (StoreConflict("s1", expected=3, actual=5), "load it again and repeat what was decided"),
    (StoreBroken("a.db", "the disk is full", remedy="free some space"), "free some space"),
    (ModelOverflow("m", 4_096), "ask it for less at once"),
    (ModelBusy("m", "too many requests"), "try again in a while, or name another model"),
    (ModelBusy("m", "too many requests", wait_seconds=20), "try again in 20 seconds, or name another model"),
    (ModelBusy("m", "too many requests", wait_seconds=4_000), "try again in 67 minutes, or name another model"),
    (ModelUnreachable("m", "http://there", "refused"), "check the address and the network"),
    (KeyRefused("m", "there is no key for it", variable="A_KEY"), "set A_KEY to a key that may use this model"),
    (UnknownModel("m", "there is no such model"), "check the name with --model; 'infold models' lists known ones"),
    (RequestRefused("m", "the request was blocked"), "change what is asked, or name another model"),
    (SummaryFailed("m: is down", ("failed",)), "nothing was folded; ask again, or name another model"),
    (SessionReentered(), "use another session, or call this one after `prepare` has returned"),
    (
        HistoryChanged("its first message is another"),
        "pass the list the session was made from, with new items at its end, or begin a new session",
    ),
    (UnknownFormat("notes.txt", tried=("codex", "pi"), remedy="name the format"), "name the format"),
    (BrokenInput("codex", "no call", remedy="export it again", line=7), "export it again"),
    (
        WindowExceeded(floor_tokens=9_000, usable_tokens=8_000, overhead_tokens=1_000),
        "shorten the system prompt or the newest message, offer fewer tools, lower the reserve or choose a larger model",
    ),
    (
        PromptTooLarge(overhead_tokens=29_500, usable_tokens=27_200, window_tokens=32_000),
        (
            "serve the model with more context and set that as infold's window (--window), offer fewer tools, or "
            "shorten the system prompt"
        ),
    ),
)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """Each error is drawn once in the docstring, under its parent."""
    drawn = re.findall(r"^( +[│├└─ ]*)([A-Z]\w+)(?= |$)", errors.__doc__ or "", re.MULTILINE)
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for indent, name in drawn:
        path = [step for step in path if step[0] < len(indent)]
        parents[name] = path[-1][1] if path else "Exception"
        path.append((len(indent), name))

    assert parents == {cls.__name__: cls.__bases__[0].__name__ for cls in DEFINED}


def test_every_error_class_says_what_it_is_for() -> None:
    """No error goes without a docstring of its own."""
    assert all(cls.__doc__ for cls in DEFINED)


@pytest.mark.parametrize(("error", "remedy"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_a_message_ends_with_what_to_do(error: InfoldError, remedy: str) -> None:
    """Each error's message ends, after a semicolon, with the remedy."""
    assert str(error).endswith(f"; {remedy}")


def test_the_examples_cover_the_leaves() -> None:
    """Every error that is raised, as opposed to caught, is among the examples above."""
    leaves = {cls for cls in DEFINED if not any(other is not cls and issubclass(other, cls) for other in DEFINED)}

    assert leaves == {type(error) for error, _ in EXAMPLES}


def test_numbers_and_names_stay_readable() -> None:
    """An error keeps its numbers and names as attributes beside the message."""
    by_type = {type(error): vars(error) for error, _ in EXAMPLES}

    assert by_type[WindowExceeded] == {"floor_tokens": 9_000, "usable_tokens": 8_000, "overhead_tokens": 1_000}
    assert by_type[IllegalCut] == {"sequence": 4, "message_id": "m4"}
    assert by_type[UnknownPreset] == {"name": "fast", "known": ("infold", "proactive")}
    assert by_type[StoreConflict] == {"session_id": "s1", "expected": 3, "actual": 5}
    assert by_type[StoreBroken] == {"where": "a.db", "problem": "the disk is full"}
    assert by_type[BrokenInput] == {"format_name": "codex", "line": 7}


def test_a_prompt_without_room_is_named() -> None:
    """Where no message is to blame, none is asked to be shortened."""
    error = WindowExceeded(floor_tokens=12_000, usable_tokens=6_800, overhead_tokens=12_000)

    assert str(error).startswith("the system prompt and tools alone are 12,000 tokens")
    assert "newest message" not in str(error)


def test_a_view_that_should_have_fitted_is_told_as_refused() -> None:
    """No number is blamed that is in order: it was the provider who refused."""
    error = WindowExceeded(floor_tokens=15, usable_tokens=6_800, overhead_tokens=5)

    assert str(error).startswith("the provider refused a view of 15 tokens")
    assert "shorten" not in str(error)


def test_a_line_is_named_where_there_is_one() -> None:
    """A broken transcript's error names the line; without one it does not speak of lines."""
    assert str(BrokenInput("pi", "cut off", remedy="export it again", line=3)).startswith("pi at line 3: cut off")
    assert str(BrokenInput("pi", "cut off", remedy="export it again")).startswith("pi: cut off")


def test_a_setting_is_named_where_there_is_one() -> None:
    """S8.1: an error of settings begins with the key and its place, or with the place alone."""
    assert str(SettingsError("window", "it is wrong", where="a.toml", remedy="mend it")).startswith(
        "window (a.toml): it"
    )
    assert str(SettingsError("", "it is broken", where="a.toml", remedy="mend it")).startswith("a.toml: it is broken")


def test_branches_say_who_can_act() -> None:
    """The caller's mistakes are usage errors; a window too small is the user's affair, a store an operator's, a model time's."""
    others = {InfoldError, WindowExceeded, PromptTooLarge, StoreError, StoreConflict, StoreBroken}
    models = {cls for cls in DEFINED if issubclass(cls, ModelError)}

    assert {cls for cls in DEFINED if issubclass(cls, UsageError)} == DEFINED - others - models


def test_the_place_of_an_error_is_where_it_was_raised() -> None:
    """The innermost frame is named; an error that nobody raised has no place."""
    with pytest.raises(ValueError, match="Cannot specify") as caught:
        WindowExceeded(floor_tokens="x", usable_tokens=1, overhead_tokens=1)  # type: ignore[arg-type]

    assert errors.raised_at(caught.value).partition(":")[0] == errors.__file__
    assert errors.raised_at(ValueError()) == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Incorrect API key provided: sk-abc12345678901234567890.", "Incorrect API key provided: ***"),
        ("Authorization: Bearer abc.def-123", "Authorization: ***"),
        ("sent 'Bearer abcdefgh12'", "sent 'Bearer ***'"),
        ("Basic dXNlcjpwYXNz", "Basic ***"),
        ("GET https://h/v1?key=AIzaSyDabcdefghijklmnop&alt=sse", "GET https://h/v1?key=***&alt=sse"),
        ("https://me:pa55word@proxy.local refused", "https://***@proxy.local refused"),
        ("{'api_key': 'mysecretvalue'}", "{'api_key': '***'}"),
        ("key 0123456789abcdef0123456789abcdef", "key ***"),
        ("token eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "token ***"),
        ("status 401: invalid x-api-key", "status 401: invalid x-api-key"),
        ("max tokens: 4096 for model gpt-4o-2024-08-06", "max tokens: 4096 for model gpt-4o-2024-08-06"),
        ("two\nlines \x1b[31mred\0 \ud800", "two lines [31mred"),
    ],
)
def test_no_secret_is_repeated(text: str, shown: str) -> None:
    """B36: API keys, bearer tokens, query keys and credentials in addresses are hidden; what helps a person stays."""
    assert errors.without_secrets(text) == shown


def test_what_is_repeated_is_short_and_quickly_read() -> None:
    """B36: of a message of any length the beginning is looked at, in time that grows with nothing."""
    for text in (
        "a1" * 5_000_000,
        "token" * 2_000_000,
        "-" * 10_000_000,
        "?key=" * 2_000_000,
        "eyJ" + "a." * 5_000_000,
    ):
        assert len(errors.without_secrets(text)) <= 301


def test_a_reason_has_the_status_once() -> None:
    """B36: the status of a refusal stands before its words, unless they have it."""
    error = ModelError("m", "no such key")
    error.status = 401
    said = ModelError("m", "answered with status 401")
    said.status = 401

    assert errors.reason_of(error) == "m: status 401: no such key"
    assert errors.reason_of(said) == "m: answered with status 401"
    assert errors.reason_of(ModelError("m", "is down")) == "m: is down"


@pytest.mark.parametrize(
    ("name", "most", "question"),
    [("inspekt", 1, "did you mean 'inspect'?"), ("mod", 2, "did you mean 'mode' or 'models'?"), ("zebra", 1, "")],
)
def test_a_misspelt_name_is_asked_about(name: str, most: int, question: str) -> None:
    """The nearest names are suggested, as many as are asked for; nothing is if none is similar."""
    assert errors.did_you_mean(name, ["inspect", "models", "mode", "serve"], most=most) == question
