"""Pools as files, and what a process has imported after some code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kvaudit.constants import RealKvHashMode
from kvaudit.core.snapshot import PoolKey
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, fixture_f


def stamped() -> World:
    return fixture_f(
        mode=RealKvHashMode.ALL,
        stamped_columns=F_STAMPS,
        stamps=F_STAMPS,
        canary=("k.head", "k.tail", "v.head", "v.tail"),
    )


def written(world: World, folder: Path, *, batch_rows: int | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    write_snapshot(folder / "pool.snapshot.arrow", world.snapshot(), batch_rows=batch_rows)
    write_sequences(folder / "pool.sequences.arrow", world.sequences())
    return folder


def two_ranks(folder: Path, *, damaged: World, corrupt: str = "") -> Path:
    """Rank 0 as it is given, and rank 1 with a byte of a column changed after it was written."""
    folder.mkdir()
    for rank, world in enumerate([damaged, stamped()]):
        world.key = PoolKey(rank=rank)
        write_snapshot(folder / f"r{rank}.snapshot.arrow", world.snapshot())
        write_sequences(folder / f"r{rank}.sequences.arrow", world.sequences())
    path = folder / "r1.snapshot.arrow"
    data = bytearray(path.read_bytes())
    if corrupt:
        data[data.index(stamped().kv[corrupt][7].tobytes())] ^= 1
    else:
        del data[-30:]
    path.write_bytes(bytes(data))
    return folder


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())
