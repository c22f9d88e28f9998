"""Which result answers which call."""

from infold.core.messages import AssistantMessage, MessageId, ToolCallPart, ToolMessage, ToolResultPart, calls_of
from infold.formats.pairing import Asked, Pairing, by_name

HERE = MessageId("m4")


def test_a_result_finds_its_call_once() -> None:
    """A call is answered once; a second result is an orphan."""
    pairing = Pairing()
    assert pairing.call("a", "bash", HERE) == "a"
    assert pairing.result("a") == Asked("a", "bash")
    assert pairing.result("a") is None


def test_repeated_ids_become_unique() -> None:
    """A server that numbers its calls anew each turn gets ids that the log accepts, and they map back."""
    pairing = Pairing()
    ids = []
    for _ in range(3):
        ids.append(pairing.call("call_0", "bash", HERE))
        assert pairing.result("call_0") == Asked(ids[-1], "bash")
    assert ids == ["call_0", "call_0#2", "call_0#3"]
    assert pairing.aliases == {"call_0#2": "call_0", "call_0#3": "call_0"}


def test_a_made_id_never_meets_a_given_one() -> None:
    """An id that looks like one of ours is stepped over."""
    pairing = Pairing()
    assert pairing.call("a#2", "bash", HERE) == "a#2"
    assert [pairing.call("a", "bash", HERE) for _ in range(2)] == ["a", "a#3"]


def test_calls_without_ids_pair_by_name_in_order() -> None:
    """The oldest open call of a name is answered first."""
    pairing = Pairing()
    ids = [pairing.call("", tool, HERE) for tool in ("read", "bash", "read")]
    assert ids == ["m4.0", "m4.0#2", "m4.0#3"]
    assert [pairing.result(by_name("read")) for _ in range(2)] == [Asked("m4.0", "read"), Asked("m4.0#3", "read")]


def test_open_calls_are_found_again_after_a_restart() -> None:
    """A pairing made from the log's messages knows what is open and what was used."""
    calls = AssistantMessage(MessageId("m0"), (ToolCallPart("a", "bash", "{}"), ToolCallPart("m0.0", "read", "{}")))
    again = AssistantMessage(MessageId("m2"), (ToolCallPart("a#2", "bash", "{}"),))
    pairing = Pairing.after([calls, ToolMessage(MessageId("m1"), (ToolResultPart("a", "bash", "x"),)), again])

    assert pairing.result("a") == Asked("a#2", "bash")
    assert pairing.result(by_name("read")) == Asked("m0.0", "read")
    assert pairing.aliases == {"m0.0": "", "a#2": "a"}
    assert pairing.call("a", "bash", HERE) not in ("a", "a#2")


def test_an_id_may_be_missing_on_either_side() -> None:
    """A result is its id's, where a call has that id; else it answers the oldest open call of its tool, by id or not."""
    pairing = Pairing()
    ids = [pairing.call(wire_id, tool, HERE) for wire_id, tool in (("a", "bash"), ("", "bash"), ("b", "bash"))]
    pairing.expect(["b", "never"])
    copied = pairing.copy()

    assert [pairing.result_of(wire_id, "bash") for wire_id in ("b", "", "new", "a")] == [
        Asked("b", "bash"),
        Asked("a", "bash"),
        Asked(ids[1], "bash"),
        None,
    ]
    assert [copied.result_of("", tool) for tool in ("read", "bash", "bash", "bash")] == [
        None,
        Asked("a", "bash"),
        Asked(ids[1], "bash"),
        None,
    ]
    assert copied.result("b") == Asked("b", "bash")


def test_an_id_that_looks_repeated_is_closed_as_it_is() -> None:
    """A call whose own id ends like one of ours is not open any more once it was answered."""
    asked = AssistantMessage(MessageId("m0"), (ToolCallPart("a", "bash", "{}"), ToolCallPart("a#2", "bash", "{}")))
    pairing = Pairing()
    for call in calls_of(asked):
        pairing.call(call.call_id, call.tool, HERE)

    assert [pairing.result_of("", "bash") for _ in range(3)] == [Asked("a", "bash"), Asked("a#2", "bash"), None]
    assert pairing.result("a#2") is None
