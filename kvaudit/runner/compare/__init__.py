"""Two or three dumps, held against each other: `kvaudit diff` (DESIGN.md 6).

`legs` pairs the pools, `match` finds the slots of a pair that should hold the same, `leg` compares
them, and `report` says what was compared and what was not.
"""

from __future__ import annotations

from kvaudit.runner.compare.run import compare

__all__ = ["compare"]
