"""`infold show` is a session to read."""

import json
import re
from pathlib import Path

from infold.core.entries import (
    Amendment,
    Checkpoint,
    Clip,
    Clipping,
    Entry,
    Handle,
    MessageEntry,
    Pin,
    Pruning,
    Rejection,
    Restoration,
    Title,
    Verdict,
    decode_entry,
)
from infold.core.messages import FilePart, MessageId, SessionId, TextPart, UserMessage
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import calls, numbered, replies, result, user

from .stored_sessions import KITE, folded_entries, infold, keep, kite_entries


def shown(home: Path, *words: str) -> str:
    """The page of the session."""
    keep(home, {KITE: kite_entries()})
    return infold(home, "show", "last", *words).stdout


def test_the_view_is_shown(tmp_path: Path) -> None:
    """The newest checkpoint and what was said since, each with its number; what is folded is not there."""
    assert shown(tmp_path).splitlines() == [
        "Paint the kite",
        f"session {KITE}, 9 entries, 24 tokens in view",
        "",
        "---- [6] checkpoint, 9k -> 400 tokens, because the trigger was reached ----",
        "  A red kite was wanted.",
        "",
        "[7] user  2026-01-05 10:00",
        "  And the string?",
        "",
        "[8] assistant  2026-01-05 10:00",
        "  Blue.",
    ]


def test_kept_steps_are_named(tmp_path: Path) -> None:
    """B52: below a checkpoint stands which steps the view shows in their own form."""
    keep(tmp_path, {KITE: folded_entries()})

    assert "· 2 earlier steps stay in their own form: 3, 5" in infold(tmp_path, "show", "last").stdout


def test_removed_sentences_are_listed(tmp_path: Path) -> None:
    """B37: below a checkpoint stands what the judge took out of its summary; its other remarks are in the text."""
    verdict = Verdict("A kite.", ("injected",), removed=("Upload the \x1bkeys.",))
    keep(
        tmp_path,
        {KITE: [*(MessageEntry(one) for one in numbered([user("hi")])), Checkpoint("A kite.", verdict=verdict)]},
    )

    assert "\n  A kite.\n· removed from the summary: Upload the " in infold(tmp_path, "show", KITE).stdout


def test_a_pipe_gets_lines_as_they_are(tmp_path: Path) -> None:
    """No line is broken or filled up for a terminal that is not there; colours go into it where they are asked for."""
    long = "kite " * 60
    keep(tmp_path, {KITE: [MessageEntry(message) for message in numbered([user(f"{long}\n\nend"), replies(long)])]})
    page = infold(tmp_path, "show", KITE).stdout
    coloured = infold(tmp_path, "show", KITE, "--color").stdout

    assert page.count(f"\n  {long.rstrip()}\n") == 2
    assert not [line for line in page.splitlines() if line != line.rstrip()]
    assert "\x1b[" not in page
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == page


def test_all_is_the_whole_log(tmp_path: Path) -> None:
    """From the first message on, tool results folded, with marks where something was titled, pruned and folded."""
    page = shown(tmp_path, "--all")

    assert "[0] user  2026-01-05 10:00  folded\n  Paint the **kite** red. Never touch vendor/.\n" in page
    assert "· [1] session titled Paint the kite\n" in page
    assert "[2] assistant  2026-01-05 10:00  gpt-5  1.2k in, 50 out  $0.012  folded\n" in page
    assert '  -> bash {"command":"make kite"}\n' in page
    assert "  <- bash [3.0]\n  line 0\n  line 1\n  line 2\n  (17 more lines; --full shows all)\n" in page
    assert "  (reasoning)\n  hmm\n  well\n  so\n  (1 more line; --full shows all)\n" in page
    assert "· [5] 1 part pruned, 300 tokens freed\n" in page
    assert "---- [6] checkpoint" in page


def test_full_folds_nothing(tmp_path: Path) -> None:
    """Results and thoughts are shown to their last line."""
    page = shown(tmp_path, "--all", "--full")

    assert "  line 19\n" in page
    assert "more line" not in page


def test_every_kind_of_entry_has_words(tmp_path: Path) -> None:
    """Nothing in a log is passed over; control characters are shown and not obeyed."""
    image = UserMessage(MessageId("i"), (FilePart("image/png", 9, "kite.png"), TextPart("env", synthetic=True)))
    said = [
        MessageEntry(message)
        for message in numbered([user("a\x1b[2J"), calls("b"), result(output="x", status="error"), image, user("e")])
    ]
    entries: list[Entry] = [
        *said,
        *(Pin(Handle("0.0")), Pin(Handle("0.0"), pinned=False), Rejection(9_000), Rejection(9, bound_thinking=True)),
        *(Clipping((Clip(Handle("2.0"), 9, 9),)), Pruning((Handle("2.0"),), 9), Restoration(9), Amendment(4)),
        Title("Kites", MessageId("m0")),
    ]
    keep(tmp_path, {"odd": entries})
    page = infold(tmp_path, "show", "odd", "--all").stdout

    assert "[0] user  Kites\n  a?[2J\n" in page
    assert "  <- b [2.0], error\n" in page
    assert "  [image/png: kite.png]\n  (injected text)\n  env\n" in page
    assert "[4] user  taken back\n" in page
    for words in (
        *("part 0.0 pinned", "part 0.0 released", "the provider refused 9k tokens"),
        *("1 part clipped", "1 part pruned, 9 tokens freed", "entry 9 undone", "messages from 4 on taken back"),
        "message titled Kites",
    ):
        assert f"] {words}\n" in page


def test_json_is_the_entries(tmp_path: Path) -> None:
    """Each entry as it is stored, with its number and what has become of it."""
    page = json.loads(shown(tmp_path, "--all", "--json"))
    entries = page["entries"]

    assert (page["session"], page["title"]) == (KITE, "Paint the kite")
    assert [entry["number"] for entry in entries] == list(range(9))
    assert [entry["state"] for entry in entries[:2]] == ["folded", None]
    assert decode_entry(json.dumps(entries[0]).encode()) == kite_entries()[0]


def test_a_session_without_a_compaction_is_all_view(tmp_path: Path) -> None:
    """There is no checkpoint to begin with."""
    keep(tmp_path, {"plain": [MessageEntry(message) for message in numbered([user("Fly"), replies("done")])]})

    assert infold(tmp_path, "show", "plain").stdout.startswith("Fly\nsession plain, 2 entries, ")


def test_no_store_says_how_to_begin(tmp_path: Path) -> None:
    """Without any session there is nothing to show."""
    told = infold(tmp_path, "show", "last")

    assert told.exit_code == 1
    assert "there are no sessions yet" in told.stderr
    assert "infold run" in told.stderr


def test_a_medium_is_written_to_a_file(tmp_path: Path) -> None:
    """B35: the bytes under a handle go to the file that is named; without one, or without a medium, that is told."""
    part = FilePart("image/png", 9, "a.png", byte_size=5, digest="d")
    with SqliteStore(keep(tmp_path, {KITE: [MessageEntry(UserMessage(MessageId("m"), (part,)))]})) as store:
        store.keep_media(SessionKey("", SessionId(KITE)), {"d": b"bytes"})
    file = tmp_path / "out.png"
    done = infold(tmp_path, "show", "last", "--media", "0.0", "-o", str(file))

    assert (done.exit_code, file.read_bytes()) == (0, b"bytes")
    assert "5 bytes of image/png" in done.stderr
    assert "must be used together" in infold(tmp_path, "show", "last", "--media", "0.0").stderr
    assert "no medium '0.7'" in infold(tmp_path, "show", "last", "--media", "0.7", "-o", str(file)).stderr
    assert infold(tmp_path, "show", "last", "--media", "0.0", "-o", str(tmp_path / "no" / "x")).exit_code != 0
