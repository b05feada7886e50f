"""One call that writes what a pool holds and what it should hold.

It stamps nothing and copies only the rows it writes, a batch at a time. For `content="bytes"` it
imports torch, pyarrow, numpy and xxhash alone, so that it can live in an engine's image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.arguments import check_choice, integer, schema_metadata, slot_ranges, text
from kvaudit.capture.content import FIRST_LAYER, Content, Grain, check_content, columns_with_bytes
from kvaudit.capture.layouts import KvTensors, Layers, slot_views
from kvaudit.capture.rope_metadata import RopeSource, rope_metadata
from kvaudit.capture.slot_view import GatheredColumn
from kvaudit.capture.tables import IntegerLists, Integers, flat_sequences, live_slots, sequence_rows
from kvaudit.core.kv_column import ArrayColumn, PageColumn, RowColumn
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.layout import rows_per_page
from kvaudit.core.snapshot import DigestGrain, DumpMoment, PoolKey, Snapshot
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    from kvaudit.core.sequences import Sequences

Rows = Literal["live", "all"]

SNAPSHOT_SUFFIX: Final = ".snapshot.arrow"
SEQUENCES_SUFFIX: Final = ".sequences.arrow"


def dump(
    path: str | Path,
    *,
    kv: KvTensors,
    layout: str,
    page_size: int,
    page_tables: IntegerLists | None = None,
    slots: IntegerLists | None = None,
    tokens: IntegerLists | None = None,
    kv_lens: Integers | None = None,
    request_ids: Sequence[str] | None = None,
    extra_keys: Sequence[str | None] | None = None,
    reserved_slots: str = "0",
    rows: Rows = "live",
    layers: Layers = "all",
    content: Content = "bytes",
    digest_grain: Grain = "slot",
    rope: RopeSource | None = None,
    at: Literal["step_end", "mid_step", "unknown"] = "step_end",
    instance: str | None = None,
    group: str | None = None,
    pool_kind: Literal["FULL", "SWA"] = "FULL",
    rank: int | None = None,
    step: int | None = None,
    metadata: Mapping[str, str] | None = None,
) -> tuple[Path, Path]:
    """Write `<path>.snapshot.arrow` and `<path>.sequences.arrow`; the first names the second.

    Call it where a step ends: nothing may write to the pool while it runs. Token i of a request is
    in slot page_table[i // page_size] * page_size + i % page_size.

    An engine's faults are written, not refused. A slot outside the pool is named in the sequences
    and has no row in the snapshot: -1 for a negative page, OUT_OF_TABLE_SLOT beyond int64, else as
    it is; the audit reports it as KV102. A table that ends before kv_len gives the slots it has,
    which is KV104; a kv_len that no file holds is written as the longest there is.

    Args:
        path: the stem of both files; its folder is made.
        kv: a list with an entry a layer, a dict by layer, or, where the layout has `layer`, one
            tensor or a (k, v) pair over all layers. An entry is a (k, v) pair, a tensor with a
            `kv` dimension, or a tensor that holds both halves of a token fused (such as MLA's).
            Any dtype, any strides, any device.
        layout: the order of the tensors' dimensions in the words layer, kv, page, slot, head, dim:
            "page slot head dim", "slot head dim", "kv page slot head dim" (vLLM), "page kv slot
            head dim" (flashinfer), "page head slot dim" (HND).
        page_size: slots a page.
        page_tables: pages of each request, lists or a tensor [num_requests, max_pages]; entries
            past kv_len are not read. Exactly one of page_tables and slots.
        slots: slot of each token of each request.
        tokens: prompt and output tokens of each request, the last sampled one too; None = unknown.
        kv_lens: tokens of each request whose KV is written; needed with page_tables, else as many
            as there are both tokens and slots.
        request_ids: name of each request; None names them 0, 1, ...
        extra_keys: what else the KV of a request depends on: LoRA, cache salt, media.
        reserved_slots: slots that never hold a token: "0", "0-15", "none".
        rows: "live" dumps the slots of all positions below kv_len, "all" the whole pool.
        layers: the layers to dump.
        content: "bytes", "digests" for one 64-bit hash a layer, half and slot, or "digests+layer0"
            for these and the bytes of layer 0, which tell whose KV a slot holds. Digests of CUDA
            tensors are computed on their devices, which needs kvaudit's kernels, compiled once.
        digest_grain: "slot", or "page" for one hash of all live slots of a page together: smaller
            files, in which a page that differs is named and not its slot.
        rope: how the model rotates K, for an audit of layer 0 without a stamp: the model's
            configuration as `config.json` has it, such as `model.config.to_dict()`, or a
            `kvaudit.core.rope.Rope`; None = not known, and positions stay open.
        at: when within the step this is; bytes of "mid_step" are never judged.
        instance: the engine process, such as "decode-0"; it and the next four pair files.
        group: "target", "draft", or the engine's cache group.
        pool_kind: "FULL", or "SWA" for a pool of a sliding window.
        rank: the rank that owns the pool.
        step: the engine's step.
        metadata: further schema metadata, such as {"engine": ..., "model": ...}.

    Returns:
        the paths of the snapshot and of the sequences.

    Raises:
        ConfigError: an argument is of another type or shape, is negative where a length stands, or
            does not fit the others; the message names it.
        FileUnwritable: a file or its folder cannot be written.
    """
    check_choice("rows", rows, ("live", "all"))
    check_content(content, digest_grain)
    check_choice("at", at, tuple(DumpMoment))
    check_choice("pool_kind", pool_kind, tuple(PoolKind))
    page_size = integer(page_size, "page_size", at_least=1)
    reserved = slot_ranges(reserved_slots, "reserved_slots")
    further = {**schema_metadata(metadata), **rope_metadata(rope)}
    key = PoolKey(
        instance=None if instance is None else text(instance, "instance"),
        group=None if group is None else text(group, "group"),
        pool_kind=PoolKind(pool_kind),
        rank=None if rank is None else integer(rank, "rank", at_least=0),
        step=None if step is None else integer(step, "step", at_least=0),
    )
    views = slot_views(kv, layout=layout, page_size=page_size, layers=layers)
    _check_first_layer(layers, content)
    num_slots = views[0].num_slots
    sequences = sequence_rows(
        page_size=page_size,
        page_tables=page_tables,
        slots=slots,
        tokens=tokens,
        kv_lens=kv_lens,
        request_ids=request_ids,
        extra_keys=extra_keys,
    )
    every_slot = np.arange(num_slots, dtype=np.int64)
    row_slots = live_slots(sequences, num_slots) if rows == "live" else every_slot
    columns = {view.name: GatheredColumn(view=view, slots=row_slots) for view in views}
    by_page = rows_per_page(row_slots, page_size) if digest_grain == "page" else None
    snapshot = Snapshot(
        slots=row_slots,
        num_slots=num_slots,
        page_size=page_size,
        reserved_slots=reserved,
        key=key,
        at=DumpMoment(at),
        kv=columns_with_bytes(columns, content),
        digests={} if content == "bytes" else _digests(columns, by_page),
        digest_grain=DigestGrain(digest_grain),
        metadata={**further, "sequences": sequences_path(path).name},
    )
    return write_pair(path, snapshot=snapshot, sequences=flat_sequences(sequences, key))


def snapshot_path(stem: str | Path) -> Path:
    """The snapshot of a stem; a dot in the stem is no suffix."""
    return Path(f"{stem}{SNAPSHOT_SUFFIX}")


def sequences_path(stem: str | Path) -> Path:
    """The sequences of a stem."""
    return Path(f"{stem}{SEQUENCES_SUFFIX}")


def write_pair(stem: str | Path, *, snapshot: Snapshot, sequences: Sequences) -> tuple[Path, Path]:
    """Write both files, the companion first: no snapshot ever names a file that is not there."""
    from kvaudit.formats.atomic_file import make_folder
    from kvaudit.formats.sequences_writer import write_sequences
    from kvaudit.formats.snapshot_writer import write_snapshot

    files = snapshot_path(stem), sequences_path(stem)
    make_folder(files[0].parent)
    write_sequences(str(files[1]), sequences)
    try:
        write_snapshot(str(files[0]), snapshot)
    except BaseException:
        # Whatever snapshot stands there is not the one that these sequences are of.
        files[1].unlink(missing_ok=True)
        raise
    return files


def _check_first_layer(layers: Layers, content: Content) -> None:
    """Refuse to leave out the layer that is asked for; a later rank of a pipeline has none."""
    if content == "digests+layer0" and not isinstance(layers, str) and FIRST_LAYER not in layers:
        raise ConfigError(
            f"layers: {list(layers)}, but the content is {content}",
            hint="add layer 0, or give content='digests'",
        )


def _digests(
    columns: Mapping[str, GatheredColumn], by_page: NDArray[np.int64] | None
) -> dict[str, RowColumn]:
    """The digest columns; by_page is the rows of each page, or None for a digest a slot."""
    from kvaudit.capture.digests import column_digests

    digests: dict[str, RowColumn] = {}
    for name, values in column_digests(columns, rows_per_page=by_page).items():
        column = ArrayColumn(name=name, values=values)
        digests[name] = (
            column if by_page is None else PageColumn(pages=column, rows_per_page=by_page)
        )
    return digests
