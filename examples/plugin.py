"""A plugin with a say in compactions: it waits while tests run, adds to the summary's request, and gets the result.
The summary is written by a model; infold checks it against the messages before it is used."""

from offline import openai_model

from infold import Session, SessionSettings, hook, open_store
from infold.core.summary_request import Additions
from infold.formats.registry import format_named
from infold.ports import Veto
from infold.testing import Say

WIRE = format_named("openai-chat")


class Careful:
    """Does not fold while tests run, and has every migration named."""

    tests_run = False

    @hook("compaction.before")
    def wait_for_tests(self, occasion):
        if not self.tests_run or occasion.is_urgent:
            return None
        print(f"  put off at {occasion.tokens_before:,} tokens: tests are running")
        return Veto("tests are running")

    @hook("session.compacting")
    def mention_migrations(self):
        return Additions(contexts=("Name every migration, and whether it was applied.",))

    @hook("compaction.after")
    def report(self, checkpoint):
        print(f"  folded: {checkpoint.tokens_before:,} -> {checkpoint.tokens_after:,} tokens")


def script(request):
    """What the scripted model does: write the summary that was asked for."""
    asked = "Name every migration" in str(request.body)
    print(f"  a summary is requested; the plugin's words are in the request: {asked}")
    return Say("The user had logs read, all clean. Migration 0007_berths was written and not applied yet.")


def summarise(request):
    """Ask the model for a summary."""
    system = [{"role": "system", "content": request.system}]
    items = [item for message in request.messages for item in WIRE.encode_new(message)]
    return client.chat.completions.create(model=model, messages=system + items).choices[0].message.content


with openai_model(script, 64_000) as (client, model), open_store("memory") as store:
    careful = Careful()
    settings = SessionSettings(window=16_000, format="openai-chat", summariser=summarise, plugins=[careful])
    session = Session(store, "migrations", settings)
    for n in range(14):
        careful.tests_run = n < 10
        text = f"Log {n}, migration 0007_berths is written, not applied:\n" + f"line of log {n}, clean\n" * 150
        ready = session.prepare_new([{"role": "user", "content": text}])
        session.record({"choices": [{"message": {"role": "assistant", "content": f"Log {n} is clean."}}]})
    lines = ready.messages[0]["content"].splitlines()
    print("The next request says:", next(line for line in lines if "0007_berths" in line))
