"""What a recorder writes of one pool, and the smaller forms of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.content import Content, columns_with_bytes
from kvaudit.capture.digests import column_digests
from kvaudit.constants import RealKvHashMode
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn, KvColumn, PageColumn, RowColumn
from kvaudit.core.layout import rows_per_page
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import DigestGrain, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolDump:
    """What one pair of files holds."""

    snapshot: Snapshot
    sequences: Sequences

    def as_content(self, content: Content) -> PoolDump:
        """The same with the bytes of that content alone, and digests of all columns but for bytes."""
        if content == "bytes":
            return self
        whole = self.snapshot
        without = {name: column for name, column in whole.kv.items() if name not in whole.digests}
        digests = {
            name: ArrayColumn(name=name, values=values)
            for name, values in column_digests(without).items()
        }
        snapshot = replace(
            whole,
            kv=columns_with_bytes(whole.kv, content),
            digests={**whole.digests, **digests},
        )
        return replace(self, snapshot=snapshot)

    def by_page(self) -> PoolDump:
        """A dump of digests with one hash of all slots of a page, and no records."""
        whole = self.snapshot
        by_page = rows_per_page(whole.slots, whole.page_size)
        snapshot = replace(
            whole,
            digest_grain=DigestGrain.PAGE,
            real_kv_hash_mode=RealKvHashMode.NONE,
            stamped_columns=(),
            canary={},
            stamped=_hashed_together(whole.stamped, by_page),
            digests=_hashed_together(whole.digests, by_page),
        )
        return replace(self, snapshot=snapshot)

    def in_memory(self) -> PoolDump:
        """The same with its KV bytes gathered now."""
        kv: dict[str, KvColumn] = {
            name: ArrayKvColumn(
                name=name,
                data=column.read_rows(0, column.num_rows),
                read_bytes=column.read_bytes,
                dtype=column.dtype,
            )
            for name, column in self.snapshot.kv.items()
        }
        return replace(self, snapshot=replace(self.snapshot, kv=kv))


def _hashed_together(
    columns: Mapping[str, RowColumn], by_page: NDArray[np.int64]
) -> dict[str, PageColumn]:
    """Columns of slots' hashes as columns of pages'; by_page is the rows of each page."""
    from kvaudit.backends.page_hashes import page_hashes

    pages = page_hashes([column.read().view(np.int64) for column in columns.values()], by_page)
    return {
        name: PageColumn(pages=ArrayColumn(name=column.name, values=values), rows_per_page=by_page)
        for (name, column), values in zip(columns.items(), pages, strict=True)
    }
