"""One slot's case: what it holds, who claims it, and whose content that is (`kvaudit blame`)."""

from __future__ import annotations

from kvaudit.runner.blame.run import blame

__all__ = ["blame"]
