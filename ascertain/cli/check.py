"""What one look of ``ascertain doctor`` came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """What one look came to.

    Attributes:
        advice: What to do about it, where something is to be done.
        exit_code: Of the command, if this is the first that failed.
    """

    part: str
    verdict: Verdict
    detail: str
    advice: str = ""
    exit_code: int = 0

    def document(self) -> dict[str, object]:
        """As one JSON object."""
        return {
            "part": self.part,
            "verdict": self.verdict,
            "detail": self.detail,
            "advice": self.advice or None,
        }
