"""What infold assumes about Gemini's API: thought signatures, counts, refusals."""

from collections.abc import Sequence

from infold.formats.codec import Item, dict_or_empty, dicts_in
from infold.formats.registry import GEMINI

from .api import (
    Answer,
    Api,
    CannotTell,
    Check,
    Finding,
    Once,
    Provider,
    expect,
    expect_accepted,
    expect_count,
    expect_overflow,
    expect_refused,
    expect_stream,
    expect_usage,
    large_text,
    sample_texts,
)

PROVIDER = Provider(
    name="gemini",
    base_url="https://generativelanguage.googleapis.com",
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    model="gemini-3.5-flash-lite",
    overflow_model="gemini-3.5-flash-lite",
    headers=lambda key: {"x-goog-api-key": key},
)

STOCK: Item = {
    "name": "stock",
    "description": "Return how many pieces of an article are in stock.",
    "parameters": {"type": "object", "properties": {"article": {"type": "integer"}}, "required": ["article"]},
}
QUESTION = "Look up the stock of the article whose number is the fifth prime above 100, with the tool."
FORMATS = "docs/reference/wire-formats.md"


class GeminiChecks:
    """The checks, and the reply with a signed call that many of them send back in one changed form or another."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._reply = Once(self._call)

    def checks(self) -> tuple[Check, ...]:
        return (*self._plain(), *self._limits(), *self._signatures())

    # Plain requests.

    def _plain(self) -> tuple[Check, ...]:
        return (
            Check(
                name="usage",
                assumes="usageMetadata has promptTokenCount and candidatesTokenCount; STOP is the usual end",
                where="infold.formats.gemini.usage",
                run=lambda: _usage(self._ask([_user("Say: ready.")])),
            ),
            Check(
                name="usage, sum",
                assumes="totalTokenCount is the sum of prompt, candidates and thoughts",
                where="infold.formats.gemini.usage",
                run=self._sum,
            ),
            Check(
                name="stream",
                assumes="a stream of server-sent events has pieces that infold puts together, with usage in the last",
                where="infold.formats.gemini.GeminiReply",
                run=lambda: expect_stream(
                    GEMINI, self._ask([_user("Say: ready.")], method="streamGenerateContent?alt=sse")
                ),
            ),
            *(
                Check(
                    name=f"count, {kind}",
                    assumes=f"the count of {kind} text is within the bounds of the model's family",
                    where="infold.catalogue.lookup.FAMILIES",
                    run=lambda text=text: self._count(text),  # type: ignore[misc]  # a default binds the loop's value
                    input_tokens=0,
                    output_tokens=0,
                )
                for kind, text in sample_texts().items()
            ),
        )

    def _sum(self) -> Finding:
        answer = self._ask([_user("Which is larger, 9.11 or 9.9? Think about it, then say one number.")])
        if not answer.is_accepted:
            return expect_accepted(answer)
        used = GEMINI.usage(answer.body)
        parts = used.prompt + used.output + used.reasoning if used else None
        return expect(used is not None and used.total == parts, f"{used}, parts add up to {parts}")

    def _count(self, text: str) -> Finding:
        answer = self._api.post(f"/v1beta/models/{self._api.model}:countTokens", {"contents": [_user(text)]})
        counted = answer.body.get("totalTokens")
        return expect_count(self._api.model, text, counted) if answer.is_accepted else expect_accepted(answer)

    # Limits.

    def _limits(self) -> tuple[Check, ...]:
        return (
            Check(
                name="overflow",
                assumes="a request over the window is refused in words that infold knows, with size and limit",
                where="infold.formats.overflow.PHRASES",
                run=self._overflow,
                is_refused=True,
            ),
            Check(
                name="output limit",
                assumes="a reply that reaches maxOutputTokens ends with MAX_TOKENS, which infold reads as `length`",
                where="infold.formats.gemini.finish",
                run=self._output_limit,
            ),
            Check(
                name="unknown field",
                assumes="an unknown field is refused, and the refusal is not taken for an overflow",
                where="infold.formats.overflow.recognise",
                run=self._unknown_field,
            ),
        )

    def _overflow(self) -> Finding:
        window = self._api.window_tokens
        text = large_text(window * 5 // 4)
        answer = self._ask([_user(text)], model=self._api.overflow_model)
        return expect_overflow(answer, window)

    def _output_limit(self) -> Finding:
        answer = self._ask([_user("Count from 1 to 200 in words.")], generationConfig={"maxOutputTokens": 8})
        if not answer.is_accepted:
            return expect_accepted(answer)
        reason = next((one.get("finishReason") for one in dicts_in(answer.body.get("candidates"))), None)
        if reason == "STOP":
            raise CannotTell("the reply was complete all the same")
        return expect(GEMINI.finish(answer.body) == "length", f"ended with {reason!r}")

    def _unknown_field(self) -> Finding:
        answer = self._ask([_user("Say: ready.")], infoldLiveCheck=True)
        if answer.is_accepted:
            raise CannotTell("accepted: unknown fields are ignored here")
        return expect(answer.overflow is None, f"refused: {answer.refusal}")

    # Thought signatures.

    def _signatures(self) -> tuple[Check, ...]:
        return (
            Check(
                name="signature, present",
                assumes="the first function call of a reply has a thoughtSignature",
                where=FORMATS,
                run=self._is_signed,
                calls=1,
                output_tokens=600,
            ),
            Check(
                name="signature, unchanged",
                assumes="a signed call is accepted with its result",
                where=FORMATS,
                run=lambda: expect_accepted(self._send_back([_user(QUESTION), *self._answered()])),
            ),
            Check(
                name="signature, missing",
                assumes="a call of the turn under way without its signature is refused, so infold never removes one",
                where=FORMATS,
                run=self._missing,
            ),
            Check(
                name="signature, missing in an earlier turn",
                assumes="in an earlier turn the signature may be missing",
                where=FORMATS,
                run=self._missing_earlier,
            ),
            Check(
                name="signature, changed prefix",
                assumes="a signed call behind a changed message is accepted",
                where=FORMATS,
                run=lambda: expect_accepted(self._send_back([_user(FOLDED), *self._answered()])),
            ),
        )

    def _call(self) -> Item:
        """Return the content of a reply that calls the tool."""
        answer = self._send_back([_user(QUESTION)])
        if not answer.is_accepted:
            raise CannotTell(f"the model cannot be asked: {answer.refusal}")
        content = next((dict_or_empty(one.get("content")) for one in dicts_in(answer.body.get("candidates"))), {})
        if not _calls_in(content):
            raise CannotTell("the model did not call the tool")
        return content

    def _is_signed(self) -> Finding:
        signed = ["thoughtSignature" in call for call in _calls_in(self._reply.get())]
        return expect(signed[0], f"calls with a signature: {signed}")

    def _answered(self, *, is_signed: bool = True) -> list[Item]:
        """Return the reply, with or without its signatures, and the results of its calls."""
        content = self._reply.get()
        calls = [dict_or_empty(part.get("functionCall")) for part in _calls_in(content)]
        results = [
            {"functionResponse": {**_id_of(call), "name": call.get("name"), "response": {"pieces": 41}}}
            for call in calls
        ]
        parts = [
            {name: value for name, value in part.items() if is_signed or name != "thoughtSignature"}
            for part in dicts_in(content.get("parts"))
        ]
        return [{**content, "parts": parts}, {"role": "user", "parts": results}]

    def _missing(self) -> Finding:
        self._require_signature()
        answer = self._send_back([_user(QUESTION), *self._answered(is_signed=False)])
        return expect_refused(answer, "signature")

    def _missing_earlier(self) -> Finding:
        self._require_signature()
        earlier = [_user(QUESTION), *self._answered(is_signed=False)]
        done = {"role": "model", "parts": [{"text": "There are 41 pieces."}]}
        return expect_accepted(self._send_back([*earlier, done, _user("Thank you. Say: ready.")]))

    def _require_signature(self) -> None:
        if not any("thoughtSignature" in call for call in _calls_in(self._reply.get())):
            raise CannotTell("the model did not sign its call")

    def _send_back(self, contents: Sequence[Item]) -> Answer:
        return self._ask(contents, tools=[{"functionDeclarations": [STOCK]}])

    def _ask(
        self, contents: Sequence[Item], *, method: str = "generateContent", model: str = "", **fields: object
    ) -> Answer:
        path = f"/v1beta/models/{model or self._api.model}:{method}"
        return self._api.post(path, {"contents": [*contents], **fields})


FOLDED = "[Earlier conversation, folded.] Look up the stock of article 113, with the tool."


def _user(text: str) -> Item:
    return {"role": "user", "parts": [{"text": text}]}


def _usage(answer: Answer) -> Finding:
    return expect_usage(GEMINI, answer.body) if answer.is_accepted else expect_accepted(answer)


def _calls_in(content: Item) -> list[Item]:
    return [part for part in dicts_in(content.get("parts")) if part.get("functionCall")]


def _id_of(call: Item) -> Item:
    return {"id": call["id"]} if call.get("id") else {}
