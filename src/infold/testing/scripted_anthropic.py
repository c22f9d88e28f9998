"""Old names of `infold.testing.wire_replies`."""

from infold.testing.wire_replies import anthropic_body as body
from infold.testing.wire_replies import anthropic_events as events
from infold.testing.wire_replies import anthropic_overflow as overflow

__all__ = ["body", "events", "overflow"]
