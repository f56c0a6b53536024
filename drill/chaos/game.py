"""One chaos run from its seed to its report."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING

from drill.chaos.plan import draw
from drill.chaos.report import judge
from drill.chaos.run import TIMING, Chaos
from drill.deployment import deployed
from drill.stack import run_folder, servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from drill.acceptance import Trace
    from drill.chaos.plan import ChaosPlan, Errand
    from drill.chaos.report import ChaosReport
    from drill.deployment import Deployment


async def chaos(seed: int, seconds: float, tell: Callable[[str], None]) -> ChaosReport:
    """Draw the plan of a seed, carry it out, and compare.

    Raises:
        SetupError: A server cannot run here; the message names its log.
    """
    plan = draw(seed, seconds)
    folder = run_folder("ascertain-chaos-")
    logging.basicConfig(filename=folder / "drill.log", level=logging.WARNING)
    tell(f"seed {seed}: {len(plan.errands)} tasks, {len(plan.events)} blows; logs in {folder}")
    async with servers(folder) as stack, deployed(stack, "chaos", TIMING) as deployment:
        run = Chaos(stack, deployment, plan, tell)
        settled = await run.run()
        traces = [await _known(deployment, errand) for errand in run.begun]
    report = judge(
        plan,
        traces,
        blows=run.blows,
        decided=run.decided,
        by_hand=run.by_hand,
        complaints=[*run.anomalies, *_unended(plan, run.begun, settled=settled)],
    )
    if report.ok:
        shutil.rmtree(folder, ignore_errors=True)
    return report


async def _known(deployment: Deployment, errand: Errand) -> tuple[Errand, Trace, int]:
    trace = await deployment.trace(errand.task_id, errand.outside)
    books = deployment.place_of(errand.outside).books
    return errand, trace, books.count("lookup", reference=trace.effect_id)


def _unended(plan: ChaosPlan, begun: list[Errand], *, settled: bool) -> list[str]:
    complaints: list[str] = []
    if len(begun) != len(plan.errands):
        complaints.append(f"{len(plan.errands) - len(begun)} planned tasks were never acknowledged")
    if not settled:
        complaints.append("not everything came to its end in time")
    return complaints
