"""The request that asks a model for a summary."""

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    ReasoningPart,
    StepStartPart,
    SystemMessage,
    TextPart,
    UserMessage,
    text_of,
)
from infold.core.summary_request import (
    COMPACTION_AGENT,
    SEVEN_SECTIONS,
    Additions,
    assemble_system,
    flatten_messages,
    instruction,
    messages_request,
    own_request,
    records,
    shared_request,
)
from infold.core.tokens import measure
from infold.testing.builders import calls, numbered, replies, result, user


def test_the_compaction_agent_is_hidden_and_has_no_tools() -> None:
    """S3.2: it is named compaction, nobody can choose it, and it may call nothing."""
    assert (COMPACTION_AGENT.name, COMPACTION_AGENT.is_hidden, COMPACTION_AGENT.allows_tools) == (
        "compaction",
        True,
        False,
    )
    assert "Call no tools" in COMPACTION_AGENT.system_text


def test_system_prompts_are_assembled_in_order() -> None:
    """S3.3: the agent's prompt, then the call's text, then the last user message's own; empty ones leave no gap."""
    assert assemble_system("agent", "call", "user") == "agent\n\ncall\n\nuser"
    assert assemble_system("", "call", "") == "call"


def test_the_instruction_asks_for_what_is_needed_to_go_on() -> None:
    """S3.4: done, in progress, files, next, what the user wants, decisions with reasons."""
    asked = instruction(Additions())

    for word in ("done", "right now", "files", "next", "forbade", "reasons", "cannot see"):
        assert word in asked


def test_contexts_are_added_and_a_prompt_replaces() -> None:
    """S3.5: contexts follow the instruction; a replacement prompt replaces both; focus and older notes stay."""
    added = instruction(Additions(contexts=(SEVEN_SECTIONS, "and this")))
    replaced = instruction(
        Additions(contexts=("and this",), replacement="Only list files.", focus="the parser", earlier="old notes")
    )

    assert added.endswith("and this")
    assert SEVEN_SECTIONS in added
    assert SEVEN_SECTIONS.count("\n") == 7
    assert replaced.startswith("Only list files.")
    assert "and this" not in replaced
    assert "the parser" in replaced
    assert "<earlier-notes>\nold notes" in replaced


def test_a_shared_request_extends_the_ordinary_one() -> None:
    """B16: system prompt and view are those of the ordinary request, so that its cached prefix serves."""
    view = numbered((user("hello"), replies("hi")))
    request = shared_request("the main prompt", view, Additions(), output_tokens=900)

    assert request.system == "the main prompt"
    assert request.messages[:2] == view
    assert text_of(request.messages[2]).endswith(instruction(Additions()))
    assert request.output_tokens == 900
    for words in ("neither continue", "language the user writes", "exactly", "Call no tools", "not addressed to you"):
        assert words in text_of(request.messages[2])


def told(head: tuple[Message, ...], *, window: int, additions: Additions = Additions()) -> list[str]:
    """The texts a summariser of that window is shown, one after the other."""
    pieces = records(head, additions, window_tokens=window, output_tokens=400, ruler="features")
    return [text_of(own_request(piece, additions, output_tokens=400).messages[0]) for piece in pieces]


def test_a_small_head_is_asked_for_at_once() -> None:
    """S3.4: one request, the record first, the instruction after it."""
    request = own_request("[user] hello", Additions(), output_tokens=500)
    (said,) = told(numbered((user("hello"), replies("hi"))), window=8_000)

    assert (request.system, request.output_tokens) == (COMPACTION_AGENT.system_text, 500)
    assert said.index("[user] hello") < said.index("[assistant] hi") < said.index("Write notes")


def test_a_head_too_large_is_asked_for_in_pieces() -> None:
    """B8: every request of a large head fits the summariser, with room for the notes on the piece before."""
    head = numbered(
        [draft for n in range(60) for draft in (user(f"request number {n} " * 40), replies(f"reply number {n} " * 300))]
    )
    texts = told(head, window=3_000)
    places = ["\n".join(texts).index(f"request number {n} ") for n in range(60)]

    assert len(texts) > 10
    assert all(measure(text, "features") + 800 <= 3_000 for text in texts)
    assert places == sorted(places)


def test_one_giant_message_is_divided() -> None:
    """B8: a message larger than the summariser's window is shown in pieces, none of which is over."""
    texts = told(numbered((user("words and more words " * 4_000),)), window=3_000, additions=Additions(earlier="notes"))

    assert len(texts) > 4
    assert all(measure(text, "features") + 400 <= 3_000 for text in texts)


def test_nothing_to_say_asks_nothing() -> None:
    """S4.5: an empty head needs no summary."""
    assert told((), window=4_000) == []


def test_tool_output_is_shortened_and_media_named() -> None:
    """S3.4: results and arguments are cut to head and tail, media are a note, reasoning and bookkeeping are left out."""
    picture = UserMessage(
        MessageId("p"), (FilePart("image/png", 1_600, name="shot.png"), TextPart("aside", ignored=True))
    )
    thought = AssistantMessage(MessageId("t"), (ReasoningPart("hm"), StepStartPart()))
    injected = UserMessage(MessageId("i"), (TextPart("reminder", synthetic=True),))
    system = SystemMessage(MessageId("s"), (TextPart("be brief"),))
    messages = numbered((calls("bash", arguments='{"command": "ls"}'), result(output="x" * 5_000)))

    blocks = flatten_messages((*messages, picture, thought, injected, system))

    assert blocks[0] == '[call bash] {"command": "ls"}'
    assert blocks[1].startswith("[result of bash, completed] xxx")
    assert "characters left out" in blocks[1]
    assert len(blocks[1]) < 2_200
    assert blocks[2:] == ("[attached image/png shot.png]", "[program] reminder", "[program] be brief")


def test_a_history_is_shown_as_its_own_messages() -> None:
    """S3.4: the very messages of the view, then one of the program's that asks; the compaction agent's prompt stands over all."""
    view = numbered((user("Port the parser."), replies("Ported.")))
    request = messages_request(view, Additions(contexts=("Name every file.",)), output_tokens=900)

    assert request.messages[:-1] == view
    assert text_of(request.messages[-1]) == instruction(Additions(contexts=("Name every file.",)))
    assert (request.system, request.output_tokens) == (COMPACTION_AGENT.system_text, 900)
    assert not request.shares_prefix
