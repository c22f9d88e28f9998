"""Old names of `infold.testing.script`."""

from infold.testing.script import FAILURE as FAILURE
from infold.testing.script import Fail as Fail
from infold.testing.script import Hang as Hang
from infold.testing.script import Say as Say
from infold.testing.script import Script as Script
from infold.testing.script import ScriptedAnswer as Answer
from infold.testing.script import ScriptedRequest as ScriptedRequest
from infold.testing.script import StreamEvent as Told
from infold.testing.script import Trouble as Trouble
from infold.testing.script import WireReply as Reply
from infold.testing.script import count_usage as spoken_usage
from infold.testing.script import in_turn as in_turn
from infold.testing.script import split_text as pieces_of

__all__ = ["Answer", "Reply", "Told", "pieces_of", "spoken_usage"]
