"""Old names of `infold.testing.scripted_server`."""

from infold.testing.scripted_server import MODEL as MODEL
from infold.testing.scripted_server import ScriptedServer as ScriptedServer
from infold.testing.wire_replies import REPLY_WRITERS as SPEECH

__all__ = ["SPEECH"]
