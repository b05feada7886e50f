"""What an engine calls: one-call dumps, recorders, adapters.

`dump` imports torch and pyarrow when it is called; the recorder and the adapter, which also need
numba, are imported when they are first named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# Bound here, not in __getattr__: importing the submodule of the same name would hide the function.
from kvaudit.capture.dump import dump

if TYPE_CHECKING:
    from kvaudit.capture.recorder import ForwardRow, RecordedPool, Recorder

__all__ = ["ForwardRow", "RecordedPool", "Recorder", "dump"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from kvaudit.capture import recorder

        public: object = getattr(recorder, name)
        return public
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
