"""Old names of `infold.testing.wire_replies`."""

from infold.testing.wire_replies import gemini_body as body
from infold.testing.wire_replies import gemini_events as events
from infold.testing.wire_replies import gemini_overflow as overflow

__all__ = ["body", "events", "overflow"]
