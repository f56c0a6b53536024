"""The per-partition switch: open or paused. It stops dispatch, never asking."""

from __future__ import annotations

from pydantic import AwareDatetime

from ascertain.contracts.value import Value


class GateChange(Value):
    """A request to open or close a gate.

    Attributes:
        partition: Which; ``*`` is every partition.
        paused: The position wanted.
        by: The operator or the rule.
        request_id: A repeat with the same id is already applied, however late it comes.
    """

    partition: str
    paused: bool
    by: str
    reason: str
    request_id: str


class Gate(Value):
    """A gate as it stands. ``already_applied`` answers a repeated request."""

    partition: str
    paused: bool
    since: AwareDatetime
    by: str
    reason: str
    already_applied: bool = False
