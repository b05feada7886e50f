"""One pool in two or three dumps: its legs, what of them was compared, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.backend import Backend
from kvaudit.core.comparison import CompareOptions, LegKind
from kvaudit.core.comparison_choices import LETTERS
from kvaudit.core.comparison_evidence import PoolAtStep
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.observer import RunObserver
from kvaudit.core.snapshot import DigestGrain
from kvaudit.diagnosis.rule import Rule
from kvaudit.runner.compare.bytes import BytesComparison
from kvaudit.runner.compare.columns import leg_columns
from kvaudit.runner.compare.growth import pool_at_step
from kvaudit.runner.compare.leg import Leg, LegResult
from kvaudit.runner.compare.leg_bytes import LegBytes
from kvaudit.runner.compare.legs import distinct_keys, leg_kind
from kvaudit.runner.compare.match import Matcher
from kvaudit.runner.compare.pages import page_pairs
from kvaudit.runner.compare.records import RecordDifferences, compare_records
from kvaudit.runner.compare.side import Side
from kvaudit.runner.expectations import scope_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolComparison:
    """The comparison of one pool's dumps.

    Fields:
        pools: two or three dumps, each with its expectations.
        beside: for each of them the pools of the same files.
        backend: what computes.
        options: what the user asked for.
        rules: the rules to run.
        observer: told of progress.
    """

    pools: Sequence[AuditedPool]
    beside: Sequence[Sequence[AuditedPool]]
    backend: Backend
    options: CompareOptions
    rules: Sequence[Rule]
    observer: RunObserver

    def run(self) -> list[LegResult]:
        """Compare each dump with the next.

        Raises:
            InputError: a file is corrupt, or the dumps are of different geometry.
        """
        scope = scope_of(self.options.audit)
        sides = [
            Side(pool, letter=letter, backend=self.backend, scope=scope)
            for pool, letter in zip(self.pools, LETTERS, strict=False)
        ]
        numbers = range(len(sides) - 1)
        kinds = [leg_kind(sides[n].snapshot, sides[n + 1].snapshot) for n in numbers]
        legs = [self._leg_bytes(sides, n, kind=kinds[n]) for n in numbers]
        comparison = BytesComparison(
            sides=sides,
            legs=legs,
            backend=self.backend,
            options=self.options,
            observer=self.observer,
        )
        kv_bytes = comparison.run()
        records = [compare_records(sides[n], sides[n + 1], legs[n].matching) for n in numbers]
        states = self._states(kinds)
        bad = [_bad_rows(legs[n], records[n], sides[n + 1]) for n in numbers]
        keys = distinct_keys([side.snapshot.key for side in sides[1:]], letters=LETTERS[1:])
        results = []
        for n in numbers:
            onward = None if n + 1 == len(numbers) else (legs[n + 1], bad[n + 1])
            results.append(
                Leg(
                    left=sides[n],
                    right=sides[n + 1],
                    key=keys[n],
                    kind=kinds[n],
                    bytes=legs[n],
                    records=records[n],
                    bad=bad[n],
                    states=[states[at] for at in (n, n + 1) if kinds[n] is LegKind.STEPS],
                ).result(
                    self.options,
                    self.rules,
                    onward=onward,
                    kv_bytes=0 if n else kv_bytes,
                )
            )
        return results

    def _leg_bytes(self, sides: Sequence[Side], number: int, *, kind: LegKind) -> LegBytes:
        left, right = sides[number], sides[number + 1]
        columns = leg_columns(left, right, kind=kind, options=self.options)
        matching = Matcher(left, right, kind=kind, match=self.options.match).run()
        by_page = left.snapshot.digest_grain is right.snapshot.digest_grain is DigestGrain.PAGE
        return LegBytes(
            left=number,
            right=number + 1,
            matching=matching,
            columns=columns,
            pages=page_pairs(matching.pairs, left.snapshot, right.snapshot) if by_page else None,
            differs=np.zeros(len(matching.pairs), dtype=np.bool_),
            restored=np.zeros(len(matching.pairs), dtype=np.bool_),
        )

    def _states(self, kinds: Sequence[LegKind]) -> Mapping[int, PoolAtStep]:
        """Audits of the dumps that are of one pool at several steps."""
        wanted = {at for n, kind in enumerate(kinds) if kind is LegKind.STEPS for at in (n, n + 1)}
        return {
            at: pool_at_step(
                self.pools[at],
                beside=self.beside[at],
                backend=self.backend,
                options=self.options.audit,
                observer=self.observer,
            )
            for at in sorted(wanted)
        }


def _bad_rows(leg: LegBytes, records: RecordDifferences, right: Side) -> NDArray[np.bool_]:
    """Rows of the right dump whose record or KV differs, shape [num_rows], bool."""
    bad = np.zeros(right.snapshot.num_rows, dtype=np.bool_)
    pairs = leg.matching.pairs
    bad[pairs.right_rows[leg.differs]] = True
    bad[pairs.right_rows[records.pairs]] = True
    return bad
