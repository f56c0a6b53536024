"""Which version of the deployment a worker process is, for Temporal's worker versioning."""

from __future__ import annotations

import os
from typing import Final

from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from ascertain.errors import InvalidSettings

# As Temporal's own worker controller for Kubernetes sets them.
NAME: Final = "TEMPORAL_DEPLOYMENT_NAME"
BUILD: Final = "TEMPORAL_WORKER_BUILD_ID"


def deployment_config() -> WorkerDeploymentConfig | None:
    """What the environment says; None: this worker has no version, and takes tasks at once.

    A task that waits for weeks moves on to the current version: its workflow is written to be taken over by
    later releases, and policy is read by activities at every decision.

    Raises:
        InvalidSettings: Only one of the two is set, or the name has a dot, which Temporal does not take.
    """
    name, build = os.environ.get(NAME), os.environ.get(BUILD)
    if not name and not build:
        return None
    if not name or not build:
        raise InvalidSettings(f"a worker's version is {NAME} and {BUILD}: set both, or neither")
    if "." in name:
        raise InvalidSettings(f"{NAME}={name} has a dot, which Temporal does not take")
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(name, build),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )
