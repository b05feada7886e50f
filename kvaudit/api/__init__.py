"""The public functions: what the commands call, and what a program may call instead.

Importing this package loads neither numba nor pyarrow: each function imports what it needs.
"""

from kvaudit.api.audits import audit, blame, compare
from kvaudit.api.audits import open as open  # noqa: A004 - `api.open` reads as what it does
from kvaudit.api.benchmark import bench
from kvaudit.api.copies import inject, stamp
from kvaudit.api.layer0 import learn, learn_model, open_table
from kvaudit.api.runs import open_run, replay

__all__ = [
    "audit",
    "bench",
    "blame",
    "compare",
    "inject",
    "learn",
    "learn_model",
    "open",
    "open_run",
    "open_table",
    "replay",
    "stamp",
]
