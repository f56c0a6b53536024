"""A deployment that serves one kind more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.protocol.kinds import POLICY

if TYPE_CHECKING:
    from tests.protocol.deployment import Deployment, WorkerProcess

SEMANTICS = {"in_flight_max": 1}


async def serve(
    deployment: Deployment,
    kind: str,
    adapter: str,
    options: dict[str, Any],
    *,
    semantics: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    secrets: dict[str, str] | None = None,
    plan: Any = None,
) -> WorkerProcess:
    """Add the kind to the deployment and start a worker of it."""
    deployment.settings["kinds"][kind] = {
        "adapter": adapter,
        "options": options,
        "semantics": {**SEMANTICS, **(semantics or {})},
        "policy": {**POLICY, **(policy or {})},
    }
    for name, value in (secrets or {}).items():
        deployment._environment[f"ASCERTAIN_SECRET_{name}"] = value
    deployment.configure()
    return await deployment.worker(plan)


def doing(kind: str, **content: Any) -> dict[str, Any]:
    """A step of that kind."""
    return {"name": "do", "kind": kind, "input": content}
