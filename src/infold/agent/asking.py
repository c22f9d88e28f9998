"""Ask a model and listen, through what may go wrong on the way: a refusal as too large, a busy server, a stream that breaks."""

from collections.abc import Callable
from time import sleep
from typing import Any, assert_never

from infold.agent.events import Happening, Reasoned, Retried, Spoke
from infold.errors import ModelBusy, ModelOverflow
from infold.ports import Calling, Model, ModelRequest, Replied, Said, Thought

MOST_RETRIES = 2
"""How often a model is asked again whose reply broke off: what it said until then has its price each time."""

MOST_WAITS = 5
"""How often a model is asked again that said nothing, beyond what its SDK did already: some half a minute."""

LONGEST_WAIT_SECONDS = 300.0
"""Who is asked to wait longer than this is better told so; work that stands still for hours is nobody's wish."""


class Listener:
    """Asks a model and tells what arrives; `said` is the text of the reply so far, for whoever breaks it off.

    A busy model is asked again after a pause, the next time after twice that, and never sooner than its provider asks for.
    """

    def __init__(
        self,
        model: Model,
        tell: Callable[[Happening], None],
        *,
        pause_seconds: float,
        wait: Callable[[float], None] = sleep,
    ) -> None:
        self.said = ""
        self._model = model
        self._tell = tell
        self._pause_seconds = pause_seconds
        self._wait = wait
        self._has_begun = False

    def ask(self, request: ModelRequest, smaller: Callable[[ModelOverflow], ModelRequest]) -> dict[str, Any]:
        """The whole reply; `smaller` makes another request of one that was refused as too large, or raises.

        Raises `ModelError` where the model does not answer.
        """
        retries = 0
        while True:
            self.said = ""
            try:
                return self._heard(request)
            except ModelOverflow as error:
                request = smaller(error)
                self._tell(Retried(str(error)))
            except ModelBusy as error:
                seconds = max(self._pause_seconds * 2**retries, error.wait_seconds)
                if retries >= (MOST_RETRIES if self._has_begun else MOST_WAITS) or seconds > LONGEST_WAIT_SECONDS:
                    raise
                self._tell(Retried(str(error), seconds))
                self._wait(seconds)
                retries += 1

    def _heard(self, request: ModelRequest) -> dict[str, Any]:
        self._has_begun = False
        for heard in self._model.stream(request):
            self._has_begun = True
            match heard:
                case Said():
                    self.said += heard.text
                    self._tell(Spoke(heard.text))
                case Thought():
                    self._tell(Reasoned(heard.text))
                case Replied():
                    return heard.body
                case Calling():
                    pass
                case _:
                    assert_never(heard)
        raise AssertionError("a model's stream ended without a reply")
