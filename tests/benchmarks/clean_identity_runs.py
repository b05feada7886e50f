"""False accusations and coverage of the identity family on real runs that have no fault.

Run: python tests/benchmarks/clean_identity_runs.py [--runs 20] [--folder DIR]

SmolLM2-135M serves in transformers' continuous batching, in bfloat16 and in float32, with prompts
in chunks, decode and shared prefixes; each run is dumped three times, in one call, nothing stamped.
Every dump is then judged by itself, by a table learnt from the other runs of its type, and by the
model's weights. Whatever is found is a false accusation, and the command leaves with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.helpers.clean_identity import SOURCES, Judged, added, judged_by_all
from tests.helpers.plain_runs import NUM_RUNS, dump_run, plain_run


def measured(num_runs: int, folder: Path) -> dict[str, Judged]:
    """What each source says of all dumps."""
    by_type: dict[str, dict[str, list[Path]]] = {}
    for seed in range(num_runs):
        run = plain_run(seed)
        dtype = str(run.dtype).removeprefix("torch.")
        by_type.setdefault(dtype, {})[run.name] = dump_run(run, folder)
        print(f"{run.name}: {len(by_type[dtype][run.name])} dumps", file=sys.stderr)
    found = {source: Judged() for source in SOURCES}
    for dtype, runs in by_type.items():
        for source, judged in judged_by_all(runs, dtype=dtype).items():
            found[source] = added(found[source], judged)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=NUM_RUNS)
    parser.add_argument("--folder", type=Path, help="where the dumps stay; default: nowhere")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = measured(options.runs, options.folder or Path(temporary))
    for source, judged in found.items():
        share = judged.checked / judged.planned
        print(
            f"by {source:<6}  {judged.dumps} dumps, {judged.planned:,} slots, {share:.1%} judged, "
            f"{judged.positions / judged.planned:.1%} by position too, "
            f"{len(judged.accusations)} false accusations"
        )
    accusations = [text for judged in found.values() for text in judged.accusations]
    print(*accusations, sep="\n", end="\n" if accusations else "")
    return 1 if accusations else 0


if __name__ == "__main__":
    sys.exit(main())
