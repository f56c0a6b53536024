from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from ascertain.cli import failure, program
from ascertain.errors import AscertainError
from tests.cli.conftest import PROGRAM

OPERATOR = {
    *("submit", "list", "show", "explain", "deliveries", "result", "wait", "takeover"),
    "reconcile",
    *("cancel", "pause", "resume", "partitions", "stream", "snapshot", "doctor", "migrate"),
    *("schema", "version", "report", "top", "audit", "sweep", "census", "replay", "incident"),
    *("advise", "archive", "conform", "metrics", "restored"),
}
# Not pydantic, which typer itself reads values with.
HEAVY = {"aiohttp", "asyncpg", "httpx", "opentelemetry", "rich", "temporalio"}


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=60
    )
    return done.stdout


def words(group: Any) -> list[tuple[Any, Any]]:
    """What every command of a group takes, each behind its command, but for switches and streams."""
    found: list[tuple[Any, Any]] = []
    for command in group.commands.values():
        if hasattr(command, "commands"):
            found += words(command)
        taken = [one for one in command.params if not getattr(one, "is_flag", False)]
        found += [(command, one) for one in taken if f"{group.name} {one.name}" != "stream name"]
    return found


def errors() -> set[type[AscertainError]]:
    """Every error of ours that is defined by now."""
    found: set[type[AscertainError]] = set()
    todo = [AscertainError]
    while todo:
        todo += (error := todo.pop()).__subclasses__()
        found.add(error)
    return found


async def test_help_shows_the_operator_commands_and_those_of_the_application(cli):
    answer = await cli("--help")
    for command in OPERATOR | {"worker", "dev"}:
        assert f"\n  {command} " in answer.out
    assert (await cli()).out == answer.out


def test_where_the_application_is_not_installed_the_operator_commands_are_there():
    names = python(
        "import sys\n"
        "for name in ('workers', 'starter', 'drill'): sys.modules[name] = None\n"
        "import typer\n"
        "from ascertain.cli.program import build\n"
        "print(*typer.main.get_command(build()).commands)"
    )
    assert set(names.split()) == OPERATOR


def test_help_imports_nothing_that_takes_time():
    loaded = python(
        "import sys\n"
        "from ascertain.cli.program import run\n"
        "run(['submit', '--help'])\n"
        "print('\\n', *sys.modules)"
    )
    assert not HEAVY & set(loaded.splitlines()[-1].split())


async def test_a_command_line_that_is_wrong_is_told_in_one_sentence(cli):
    answer = await cli("shwo", "t", code=2)
    assert answer.sentence == "No such command 'shwo'. Did you mean 'show'?. See `ascertain --help`"
    answer = await cli("show", "--colour", "t", "--json", code=2)
    assert answer.sentence == "No such option: --colour. See `ascertain show --help`"
    assert answer.document["error"] == {
        "code": "usage",
        "message": answer.sentence,
        "exit_code": 2,
    }
    answer = await cli("result", "t", "--within", "soon", code=2)
    assert "'soon' is no length of time such as 30, 90s, 5m or 2h" in answer.sentence


FULL = "standard output cannot be written: No space left on device; what was done before stands"
UNFORESEEN = "sys.modules['ascertain.cli.version'] = None; sys.exit(program.run({}))"


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_an_error_that_nobody_foresaw_is_one_sentence_and_a_traceback_only_with_debug(debug):
    words = [*debug, "version", "--json"]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; from ascertain.cli import program; {UNFORESEEN.format(words)}",
        ],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "unexpected"
    *before, last = done.stderr.splitlines()
    assert last.startswith("ascertain: unexpected ModuleNotFoundError: ")
    assert ("Traceback (most recent call last):" in before) == bool(debug)
    assert bool(before) == bool(debug)


def test_debug_may_stand_after_the_command_but_not_after_the_end_of_options(capsys):
    assert program.run(["version", "--debug"]) == 0
    capsys.readouterr()
    assert program.run(["version", "--", "--debug"]) == 2
    assert "--debug" in capsys.readouterr().err


async def test_a_reader_that_goes_away_is_no_error(deployed):
    reading, writing = os.pipe()
    os.close(reading)
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "list",
        "--json",
        stdout=writing,
        stderr=asyncio.subprocess.PIPE,
        env=deployed.cli.environment,
    )
    os.close(writing)
    _, err = await process.communicate()
    assert (process.returncode, err) == (failure.PIPE_CLOSED, b"")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("version",), 1, FULL),
        (("version", "--json"), 1, FULL),
        (("shwo", "--json"), 2, "No such command 'shwo'"),
    ],
)
def test_a_standard_output_that_is_full_is_told_in_one_sentence(words, code, said):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [PROGRAM, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
            timeout=60,
        )
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ascertain: {said}")
    assert done.returncode == code


async def test_ctrl_c_ends_a_command_with_130_and_no_traceback(deployed):
    process = await deployed.cli.start("submit", "-", "--jsonl", "--json")
    task = deployed.task(deployed.new_id())
    process.stdin.write(json.dumps(task).encode() + b"\n")
    started = json.loads(await process.stdout.readline())
    assert started["fate"] == "started"
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == failure.INTERRUPTED
    assert b"Stopped half-way. Run the same again" in err
    assert b"Traceback" not in err


async def test_ctrl_c_ends_a_wait_and_says_that_the_task_goes_on_and_how_to_look_again(deployed):
    task_id, gate = deployed.new_id(), ("interrupted", "--reason", "test")
    await deployed.cli("pause", *gate)
    file = deployed.file(deployed.task(task_id, partition=gate[0]))
    await deployed.cli("submit", file)
    goes_on = (
        f"Only the wait is over: task {task_id} goes on. `ascertain show {task_id}` says where"
    )
    ways = {
        ("result", task_id): goes_on,
        ("wait", task_id): goes_on,
        (
            "submit",
            file,
            "--wait",
        ): "If the task was started, it goes on. Run the same again: it is",
    }
    waiting = [(await deployed.cli.start(*words), said) for words, said in ways.items()]
    for process, said in waiting:
        told = b""
        while b"The wait goes on." not in told:
            told = await process.stderr.readline()
            assert told
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
        assert process.returncode == failure.INTERRUPTED
        *_, last, end = err.decode().splitlines()
        assert last.startswith(said)
        assert end == "interrupted"
    await deployed.cli("resume", *gate)
    assert (await deployed.cli("result", task_id, "--json")).document["outcome"] == "DONE"


INTERRUPT = """
import signal, sys

class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["ascertain", "version"]
from ascertain.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "name", ["ascertain.cli.program", "workers.command", "ascertain.cli.version"]
)
def test_ctrl_c_while_a_command_is_being_imported_is_no_success_and_no_traceback(name):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT.format(name=name)],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode in {failure.INTERRUPTED, -signal.SIGINT}  # a shell calls both 130
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "code"), [("KeyboardInterrupt", failure.INTERRUPTED), ("ValueError", 1)]
)
def test_what_gets_past_everything_does_not_end_as_if_it_had_worked(error, code):
    past = f"import sys\ndef run(): raise {error}\nfrom ascertain.cli import last_word\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{past}sys.exit(last_word(run))"],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == code
    assert ("Traceback" in done.stderr) == (code == 1)


async def test_completion_completes_commands_and_options(cli):
    def asked(words: str) -> dict[str, str]:
        return {
            "_ASCERTAIN_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }

    assert (await cli(**asked("ascertain take"))).out.split() == ["takeover"]
    found = (await cli(**asked("ascertain takeover t con"))).out.split()
    assert found == ["confirm"]


def test_every_error_has_an_exit_code_that_is_documented():
    assert {error.exit_code for error in errors()} <= set(failure.EXIT_CODES)


def test_an_error_is_told_without_what_a_terminal_would_obey(capsys):
    assert failure.report(AscertainError("a\x1b[2Jb\nc"), as_json=False) == 1
    assert capsys.readouterr().err == "ascertain: a [2Jb\nc\n"


def test_of_several_errors_at_once_the_first_is_told(capsys):
    several = ExceptionGroup("x", [ExceptionGroup("y", [AscertainError("first")]), OSError("z")])
    assert failure.report(several, as_json=False) == 1
    assert capsys.readouterr().err == "ascertain: first\n"


def test_actions_on_the_command_line_are_those_of_the_contract():
    from typing import get_args

    from ascertain.cli.task_command import Action as Typed
    from ascertain.contracts.command import Action

    assert get_args(Typed) == tuple(action.value for action in Action)


def test_what_is_empty_is_refused_wherever_a_word_is_taken():
    found = words(typer.main.get_command(program.build()))
    told = {f"{command.name} {one.name}" for command, one in found}
    assert told >= {"show task", "migrate outbox", "submit bulk", "create target", "approve step"}
    for command, one in found:
        for given in ("", " ", ["a", ""]):
            with pytest.raises(typer.BadParameter, match="it is empty"):
                one.process_value(typer.Context(command), given)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("submit x.json --rate 5", "--rate would be passed over, which are a stream's: say --bulk"),
        ("submit x.json --chunk 100 --rate 5", "--chunk and --rate would be passed over"),
        (
            "submit x.json --bulk s --wait",
            "--wait would be passed over, which --bulk does not take",
        ),
        ("census --last --since 1h", "--since would be passed over, for with --last none is taken"),
        ("metrics --every 5s", "--every would be passed over, for they are printed once: say"),
    ],
)
async def test_an_option_that_would_be_passed_over_is_refused(cli, typed, said):
    assert said in (await cli(*typed.split(), code=2)).sentence


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("pause p --reason x --operator _", "--operator"),
        ("pause p --reason x --request-id=_", "--request-id"),
        ("migrate --outbox _", "--outbox"),
        ("snapshot create _ --force", "FILE"),
        ("replay start _ --reason x", "[REPLAY]"),
        ("census --kind note.create --kind _", "--kind"),
        ("show -- _", "TASK"),
    ],
)
async def test_an_unset_variable_names_nobody_and_nothing(deployed, typed, named):
    words = typed.replace("_", "").split(" ")
    answer = await deployed.cli(*words, code=2)
    assert f"Invalid value for '{named}': it is empty" in answer.sentence
