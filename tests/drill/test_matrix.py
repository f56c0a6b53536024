"""What the matrix holds, and how a result is told."""

from __future__ import annotations

import json
import re

import pytest

from drill.kind import OutsideClass, Route
from drill.matrix.board import ALL, Choice
from drill.matrix.button import BUTTONS
from drill.matrix.moment import Lane, moments
from drill.matrix.page import page
from drill.matrix.result import Result, document
from drill.matrix.row import ROWS
from drill.matrix.scene import Cell, Note
from tests.drill.traces import BEGUN, Night


async def result(faults=()):
    cell = Cell("crash-after-call", OutsideClass.ASKED, Route.INLINE, 1)
    notes = (
        Note(BEGUN, "message", "delivered: started", cell.task_id),
        Note(BEGUN, "worker", "worker A killed <SIGKILL>"),
    )
    return Result(cell, "a worker is killed", 1, await Night().settled(), notes, tuple(faults))


def test_every_row_is_played_for_each_class_by_each_route_that_applies():
    choice = Choice()
    for row in ALL.values():
        met = {(cell.outside, cell.route) for cell in choice.cells(row)}
        assert met == {(outside, route) for outside in OutsideClass for route in row.routes}
    only_queued = {row.name for row in ALL.values() if row.routes == (Route.QUEUED,)}
    assert only_queued == {"heartbeat-interrupted", "activity-reset", "activity-unpause"}


def test_there_are_nine_rows_of_the_protocol_and_the_buttons_beside_them():
    assert len(ROWS) == 9
    assert len(ALL) == len(ROWS) + len(BUTTONS)


def test_task_ids_of_a_matrix_are_distinct():
    ids = [cell.task_id for row in ALL.values() for cell in Choice().cells(row)]
    assert len(ids) == len(set(ids))


async def test_the_moments_of_a_cell_are_those_of_all_four_lanes_in_order():
    told = moments(await result())
    assert {moment.lane for moment in told} == set(Lane)
    assert [moment.at for moment in told] == sorted(moment.at for moment in told)
    assert {moment.mark for moment in told} >= {"T0", "T1", "T2", "T3", "T5"}


@pytest.mark.parametrize("faults", [(), ("2 facts outside instead of 1",)])
async def test_the_page_needs_nothing_but_itself_and_shows_a_picture_per_row(faults):
    told = page([await result(faults)])
    assert told.count("<svg") == 1
    assert not re.search(r"(src|href)=|@import|url\(", told)
    assert ("0 wrong" in told) == (not faults)
    assert "<SIGKILL>" not in told
    assert all(fault in told for fault in faults)


async def test_the_document_adds_up():
    told = document([await result(), await result(["wrong"])])
    assert (told["passed"], told["failed"], told["ok"]) == (1, 1, False)
    assert json.loads(json.dumps(told))["rows"][0]["row"] == "crash-after-call"


def test_a_matrix_without_a_row_is_not_right():
    assert document([])["ok"] is False
