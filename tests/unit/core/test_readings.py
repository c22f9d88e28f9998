"""A text is read once."""

from infold.core.tokens import MOST_REMEMBERED, cache_by_text, remembered


def test_a_text_is_read_once() -> None:
    """B17: what was read before is not read again."""
    read: list[str] = []

    def length(text: str) -> int:
        read.append(text)
        return len(text)

    count = cache_by_text(length)

    assert [count("abc"), count("abc"), count("abcd")] == [3, 3, 4]
    assert read == ["abc", "abcd"]


def test_memory_is_bounded() -> None:
    """B17: beyond a bound everything is forgotten, and read again when it comes back."""
    read: list[str] = []

    def length(text: str) -> int:
        read.append(text)
        return len(text)

    count = cache_by_text(length)
    for number in range(MOST_REMEMBERED + 1):
        count(str(number))
    count("0")

    assert read.count("0") == 2


def test_script_is_told_by_bytes() -> None:
    """B15: text mostly outside ASCII is told from text with a few such characters."""
    assert remembered("数据库连接失败").is_wide
    assert not remembered("plain words").is_wide
    assert not remembered("one naïve café among many ordinary words").is_wide
