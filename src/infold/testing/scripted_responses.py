"""Old names of `infold.testing.wire_replies`."""

from infold.testing.wire_replies import responses_body as body
from infold.testing.wire_replies import responses_events as events
from infold.testing.wire_replies import responses_overflow as overflow

__all__ = ["body", "events", "overflow"]
