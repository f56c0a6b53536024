"""Programs that make files: nothing counts before the file is published, and it is published once."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ascertain.adapters.command import create
from ascertain.contracts import finding, outcome
from ascertain.errors import InvalidSettings, InvalidTask, PermitLost
from tests.adapters.calls import KEY, WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.object_store import IDS, object_store
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ascertain.adapters.command import CommandAdapter
    from ascertain.contracts.effect import Effect

KIND = "video.transcode"
MAKES = str(Path(__file__).with_name("makes.py"))


class HeardPermit(GivenPermit):
    """Keeps what it was told, and in which order it was asked."""

    def __init__(self, *, lost: bool = False) -> None:
        super().__init__(lost)
        self.heard: list[JsonValue] = []
        self.asked: list[str] = []

    def check(self) -> None:
        self.asked.append("check")
        super().check()

    async def renew(self) -> None:
        self.asked.append("renew")

    def heartbeat(self, progress: JsonValue) -> None:
        self.heard.append(progress)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "published"


def published(place: Path) -> list[str]:
    """What stands in the files that are there."""
    return [path.read_text() for path in place.iterdir()]


def running(place: Path, **options: Any) -> CommandAdapter:
    given = {
        "program": [sys.executable, MAKES, "{input.words}", "{output}", "{input.mark?}"],
        "output": "made.txt",
        "progress": "^out_time=(.*)",
        "environment": {"TOKEN": "secret:KEY"},
        "refused": [9],
        "publish": {"url": f"file://{place}", "key": "{effect_id}.txt"},
        **options,
    }
    return create(KIND, given, GivenSecrets({**IDS, "KEY": KEY}))


def made(words: str = "moving pictures", mark: str = "no") -> Effect:
    return effect(KIND, {"words": words, "mark": mark})


async def perform(
    adapter: CommandAdapter, what: Effect, permit: GivenPermit | None = None
) -> outcome.Outcome:
    return await adapter.perform(call(what, adapter.prepare(what)), permit or GivenPermit())


async def lookup(adapter: CommandAdapter, what: Effect) -> finding.Finding:
    return await adapter.lookup(call(what, adapter.prepare(what)), within=WITHIN)


async def test_a_file_is_made_and_published_under_a_permit_that_is_renewed_at_the_end(place: Path):
    adapter, what, permit = running(place), made(), HeardPermit()
    assert isinstance(await lookup(adapter, what), finding.Absent)
    came_to = await perform(adapter, what, permit)
    found = await lookup(adapter, what)
    assert isinstance(came_to, outcome.Settled)
    assert isinstance(found, finding.Found)
    assert came_to.receipt.external_id == found.receipt.external_id == f"{what.effect_id}.txt"
    assert came_to.receipt.digest == hashlib.sha256(b"moving pictures").hexdigest()
    assert published(place) == ["moving pictures"]
    assert permit.asked == ["renew", "check"]
    assert permit.heard == [{"progress": f"00:00:0{done}"} for done in (1, 2, 3)]


async def test_of_two_runs_the_first_to_publish_wins_and_the_other_is_no_proof(place: Path):
    adapter, what = running(place), made()
    came_to = await asyncio.gather(*(perform(adapter, what) for _ in range(3)))
    assert sorted(one.type for one in came_to) == ["settled", "unknown", "unknown"]
    assert {one.error_class for one in came_to if isinstance(one, outcome.Unknown)} == {"exists"}
    assert len(published(place)) == 1


async def test_a_run_that_was_fenced_publishes_nothing_and_leaves_nothing(place: Path):
    adapter, what = running(place), made()
    with pytest.raises(PermitLost):
        await perform(adapter, what, HeardPermit(lost=True))
    assert published(place) == []


@pytest.mark.parametrize(
    ("words", "kind", "error_class"),
    [
        ("exit9", outcome.Refused, "exit_9"),
        ("exit3", outcome.NotDone, "exit_3"),
        ("nothing", outcome.NotDone, "no_output"),
    ],
)
async def test_what_the_end_of_a_program_means(
    place: Path, words: str, kind: type, error_class: str
):
    adapter, what = running(place), made(words)
    came_to = await perform(adapter, what)
    assert type(came_to) is kind
    assert came_to.error_class == error_class
    assert isinstance(await lookup(adapter, what), finding.Absent)


async def test_a_programs_last_words_are_told_without_secrets(place: Path):
    came_to = await perform(running(place), made("exit"))
    assert isinstance(came_to, outcome.NotDone)
    assert "[secret] is wrong" in came_to.evidence.detail
    assert KEY not in came_to.model_dump_json()


async def test_a_program_that_is_not_installed_is_not_done(place: Path):
    came_to = await perform(running(place, program=["no-such-program", "{output}"]), made())
    assert isinstance(came_to, outcome.NotDone)
    assert came_to.error_class == "exit_127"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def pids_in(file: Path) -> list[int]:
    text = await wait_until(lambda: file.exists() and file.read_text())
    return [int(word) for word in str(text).split()]


async def test_a_cancellation_ends_the_program_and_all_that_it_started(place: Path, tmp_path: Path):
    adapter, what = running(place), made("waits", str(tmp_path / "pids"))
    attempt = asyncio.create_task(perform(adapter, what))
    pids = await pids_in(tmp_path / "pids")
    assert all(alive(pid) for pid in pids)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await wait_until(lambda: not any(alive(pid) for pid in pids))
    assert isinstance(await lookup(adapter, what), finding.Absent)


async def test_a_program_that_takes_too_long_is_ended_and_not_done(place: Path, tmp_path: Path):
    adapter = running(place, timeout=4)  # time enough to begin, on a busy machine too
    came_to = await perform(adapter, made("waits", str(tmp_path / "pids")))
    assert isinstance(came_to, outcome.NotDone)
    assert came_to.error_class == "too_long"
    pids = await pids_in(tmp_path / "pids")
    await wait_until(lambda: not any(alive(pid) for pid in pids))


async def test_a_file_goes_to_an_object_store_with_its_effects_mark():
    async with object_store() as store:
        publish = {**store.options(prefix="/videos"), "content_type": "video/mp4", "max_bytes": 20}
        adapter, what = running(Path("unused"), publish=publish), made()
        assert isinstance(await perform(adapter, what), outcome.Settled)
        assert isinstance(await perform(adapter, what), outcome.Unknown)
        assert isinstance(await lookup(adapter, what), finding.Found)
        kept = await store.read(f"videos/{what.effect_id}")
        assert kept.text == "moving pictures"
        assert kept.headers["content-type"] == "video/mp4"
        large = effect(KIND, {"words": "x" * 21, "mark": "no"}, task="large")
        assert isinstance(await perform(adapter, large), outcome.Refused)


async def test_a_file_whose_name_two_effects_share_proves_neither_of_them(place: Path):
    adapter = running(place, publish={"url": f"file://{place}", "key": "one.txt"})
    other = effect(KIND, {"words": "other pictures", "mark": "no"}, task="other")
    assert isinstance(await perform(adapter, made()), outcome.Settled)
    assert isinstance(await perform(adapter, other), outcome.Unknown)
    for what in (made(), other):
        assert isinstance(await lookup(adapter, what), finding.Unknowable)


async def test_no_shell_reads_a_value(place: Path):
    words = "; touch /tmp/pwned $(id) `id` && 'x\" *"
    assert isinstance(await perform(running(place), made(words)), outcome.Settled)
    assert published(place) == [words]


async def test_a_program_gets_its_own_environment_and_not_ours(place: Path, monkeypatch):
    monkeypatch.setenv("OF_THE_WORKER", "x")
    shows = "import os, sys; open(sys.argv[1], 'w').write(','.join(sorted(os.environ)))"
    adapter = running(place, program=[sys.executable, "-c", shows, "{output}"])
    assert isinstance(await perform(adapter, made()), outcome.Settled)
    shown = published(place)[0].split(",")
    assert {"LC_ALL", "PATH", "TOKEN"} <= set(shown)
    assert "OF_THE_WORKER" not in shown


@pytest.mark.parametrize("words", ["-rf", "--version", "a\0b", None, ["x"]])
def test_a_value_that_is_no_plain_argument_is_refused(place: Path, words: Any):
    with pytest.raises(InvalidTask):
        running(place).prepare(effect(KIND, {"words": words, "mark": "x"}))


@pytest.mark.parametrize(
    "changes",
    [
        {"program": []},
        {"program": "ffmpeg -i x"},
        {"program": ["ffmpeg", "{job_id}"]},
        {"output": "../x"},
        {"progress": "("},
        {"publish": {"url": "ftp://x"}},
    ],
)
def test_a_deployment_that_cannot_work_is_refused_when_it_is_read(place: Path, changes: Any):
    with pytest.raises(InvalidSettings):
        running(place, **changes)


def test_work_of_an_hour_runs_on_a_queue_of_its_own_under_a_lease_of_seconds(place: Path):
    assert running(place).semantics.max_duration.total_seconds() > 3600
