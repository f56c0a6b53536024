"""The payments that demo and drill run with."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from ascertain.contracts.task import Task

EXAMPLES = Path(__file__).parents[2] / "examples"


def payments() -> list[Task]:
    lines = (EXAMPLES / "payments.jsonl").read_text(encoding="utf-8").splitlines()
    return [Task.model_validate_json(line) for line in lines]


def test_the_file_is_what_its_script_makes(tmp_path: Path) -> None:
    script = EXAMPLES / "make_payments.py"
    subprocess.run([sys.executable, script, tmp_path / "made.jsonl"], check=True)

    made = (tmp_path / "made.jsonl").read_bytes()
    assert made == (EXAMPLES / "payments.jsonl").read_bytes()


def test_there_are_120_distinct_payments_in_four_partitions() -> None:
    tasks = payments()

    assert len({task.task_id for task in tasks}) == len({task.message_id for task in tasks}) == 120
    assert set(Counter(task.partition for task in tasks)) == {"eur", "usd", "gbp", "jpy"}


def test_amounts_are_positive_integers_in_the_currency_of_the_partition() -> None:
    for task in payments():
        for step in task.steps:
            assert step.input["currency"] == task.partition
            assert type(step.input["amount"]) is int
            assert step.input["amount"] >= 100


def test_six_payments_are_refused_and_three_take_their_deposit_back() -> None:
    declined = [
        [step.input["payment_method"] == "pm_card_chargeCustomerFail" for step in task.steps]
        for task in payments()
    ]
    undone = [task for task in payments() if task.steps[0].undo is not None]

    assert declined.count([True]) == 6
    assert declined.count([False, True]) == 3
    assert declined.count([False]) == 111
    assert [len(task.steps) for task in undone] == [2, 2, 2]
    assert {task.steps[0].undo.kind for task in undone if task.steps[0].undo} == {"stripe.refund"}
