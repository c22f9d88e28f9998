"""The bundled plugin `seven-sections`: asks for a summary under seven fixed headings (S3.5).

It is off unless it is chosen by name, and it is the shortest example of a plugin.
"""

from infold.core.summary_request import SEVEN_SECTIONS, Additions
from infold.plugins.hooks import hook

NAME = "seven-sections"


@hook("session.compacting")
def session_compacting() -> Additions:
    """Add the seven headings to what the summariser is asked."""
    return Additions(contexts=(SEVEN_SECTIONS,))
