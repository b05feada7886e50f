"""A recorded run, run again: `kvaudit replay` (DESIGN.md 7).

`replay_run` steps the classes of `runner.live` over a trace and holds what they write against the
snapshots of the run. Slots are those of the launches: where slot 0 is a real one, all are shifted by
a page.
"""

from __future__ import annotations

from kvaudit.runner.replay.place import ReplayPlace, choose_place
from kvaudit.runner.replay.run import ReplayOptions, replay_run

__all__ = ["ReplayOptions", "ReplayPlace", "choose_place", "replay_run"]
