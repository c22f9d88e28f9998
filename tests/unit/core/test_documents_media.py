"""Media as documents for recall."""

import pytest

from infold.core.messages import FilePart, MessageId, TextPart, UserMessage
from infold.core.recall import Document, documents_of


@pytest.mark.parametrize(
    ("part", "described"),
    [
        (
            FilePart("image/png", 85, "shot.png", "https://files.test/1", 12_345),
            "shot.png, image/png, 12,345 bytes, https://files.test/1",
        ),
        (FilePart("application/pdf", 900), "application/pdf"),
    ],
)
def test_a_medium_is_found_by_what_is_known_of_it(part: FilePart, described: str) -> None:
    """B6: name, kind, size and place are what there is to search and to read; the bytes are the caller's."""
    message = UserMessage(MessageId("u"), (TextPart("look"), part))

    assert list(documents_of([(3, message)])) == [Document("3.0", "look"), Document("3.1", described)]
