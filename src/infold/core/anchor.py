"""The newest usage a provider reported, held beside what stood in the log at that moment."""

from msgspec import Struct

from infold.core.messages import Usage
from infold.core.tokens import Size


class Anchor(Struct, frozen=True):
    """The newest reported usage, the reply it came with, and the size of the live messages at that moment.

    `is_believed`: so few tokens can be what was sent.
    """

    usage: Usage
    sequence: int
    size: Size
    reply_size: Size
    is_believed: bool = True
