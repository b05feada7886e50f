"""Which lane this process runs, asked without importing what would decide it."""

from __future__ import annotations

import os

# numba reads it once, before its first import.
IN_SIMULATOR = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") == "1"
