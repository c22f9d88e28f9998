"""Taking a ledger from messages."""

import json

import pytest
from msgspec.structs import replace

from infold.core.extract import LONGEST_REPORT, extract
from infold.core.ledger import CommandFact, ErrorFact, FileFact, JobFact, Ledger, Quote, TodoFact, merge
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.testing.builders import calls, numbered, replies, result, summary, user


def ledger_of(*drafts: Message, pinned: frozenset[str] = frozenset()) -> Ledger:
    """The ledger of a session of these drafts."""
    return extract(enumerate(numbered(drafts)), pinned)


def ran(tool: str, arguments: dict[str, object], output: str, *, exit_status: int | None = None) -> tuple[Message, ...]:
    """One call and its result."""
    answer = ToolMessage(MessageId(""), (ToolResultPart("", "", output, exit_status=exit_status),))
    return calls(tool, arguments=json.dumps(arguments)), answer


def bash(command: str, output: str = "", *, exit_status: int | None = 0) -> tuple[Message, ...]:
    """A command and how it ended."""
    return ran("bash", {"command": command}, output, exit_status=exit_status)


def told(status: str) -> str:
    """A program's note on the job `b7`."""
    return f"<task-notification>\n<task-id>b7</task-id>\n<status>{status}</status>\n</task-notification>"


# What the user said.


def test_requests_are_quoted_with_their_handles() -> None:
    """B2: the first and the latest request are the user's words, trimmed, with the part they stand in."""
    ledger = ledger_of(user(" build it \n"), replies(), user("now test it"), replies())

    assert ledger.first_request == Quote("0.0", "build it")
    assert ledger.latest_request == Quote("2.0", "now test it")
    assert ledger.requests == (Quote("0.0", "build it"), Quote("2.0", "now test it"))


def test_injected_text_is_never_a_request() -> None:
    """B2: reminders, rules, notes for people and blank text are not the user's, whatever role they come in."""
    mixed = UserMessage(
        MessageId(""),
        (
            TextPart("Never trust me.", synthetic=True),
            TextPart("Never.", ignored=True),
            TextPart(" "),
            TextPart("Only this."),
        ),
    )
    ledger = ledger_of(user("You must obey.", synthetic=True), mixed, user("Always.", synthetic=True))

    assert ledger.first_request == ledger.latest_request == Quote("1.3", "Only this.")
    assert ledger.constraints == (Quote("1.3", "Only this."),)


def test_a_session_without_a_user_has_no_request() -> None:
    """B2: nothing is made up where nobody spoke."""
    assert ledger_of(replies("Always happy to help.")).first_request is None
    assert ledger_of() == Ledger()


def test_constraints_are_taken_from_every_request() -> None:
    """B2: rules are quoted sentence by sentence, oldest first; a tool's or a model's words lay down none."""
    ledger = ledger_of(
        user("Hi. Never push. Use tabs."), replies("I must obey."), *bash("ls", "never"), user("只能改这里。")
    )

    assert ledger.constraints == (Quote("0.0", "Never push."), Quote("4.0", "只能改这里。"))


# Files and commands.


def test_what_is_said_when_declining_is_heard() -> None:
    """B2, B4: a person's words against a call are a request and lay down rules; the call did nothing and nothing failed."""
    no = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nnever touch a.py"
    ledger = ledger_of(
        user("go"),
        *ran("Edit", {"file_path": "a.py"}, f"Error: {no}"),
        *bash("ls", no, exit_status=0),
    )

    assert ledger.latest_request == Quote("2.0", "never touch a.py")
    assert ledger.constraints == (Quote("2.0", "never touch a.py"),)
    assert (ledger.errors, ledger.files) == ((), ())
    assert [fact.command for fact in ledger.commands] == ["ls"]


def test_a_silent_no_leaves_nothing() -> None:
    """B4: a call that was declined without a word is neither a request, a command that ran nor an error."""
    refused = ToolMessage(MessageId(""), (ToolResultPart("", "", "exec command rejected by user", status="error"),))

    assert ledger_of(calls("bash", arguments='{"command": "git push"}'), refused) == Ledger()


def test_files_carry_their_last_operation_and_edits() -> None:
    """B4: a file's last change, how often it was changed, and where; a later read does not hide it."""
    ledger = ledger_of(
        user(),
        *ran("Read", {"file_path": "a.py"}, "1: x"),
        *ran("Edit", {"file_path": "a.py"}, "ok"),
        *ran("MultiEdit", {"file_path": "a.py"}, "ok"),
        *ran("Write", {"file_path": "b.py"}, "ok"),
        *ran("Read", {"file_path": "a.py"}, "1: y"),
        *ran("apply_patch", {"input": "*** Update File: b.py\n*** Delete File: c.py"}, "done"),
    )

    assert ledger.files == (
        FileFact("a.py", "edited", 2, "6.0"),
        FileFact("b.py", "edited", 2, "12.0"),
        FileFact("c.py", "deleted", 1, "12.0"),
    )


def test_a_failed_edit_is_no_edit() -> None:
    """B4: a file whose change failed is an error at that file, not a change."""
    ledger = ledger_of(
        *ran("str_replace_editor", {"command": "str_replace", "path": "a.py"}, "ERROR:\nNo replacement.")
    )

    assert ledger.files == ()
    assert [fact.origin for fact in ledger.errors] == ["a.py"]


def test_a_file_that_speaks_of_exit_codes_was_read() -> None:
    """B4: reading a script with an exit code in it is no failure."""
    ledger = ledger_of(*ran("read", {"path": "ci.sh"}, "exit code 1\n"))

    assert ledger.files == (FileFact("ci.sh", "read", 0, "1.0"),)
    assert ledger.errors == ()


def test_commands_carry_status_and_outcome() -> None:
    """B4: a command's newest exit status and the lines that sum it up; without either, whether its result is a failure."""
    ledger = ledger_of(
        *bash("pytest", "E\n2 failed, 3 passed in 1s\n", exit_status=1),
        *bash("pytest", "5 passed in 1s", exit_status=0),
        *bash("ls", "a", exit_status=None),
        *ran("shell", {"command": ["bash", "-lc", "make"]}, "Exit code: 2\nOutput:\nno rule"),
    )

    assert ledger.commands == (
        CommandFact("pytest", "3.0", 0, "5 passed in 1s", runs=2),
        CommandFact("ls", "5.0", outcome="ok"),
        CommandFact("make", "7.0", 2),
    )


def test_an_error_goes_when_the_same_command_succeeds() -> None:
    """B4: only failures that nothing since has settled are errors, with their telling line."""
    failing = bash("make", "cc: fatal error: no input", exit_status=2)
    ledger = ledger_of(*failing, *bash("lint", "lint failed", exit_status=1))

    assert ledger.errors == (
        ErrorFact("make", "cc: fatal error: no input", "1.0"),
        ErrorFact("lint", "lint failed", "3.0"),
    )
    assert [
        fact.origin for fact in ledger_of(*failing, *bash("lint", "failed", exit_status=1), *bash("make")).errors
    ] == ["lint"]


def test_a_success_settles_errors_of_older_heads() -> None:
    """B3: what failed in a folded head and succeeds later is settled by the merge."""
    older, newer = ledger_of(*bash("make", "no", exit_status=2)), ledger_of(*bash("make"))

    assert merge(older, newer).errors == ()
    assert newer.settled == ("make",)


def test_other_tools_fail_under_their_own_name() -> None:
    """B4: a tool that touches no file and runs no command is the origin of its error."""
    failing = (calls("WebFetch"), result(output="Request failed: 404", status="error"))

    assert ledger_of(*failing).errors == (ErrorFact("WebFetch", "Request failed: 404", "1.0"),)
    assert ledger_of(*failing, calls("WebFetch"), result(1)).errors == ()


# What is open.


def test_the_last_todo_list_wins() -> None:
    """B4: the todo list is the one last written; an emptied one is empty; a failed write changes nothing."""

    def written(*items: str, status: int = 0) -> tuple[Message, ...]:
        todos = [{"content": item, "status": "pending"} for item in items]
        return ran("TodoWrite", {"todos": todos}, "ok", exit_status=status)

    assert ledger_of(*written("a", "b"), *written("c"), *bash("ls")).todos == (TodoFact("c", "pending"),)
    assert ledger_of(*written("a"), *written()).todos == ()
    assert ledger_of(*written("a"), *written("b", status=1)).todos == (TodoFact("a", "pending"),)


@pytest.mark.parametrize("question", ["Shall I go on?", "どちらにしますか？", "**Which one?**", "Proceed (yes?)"])
def test_a_question_is_open_until_somebody_answers(question: str) -> None:
    """B4: the question a reply ends with is open; a user's word or a later report closes it, an injected one does not."""
    asked = (user(), replies(f"I am done. {question}"))

    assert [quote.text for quote in ledger_of(*asked, user(synthetic=True)).questions] == [question.rsplit(". ", 1)[-1]]
    assert ledger_of(*asked, user("yes")).questions == ()
    assert ledger_of(*asked, replies("Never mind, done.")).questions == ()


def test_what_has_not_reported_back_is_a_job() -> None:
    """B4: calls without a result and commands left in the background are running."""
    ledger = ledger_of(
        *bash("npm run dev", "Command running in background with ID: bash_1", exit_status=None),
        calls("fetch", arguments='{"url":"u"}'),
    )

    assert ledger.jobs == (JobFact("npm run dev", "1.0", "bash_1"), JobFact('fetch({"url":"u"})', "2.0", "m2-call0"))


def test_a_job_that_ended_is_told_as_its_command() -> None:
    """B4: a job asked after and found ended is no longer running, and its command has that outcome."""
    start = ran("exec_command", {"cmd": "make"}, "Process running with session ID 7")
    wait = ran("write_stdin", {"session_id": 7}, "Process running with session ID 7")
    end = ran("write_stdin", {"session_id": 7}, "Process exited with code 1\n3 tests failed")
    ledger = ledger_of(*start, *wait, *end)

    assert ledger_of(*start, *wait).jobs == (JobFact("make", "1.0", "7"),)
    assert (ledger.jobs, ledger.commands) == ((), (CommandFact("make", "5.0", 1, "3 tests failed"),))


def test_stopping_an_unknown_job_is_nothing() -> None:
    """B4: a job that another head started, or that no command stands for, ends without a trace."""
    agent = ran("Task", {"prompt": "p"}, "agentId: a1\nThe agent is working in the background.")

    assert ledger_of(*ran("KillShell", {"shell_id": "b9"}, "killed")).jobs == ()
    assert len(ledger_of(*agent).jobs) == 1
    assert ledger_of(*agent, *ran("TaskOutput", {"task_id": "a1"}, "done")).jobs == ()


@pytest.mark.parametrize(
    ("drafts", "outcome"),
    [
        (ran("BashOutput", {"bash_id": "b7"}, "<exit_code>0</exit_code>\n5 passed"), "5 passed"),
        ((user(told("completed"), synthetic=True),), ""),
    ],
)
def test_a_later_head_ends_an_older_job(drafts: tuple[Message, ...], outcome: str) -> None:
    """B3, B4: what an earlier fold listed as running is gone once it was asked after, or a program told that it ended."""
    older = ledger_of(*bash("make test", "Command running in background with ID: b7", exit_status=None))
    newer = extract(enumerate(numbered(drafts, prefix="n")), before=older)
    merged = merge(older, newer)

    assert (newer.ended, merged.jobs, merged.ended) == (("b7",), (), ())
    assert [(fact.command, fact.outcome, fact.runs) for fact in merged.commands] == [("make test", outcome, 1)]


def test_a_result_that_comes_later_ends_its_call() -> None:
    """B4: a call that was folded without its result has reported back when that comes."""
    older = ledger_of(calls("fetch", arguments='{"url":"u"}'))
    late = ToolMessage(MessageId("late"), (ToolResultPart("m0-call0", "fetch", "got it"),))

    assert merge(older, extract([(5, late)], before=older)).jobs == ()
    assert len(merge(older, extract([(5, user(told("completed"), synthetic=True))], before=older)).jobs) == 1
    assert len(merge(older, extract([(5, user(told("running"), synthetic=True))], before=older)).jobs) == 1


def test_tasks_are_added_and_updated_across_heads() -> None:
    """B3, B4: one task is changed, or one added, in the list that an earlier fold told of."""
    created = ran("TaskCreate", {"subject": "Write docs"}, "Task #2 created successfully: Write docs")
    updated = ran("TaskUpdate", {"taskId": "1", "status": "completed"}, "Updated task #1 status")
    older = Ledger(todos=(TodoFact("#1 Write parser", "pending"),))

    newer = extract(enumerate(numbered([*created, *updated])), before=older)

    assert newer.todos == (TodoFact("#1 Write parser", "completed"), TodoFact("#2 Write docs", "pending"))


def test_a_page_that_speaks_of_background_jobs_starts_none() -> None:
    """B4: the contents of a file are no job."""
    assert ledger_of(*ran("read", {"path": "a.md"}, "is running in the background")).jobs == ()


# What the model said.


def test_decisions_and_reports_are_quoted() -> None:
    """B4: sentences that decide something, and closing replies, are quoted with a bound on their length."""
    ledger = ledger_of(
        user(),
        replies("Looking. We decided on sqlite. Fine. 决定使用缓存。"),
        replies("x" * 999),
        AssistantMessage(MessageId(""), (TextPart("I chose B instead."), ToolCallPart("", "ls", "{}"))),
    )

    assert [quote.text for quote in ledger.decisions] == [
        "We decided on sqlite.",
        "决定使用缓存。",
        "I chose B instead.",
    ]
    assert [len(quote.text) for quote in ledger.reports] == [44, LONGEST_REPORT]


def test_blank_replies_and_notes_for_people_report_nothing() -> None:
    """B4: a reply without words, or with words that are never sent, is no report."""
    note = AssistantMessage(MessageId(""), (TextPart("We decided.", ignored=True), ReasoningPart("decided")))

    assert ledger_of(replies(" \n"), note) == Ledger()


def test_a_summary_is_not_a_report() -> None:
    """B2: a summary that failed and was left behind is compaction business, not something said to the user."""
    assert ledger_of(user("go"), summary("We decided. Shall I?", error="x")).reports == ()
    assert ledger_of(user("go"), summary("We decided. Shall I?", error="x")).questions == ()


def test_pins_are_quoted_whole() -> None:
    """B20: a pinned part is quoted as it stands, whichever kind it is."""
    picture = UserMessage(MessageId(""), (FilePart("image/png", 9),))
    ledger = ledger_of(user("keep"), *bash("ls", "out"), picture, pinned=frozenset({"0.0", "1.0", "2.0", "3.0", "9.9"}))

    assert ledger.pinned == (
        Quote("0.0", "keep"),
        Quote("1.0", '{"command": "ls"}'),
        Quote("2.0", "out"),
        Quote("3.0", "[image/png ]"),
    )


def test_a_result_whose_call_is_elsewhere_is_passed_over() -> None:
    """B4: a result whose call stands in another head tells nothing here."""
    messages = numbered(bash("make", "no", exit_status=1))

    assert extract([(1, messages[1])]) == Ledger()
    assert extract([(1, replace(messages[1], parts=(FilePart("image/png", 1),)))]) == Ledger()


def test_figures_and_references_are_quoted() -> None:
    """A sentence with a figure, an address, an issue or a hash is quoted; one without, and a decision, is not a finding."""
    said = (
        "The limit is 4,096 bytes. Its log is at https://example.com/a. It is #172. Commit a8f68ce has it. Plain "
        "words. Only 12 left. "
        f"We decided on 8192. {'x' * LONGEST_REPORT} 1234."
    )
    ledger = ledger_of(user(), replies(said))

    assert [quote.text for quote in ledger.findings] == [
        "The limit is 4,096 bytes.",
        "Its log is at https://example.com/a.",
        "It is #172.",
        "Commit a8f68ce has it.",
    ]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("- **PR:** https://example.com/pull/7", ["**PR:** https://example.com/pull/7"]),
        ("1. The build took 384 seconds.", ["The build took 384 seconds."]),
        ("处理了 4,096 条记录，全部成功。", ["处理了 4,096 条记录，全部成功。"]),
        ("| 1887972 (more work) | +592 -7 | total=592 |", []),
        ("added=150 removed=320 share=61.5", []),
        ("```\nThe limit is 4,096 bytes.\n```", []),
        ("Should #523 be closed?", []),
        ("The reasons for #523 are these:", []),
        ("I'll look at #523 now.", []),
        ("Yes — I’ll close #523.", []),
    ],
)
def test_only_statements_are_quoted(said: str, found: list[str]) -> None:
    """B53: no rows of tables, bare values, code, questions, headings of lists or intentions; marks of lists are left out."""
    assert [quote.text for quote in ledger_of(user(), replies(said)).findings] == found


def test_a_look_is_no_decision() -> None:
    """B53: what an agent is about to look at is an intention, whatever words it has; a choice is a decision."""
    said = "I'm re-reading the file instead of guessing. I'm using msgspec instead of pydantic."

    assert [quote.text for quote in ledger_of(user(), replies(said)).decisions] == [
        "I'm using msgspec instead of pydantic."
    ]


def test_a_look_without_an_answer_is_no_job() -> None:
    """B4: how a call ended that only looks something up does not matter; an edit or a command may have been carried out."""
    looks = (calls("read", arguments='{"path": "a.py"}'), calls("bash", arguments='{"command": "ls src"}'))
    acts = (calls("edit", arguments='{"path": "a.py"}'), calls("bash", arguments='{"command": "make"}'))

    assert ledger_of(user(), *looks).jobs == ()
    assert [job.description for job in ledger_of(user(), *acts).jobs] == ['edit({"path": "a.py"})', "make"]


def test_polling_a_job_returns_no_value() -> None:
    """B53: what the end of a job returned is its outcome."""
    assert ledger_of(user(), *ran("stop_task", {"task_id": "b7"}, "stopped")).values == ()


def test_what_a_call_without_a_file_or_a_command_returned_is_kept() -> None:
    """B53: the newest value of each such call, not what failed, was empty, or is a question to the user."""
    ledger = ledger_of(
        user(),
        *ran("get_order", {"id": "W1"}, '{"status": "pending"}'),
        *ran("get_order", {"id": "W2"}, "x" * 2_000),
        *ran("get_order", {"id": "W1"}, '{"status": "sent"}'),
        *ran("now", {}, "  "),
        *ran("ask_user", {"question": "Which?"}, "The blue one"),
        *ran("read", {"path": "b.py"}, "text"),
        *bash("date", "noon"),
    )

    assert [(fact.call, fact.value[:20]) for fact in ledger.values] == [
        ('get_order({"id": "W2"})', "x" * 20),
        ('get_order({"id": "W1"})', '{"status": "sent"}'),
    ]


def test_a_failure_that_was_overcome_is_remembered() -> None:
    """B53: what failed and then succeeded is listed apart from what is still open."""
    ledger = ledger_of(
        user(),
        *bash("make", "fatal: no rule", exit_status=2),
        *bash("make", "built"),
        *bash("npm ci", "error: EBADENGINE", exit_status=1),
    )

    assert [fact.origin for fact in ledger.errors] == ["npm ci"]
    assert [(fact.origin, fact.line) for fact in ledger.overcome] == [("make", "fatal: no rule")]


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("(pass) grade > fails clearly when it is invalid\nerror: script exited", "error: script exited"),
        ("✓ cannot be undone\nPASS a/failed.test.ts\n  216 │  * throws an error\n2 failed", "2 failed"),
        ("> 12 | raise ValueError('invalid: x')\nbuild failed", "build failed"),
    ],
)
def test_a_failure_is_told_by_a_line_about_it(output: str, line: str) -> None:
    """B53: neither a test that passed nor a line of code that a tool shows is taken for what failed."""
    assert ledger_of(user(), *bash("make", output, exit_status=1)).errors[0].line == line


def test_a_script_that_is_written_and_run_is_one_command() -> None:
    """B53: text that a command line writes to a file does not tell two runs apart; the last outcome counts."""
    script = "cat > probe.py << 'EOF'\nprint({})\nEOF\npython probe.py"
    ledger = ledger_of(
        user(),
        *bash(script.format("1/0"), "ZeroDivisionError: division by zero", exit_status=1),
        *bash(script.format("2"), "2"),
        *bash("python - << 'EOF'\nprint(1/0)\nEOF", "ZeroDivisionError: division by zero", exit_status=1),
        *bash("python - << 'EOF'\nprint(2)\nEOF", "2"),
    )

    assert ledger.commands[0].command == "cat > probe.py …; python probe.py"
    assert [fact.origin for fact in ledger.overcome] == ["cat > probe.py …; python probe.py"]
    assert [fact.origin for fact in ledger.errors] == ["python - << 'EOF' print(1/0) EOF"]


def test_a_reply_that_nobody_asked_for_is_no_report() -> None:
    """What Claude Code writes in the model's place tells the user nothing."""
    assert ledger_of(user(), replies("No response requested."), replies("Done.")).reports == (Quote("2.0", "Done."),)


def test_a_pinned_part_without_words_is_quoted_as_nothing() -> None:
    """A pin on a part that has no text is carried on with none."""
    ledger = ledger_of(AssistantMessage(MessageId(""), (StepStartPart(),)), pinned=frozenset({"0.0"}))

    assert ledger.pinned == (Quote("0.0", ""),)


def test_an_opaque_block_reports_nothing() -> None:
    """B26, B30: the JSON of a block that infold has no reading for is nobody's sentence."""
    block = TextPart('{"text": "Decided to use SQLite. Is that right?"}', synthetic=True, opaque=True)
    found = ledger_of(user(), AssistantMessage(MessageId(""), (block,), finish="stop"))

    assert (found.reports, found.decisions, found.questions) == ((), (), ())


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("AskUserQuestion", {"questions": [{"question": "Which press?", "options": [{"label": "old"}]}]}),
        ("request_user_input", {"questions": [{"id": "p", "question": "Which press?"}]}),
        ("ask_followup_question", {"question": "Which press?", "follow_up": "x"}),
        ("question", {"questions": ["Which press?", 7]}),
    ],
)
def test_an_answer_is_kept_with_its_question(tool: str, arguments: dict[str, object]) -> None:
    """B33: what the user answered to a question that the agent put by a tool is quoted under the question."""
    ledger = ledger_of(*ran(tool, arguments, "The old one."))

    assert ledger.answers == (Quote("1.0", "Which press?\n→ The old one."),)
    assert merge(ledger, ledger).answers == ledger.answers


@pytest.mark.parametrize(
    ("tool", "arguments", "output"),
    [
        ("bash", {"question": "Which?"}, "x"),
        ("question", {"text": "Which?"}, "x"),
        ("question", {"question": "Which?"}, " "),
    ],
)
def test_what_is_not_answered_is_no_answer(tool: str, arguments: dict[str, object], output: str) -> None:
    """B33: a call of another tool, one without a question and one without an answer leave nothing."""
    assert ledger_of(*ran(tool, arguments, output)).answers == ()
