"""Old names of `infold.testing.wire_replies`."""

from infold.testing.wire_replies import chat_body as body
from infold.testing.wire_replies import chat_events as events
from infold.testing.wire_replies import chat_overflow as overflow

__all__ = ["body", "events", "overflow"]
