"""What a user attached: which lines of a checkpoint tell of it once it is folded."""

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.checkpoint_text import TextRoom, render_checkpoint
from infold.core.compact import compact
from infold.core.events import InstructionStubbed
from infold.core.extract import extract
from infold.core.gauge import PlanInputs
from infold.core.ledger import MOST_QUOTES, Ledger, Quote, merge
from infold.core.messages import FilePart, Message, MessageId, Part, TextPart, UserMessage, is_genuine_user, media_label
from infold.core.policy import INFOLD
from infold.core.recall import Document, documents_of
from infold.core.summary_request import flatten_messages
from infold.testing.builders import calls, log_of, numbered, replies, result, user

IMAGE = FilePart("image/png", 85, "mockup.png", byte_size=12_345, digest="d1")
SPEC = TextPart("SPEC: the button must be 12px.", synthetic=True, document="spec.txt")


def says(*parts: Part) -> UserMessage:
    """A user message of these parts."""
    return UserMessage(MessageId(""), parts)


def fold_of(*drafts: Message, recall: bool = True, budget_tokens: int = 2_000) -> str:
    """The checkpoint over these messages."""
    ledger = extract(enumerate(numbered(drafts)))
    return render_checkpoint(
        ledger, TextRoom(budget_tokens, budget_tokens * 6 // 10), rule="features", recall=recall
    ).text


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (IMAGE, '[attached: image/png "mockup.png" (12 kB)]'),
        (replace(IMAGE, name="", byte_size=70), "[attached: image/png (70 bytes)]"),
        (replace(IMAGE, byte_size=21_400_000, digest=""), '[attached: image/png "mockup.png" (21.4 MB, not stored)]'),
        (FilePart("image/*", 85, reference="https://a.test/b"), "[attached: image/* https://a.test/b]"),
        (FilePart("application/pdf", 9, 'a "b"\nc' + "x" * 900, digest="d"), "[attached: application/pdf \"a 'b' c"),
    ],
)
def test_a_medium_has_a_line(part: FilePart, line: str) -> None:
    """B35: a line says kind, name, size and place of a medium, whether its bytes are kept, and is one line of bounded length."""
    assert media_label(part).startswith(line)
    assert len(media_label(part)) < 200
    assert "\n" not in media_label(part)


@pytest.mark.parametrize("recall", [True, False])
def test_attachments_of_a_folded_message_are_listed(recall: bool) -> None:
    """B6, B35: the checkpoint lists the media and quotes the documents; a handle stands there only where recall is offered."""
    text = fold_of(says(TextPart("Rebuild this page."), IMAGE, SPEC), replies("ok"), recall=recall)

    assert f"- Rebuild this page.{' [0.0]' if recall else ''}\n" in text
    assert f'- [attached: image/png "mockup.png" (12 kB)]{" [0.1]" if recall else ""}\n' in text
    assert 'attached: text "spec.txt"]\nSPEC: the button must be 12px."""' in text
    assert ("0.2" in text) == recall
    assert text.count("12px") == 1


def test_an_image_alone_is_the_request() -> None:
    """B2, B35: a first message without words is still the first request, and is named once; so is a latest one."""
    text = fold_of(says(IMAGE), replies("I see."), says(SPEC), replies("ok"))

    assert 'first request, verbatim:\n- [attached: image/png "mockup.png" (12 kB)] [0.0]\n' in text
    assert 'latest request, verbatim:\n- """[attached: text "spec.txt"]' in text
    assert "Attached by the user" not in text
    assert text.count("mockup.png") == 1


def test_equal_media_are_told_each() -> None:
    """B35: two media of which the same is known are two lines, each with its own handle."""
    text = fold_of(says(TextPart("Before and after:"), IMAGE, IMAGE))

    assert [line[-6:] for line in text.splitlines() if "mockup" in line] == [" [0.2]", " [0.1]"]


def test_a_long_document_stands_by_its_beginning() -> None:
    """B2, B35: of a long document the checkpoint has the beginning and its handle, and an event names it."""
    long = TextPart("The feed has many fields. " * 400, synthetic=True, document="feed.md")
    text = fold_of(says(TextPart("Port it."), long))
    inputs = PlanInputs(INFOLD, budget_for(Window(6_000), INFOLD))
    story = [says(TextPart("Port it."), long), *(one for _ in range(30) for one in (calls("bash"), result(900)))]
    events = compact(log_of(numbered(story)), inputs).events

    assert "characters in all; recall 0.1]" in text
    assert len(text) < 3_000
    assert any("0.1" in event.handles for event in events if isinstance(event, InstructionStubbed))


def test_attachments_are_carried_from_fold_to_fold() -> None:
    """B3, B35: what an older checkpoint knew of attachments is in the next, up to a limit; the rest is named."""
    many = Ledger(attachments=tuple(Quote(f"{number}.0", "[attached: image/png]") for number in range(MOST_QUOTES + 2)))
    merged = merge(many, Ledger(attachments=(Quote("900.0", "[attached: image/gif]"),)))

    assert len(merged.attachments) == MOST_QUOTES
    assert merged.attachments[-1].handle == "900.0"
    assert merge(merge(many, Ledger()), Ledger()).attachments == many.attachments[-MOST_QUOTES:]
    assert merge(Ledger(attachments=(Quote("1.0", "a"),)), Ledger()).forgotten == ()


def test_a_small_checkpoint_counts_what_it_leaves_out() -> None:
    """B35: attachments stay within the room that a checkpoint has."""
    drafts = [says(TextPart(f"Look at {number}."), replace(IMAGE, name=f"shot-{number}.png")) for number in range(60)]
    text = fold_of(*drafts, budget_tokens=400)

    assert "Attached by the user" in text
    assert "more" in text


def test_a_document_is_the_users() -> None:
    """B2, B35: a message with a document alone is a person's, the summariser is told so, and recall finds it by its title."""
    message = numbered([says(SPEC)])[0]

    assert is_genuine_user(message)
    assert flatten_messages([message]) == ("[user] SPEC: the button must be 12px.",)
    assert list(documents_of([(0, message)])) == [Document("0.0", SPEC.text, title="spec.txt")]
    assert not is_genuine_user(numbered([user("reminder", synthetic=True)])[0])
