"""Ranking folded content for a query."""

import zlib
from array import array

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.core.recall import (
    LONGEST_LINE,
    MOST_OF_ONE,
    MOST_TOKENS,
    PASSAGE_LINES,
    Document,
    DocumentReader,
    Hit,
    Index,
    IndexSize,
    Kind,
    documents_of,
    render_hits,
    search_tokens,
)
from infold.core.tokens import estimate


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, world", ["hello", "world"]),
        ("getUserName", ["getusername", "get", "user", "name"]),
        ("HTTPServer2", ["httpserver2", "http", "server", "2"]),
        ("snake_case_id", ["snake_case_id", "snake", "case", "id"]),
        ("src/core/recall.py", ["src/core/recall.py", "recall.py", "src", "core", "recall", "py"]),
        ("a/b.go:12", ["a/b.go:12", "a/b.go", "12", "b.go", "a", "b", "go"]),
        ("3,141.5 and 7", ["3141.5", "3141", "5", "and", "7"]),
        ("größer", ["größer"]),
        ("修改文件", ["修改", "改文", "文件"]),
        ("字", ["字"]),
        ("設定を読む", ["設定", "定を", "を読", "読む"]),
        ("한국어", ["한국", "국어"]),
        ("ｆｕｌｌ", ["full"]),
        ("修改a.py文件", ["修改", "a.py", "a", "py", "文件"]),
        ("", []),
    ],
)
def test_text_becomes_tokens(text: str, tokens: list[str]) -> None:
    """Words, identifiers whole and in parts, numbers, and pairs of characters where a script writes no spaces."""
    assert search_tokens(text) == tokens


@pytest.mark.parametrize(
    ("query", "handle"),
    [
        ("where is the parser configured", "1.0"),
        ("parseConfig", "1.0"),
        ("数据库 连接", "2.0"),
        ("データベースの接続", "3.0"),
        ("데이터베이스 연결", "4.0"),
        ("build command failed", "5.0"),
    ],
)
def test_the_right_document_is_found(query: str, handle: str) -> None:
    """English, Chinese, Japanese and Korean queries find the document that speaks of the thing, by title too."""
    index = Index.of(
        (
            Document("0.0", "Nothing of interest here."),
            Document("1.0", "def parse_config(path):\n    return Parser(path)"),
            Document("2.0", "数据库连接失败，请检查配置。"),
            Document("3.0", "データベースの接続に失敗しました。"),
            Document("4.0", "데이터베이스 연결에 실패했습니다."),
            Document("5.0", "", title="bash command: make build → exit 2 failed"),
        )
    )

    assert index.search(query)[0].handle == handle


def test_the_passage_is_shown_not_the_head() -> None:
    """Of a long document the lines around the match are shown."""
    lines = [f"line {number}" for number in range(500)]
    lines[300] = "the retry limit is 17"
    hit = Index.of((Document("1.0", "\n".join(lines)),)).search("retry limit")[0]

    assert "the retry limit is 17" in hit.excerpt
    assert "line 301" in hit.excerpt
    assert len(hit.excerpt.splitlines()) <= PASSAGE_LINES


def test_a_long_line_is_shown_in_pieces() -> None:
    """A line too long to be shown is broken where words end, and by force where there is no such place."""
    words = " ".join(f"word{number}" for number in range(400))
    found = Index.of((Document("1.0", f"{words} needle"), Document("2.0", "x" * 2_000))).search("needle")

    assert "needle" in found[0].excerpt
    assert max(map(len, found[0].excerpt.splitlines())) <= LONGEST_LINE
    assert Index.of((Document("2.0", f"{'x' * 2_000} end"),)).search("end")[0].excerpt.endswith("end")


def test_words_near_each_other_count_more() -> None:
    """Of two passages with the same words the one that has them together comes first."""
    apart = "\n".join(("cache", *("filler" for _ in range(10)), "expiry"))
    together = "\n".join(("cache expiry", *("filler" for _ in range(11))))
    index = Index.of((Document("1.0", together), Document("2.0", apart)))

    assert index.search("cache expiry")[0].handle == "1.0"


def test_of_equals_the_newest_comes_first() -> None:
    """Two runs of the same command: the later one is meant."""
    index = Index.of((Document("1.0", "ran make: ok"), Document("2.0", "ran make: no")))

    assert [hit.handle for hit in index.search("make")] == ["2.0", "1.0"]


def test_the_same_again_is_not_a_hit() -> None:
    """A passage that was found already is not returned twice, and one document does not take every place."""
    same = Index.of((Document("1.0", "the needle"), Document("2.0", "the needle")))
    long = Index.of((Document("1.0", "\n".join(f"needle {number}" for number in range(20 * PASSAGE_LINES))),))

    assert [hit.handle for hit in same.search("needle")] == ["2.0"]
    assert len(long.search("needle")) == MOST_OF_ONE


def test_an_unknown_word_finds_nothing() -> None:
    """Neither an empty index nor one without the word has a hit."""
    assert Index().search("anything") == ()
    assert Index.of((Document("1.0", "something else"),)).search("absent") == ()


def test_an_index_grows() -> None:
    """A document added later is found like those given at first."""
    index = Index.of((Document("1.0", "alpha"),))
    index.add(Document("2.0", "beta"))

    assert index.search("beta")[0].handle == "2.0"
    assert index.search("beta") == Index.of((Document("1.0", "alpha"), Document("2.0", "beta"))).search("beta")


def long_story(documents: int) -> list[Document]:
    """Documents with a common word and a number of their own, of all kinds."""
    kinds: tuple[Kind, ...] = ("given", "own", "echo")
    return [
        Document(f"{n}.0", f"the kite {n} flew\nover hill {n % 7}\nand back", f"run {n}", kinds[n % 3 if n % 11 else 0])
        for n in range(documents)
    ]


def test_a_packed_index_is_as_good_as_the_texts() -> None:
    """B40: an index put together from its pieces finds the same as one made from the documents, and goes on growing."""
    documents = long_story(900)
    whole, middle = Index.of(documents), Index.of(documents[:400]).size
    restored = Index()

    assert restored.unpack(whole.pack(IndexSize(), middle), documents[:400])
    assert restored.unpack(whole.pack(middle, whole.size), documents[400:])
    for index in (whole, restored):
        index.add(Document("900.0", "the kite 17 was mended"))
    assert restored.size == whole.size
    for query in ("kite 17", "hill 3 back", "the kite flew over", "run 42", "absent"):
        assert restored.search(query) == whole.search(query)


def test_a_piece_of_other_documents_is_not_taken() -> None:
    """B40: what was packed for other texts, or was damaged, adds nothing."""
    documents = long_story(5)
    packed = Index.of(documents).pack(IndexSize(), Index.of(documents).size)
    piece = msgspec.msgpack.decode(zlib.decompress(packed))
    beyond = zlib.compress(msgspec.msgpack.encode([*piece[:2], {"kite": array("Q", [9 << 32]).tobytes()}]))
    astray = zlib.compress(msgspec.msgpack.encode([piece[0], [[9, 0, 1, 1]], {}]))
    ragged = zlib.compress(msgspec.msgpack.encode([*piece[:2], {"kite": b"123"}]))
    index = Index()

    assert not index.unpack(packed, documents[:4])
    for wrong in (b"", b"junk", zlib.compress(b"junk"), packed[:-9], beyond, astray, ragged):
        assert not index.unpack(wrong, documents)
    assert index.size == IndexSize()
    assert index.unpack(packed, documents)


def test_common_words_do_not_hide_rare_ones() -> None:
    """B40: where a query's words are in most of a long session, the passage with the rare one is still first."""
    index = Index.of(long_story(2_000))
    rare = index.search("the kite flew over hill 3 and back 1234", most=3)

    assert rare[0].handle == "1234.0"
    assert 0 < len(index.search("the kite flew " + " ".join(map(str, range(1_000, 1_100))))) <= MOST_TOKENS


def test_what_recall_brought_back_is_the_last_resort() -> None:
    """B40: recall's own answers are found only where nothing else is."""
    index = Index.of((Document("1.0", "the key is here"), Document("3.0", "the key, lost", kind="echo")))

    assert [hit.handle for hit in index.search("key")] == ["1.0"]
    assert [hit.handle for hit in index.search("lost")] == ["3.0"]


NAME = MessageId("m")


def asks(tool: str, *call_ids: str) -> Message:
    """Calls of a tool."""
    return AssistantMessage(NAME, tuple(ToolCallPart(call_id, tool, "{}") for call_id in call_ids))


def answers(tool: str, call_id: str) -> Message:
    """The result of a call."""
    return ToolMessage(NAME, (ToolResultPart(call_id, tool, "out"),))


def test_documents_do_not_depend_on_where_reading_began() -> None:
    """B40: wherever no call waits for a result, a new reader goes on as the old one would."""
    messages: list[tuple[int, Message]] = list(
        enumerate(
            (
                UserMessage(NAME, (TextPart("Go."),)),
                asks("bash", "a", "b"),
                answers("bash", "a"),
                AssistantMessage(NAME, (TextPart("The second call got no result."),)),
                asks("bash", "c"),
                UserMessage(NAME, (TextPart("Stop that."),)),
                asks("bash", "d"),
                asks("recall", "e"),
                answers("bash", "d"),
                answers("recall", "e"),
                AssistantMessage(NAME, (TextPart("Done."),)),
                asks("bash", "f"),
            )
        )
    )
    whole = list(documents_of(messages))
    reader, apart = DocumentReader(), list[Document]()
    for sequence, message in messages:
        apart += reader.read(sequence, message)
        reader = DocumentReader() if reader.is_settled else reader
    apart += reader.unanswered()

    assert apart == whole
    assert [one.handle for one in whole] == ["0.0", "2.0", "1.1", "3.0", "4.0", "5.0", "8.0", "9.0", "10.0", "11.0"]
    assert [one.kind for one in whole if one.handle in ("3.0", "8.0", "9.0", "11.0")] == ["own", "given", "echo", "own"]


def test_a_result_stands_under_its_call() -> None:
    """B6: a call's arguments are a result's title, with its outcome; one too long for that is a document of its own."""
    text = "x = 1\n" * 100
    arguments = msgspec.json.encode({"path": ["a.py", None], "text": text}).decode()
    parts = (ToolCallPart("a", "write", arguments), ToolCallPart("b", "bash", '{"command": "make"}'))
    results = (
        ToolResultPart("a", "write", "written"),
        ToolResultPart("b", "bash", "no rule", "error"),
        ToolResultPart("c", "bash", "Exit code 2\nfrom nowhere"),
    )
    found = list(documents_of(enumerate((AssistantMessage(NAME, parts), ToolMessage(NAME, results)))))

    assert [(one.handle, one.kind) for one in found] == [
        ("0.0", "own"),
        ("1.0", "given"),
        ("1.1", "given"),
        ("1.2", "given"),
    ]
    assert found[0].text.startswith("path: a.py\ntext: x = 1\n")
    assert found[2].title == "bash command: make → error"
    assert found[3].title == "bash → exit 2"
    plan = AssistantMessage(NAME, (TextPart(" "),))
    assert list(documents_of([(0, plan)])) == []


def test_a_reply_names_what_it_cannot_show() -> None:
    """Lines of the best hits come first; of the others the names that occur in them, and nothing twice."""
    best = Hit("1.0", 2.0, "def load_config():\n\n    return read_file(path)", "read a.py")
    again = Hit("2.0", 1.9, "def load_config():\n    other line of it")
    rest = Hit("3.0", 1.0, "\n".join(f"call make_thing_{number}(load_config)" for number in range(200)))
    text = render_hits((best, again, rest), budget_tokens=200)

    assert text.startswith("[1.0] read a.py\ndef load_config():\n    return read_file(path)")
    assert text.count("def load_config") == 1
    assert "[3.0]\n… make_thing_0 make_thing_1" in text
    assert "make_thing_5" in (few := render_hits((best, rest), budget_tokens=90))
    assert "make_thing_6" not in few
    assert "make_thing" not in render_hits((best, rest), budget_tokens=40)


def test_passages_of_a_document_stand_under_one_heading() -> None:
    """B6: lines of one part are shown in their order under its handle, with a mark where lines are left out."""
    lines = [f"line {number} of the log" for number in range(5 * PASSAGE_LINES)]
    for place in (3, PASSAGE_LINES + 1, 4 * PASSAGE_LINES):
        lines[place] = f"the needle {place}"
    hits = Index.of((Document("7.0", "\n".join(lines), "cat log"),)).search("needle")
    text = render_hits(hits, budget_tokens=2_000)

    assert len(hits) == 3
    assert text.count("[7.0] cat log") == 1
    assert text.splitlines()[1 : 2 * PASSAGE_LINES + 1] == lines[: 2 * PASSAGE_LINES]
    assert text.splitlines()[2 * PASSAGE_LINES + 1 :] == ["…", *lines[4 * PASSAGE_LINES :]]


def test_later_hits_are_shown_by_the_lines_that_match() -> None:
    """B6: where whole passages no longer fit, the lines with the words are shown, each with its neighbours."""
    texts = [[f"filler {number} {line} {'and so on ' * 4}" for line in range(9)] for number in range(12)]
    for text in texts:
        text[4] = f"the needle of {text[0]}"
    hits = Index.of(Document(f"{number}.0", "\n".join(text)) for number, text in enumerate(texts)).search("needle")
    shown = render_hits(hits, budget_tokens=800)

    assert shown.startswith("[11.0]\n" + "\n".join(line.rstrip() for line in texts[11]))
    assert "\n\n[9.0]\n" + "\n".join(line.rstrip() for line in texts[9][3:6]) + "\n\n" in shown


def test_a_long_path_does_not_outweigh_the_words() -> None:
    """B40: the folders of a path count little, so that the words around it decide."""
    path = "home/ada/work/ferry/packages/server/src/modes/tide.py"
    others = (Document(f"{number}.0", "nothing of note", f"read {path}") for number in range(2, 6))
    index = Index.of((Document("1.0", "the lock limit and retry count", "read notes.md"), *others))

    assert index.search(f"edit {path} retry limit count")[0].handle == "1.0"


def test_a_hit_without_names_takes_no_room() -> None:
    """What is too long to be shown and has no name in it is left out."""
    assert render_hits((Hit("1.0", 1.0, "plain words " * 400),), budget_tokens=100) == ""


words = st.text(st.sampled_from("ab_/.: \nÄ你好カ한1,"), max_size=200)


@settings(max_examples=50)
@given(st.lists(words, max_size=12), words, st.integers(0, 300))
def test_a_reply_is_within_its_budget_and_always_the_same(texts: list[str], query: str, budget: int) -> None:
    """Whatever is asked of whatever documents, the reply keeps to its tokens, and asking again gives the same."""
    found = [Index.of(Document(f"{n}.0", text) for n, text in enumerate(texts)).search(query) for _ in range(2)]

    assert found[0] == found[1]
    assert estimate(render_hits(found[0], budget_tokens=budget), "features") <= budget
