"""One call writes what the pool held; the readers give it back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from kvaudit.capture import dump
from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.constants import OUT_OF_TABLE_SLOT
from kvaudit.errors import ConfigError, FileUnwritable
from kvaudit.formats.reader import read_file
from kvaudit.kernels.fold.reference import launch_fold
from kvaudit.kernels.hash.reference import splitmix64

PAGES, PAGE_SIZE, HEADS, DIM = 6, 4, 2, 5


def pairs(num_layers: int = 2) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(7)
    shape = (PAGES, PAGE_SIZE, HEADS, DIM)
    return [
        tuple(torch.randn(shape, generator=generator).to(torch.bfloat16) for _ in "kv")
        for _ in range(num_layers)
    ]


POOL = {"kv": pairs(), "layout": "page slot head dim", "page_size": PAGE_SIZE}
REQUESTS = {
    "page_tables": [[3, 1], [3, 5]],
    "kv_lens": [6, 7],
    "tokens": [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 8, 9, 10, 11]],
    "request_ids": ["a", "b"],
}
LIVE = [4, 5, 12, 13, 14, 15, 20, 21, 22]


def expected_row(layer: int, half: int, slot: int) -> bytes:
    row = POOL["kv"][layer][half][slot // PAGE_SIZE, slot % PAGE_SIZE]
    return row.contiguous().view(torch.uint8).numpy().tobytes()


def assert_holds_the_pool(snapshot, slots: list[int]) -> None:
    assert snapshot.slots.tolist() == slots
    assert list(snapshot.kv) == ["kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1"]
    for name, column in snapshot.kv.items():
        _, half, layer = name.split(".")
        rows = column.read_rows(0, len(slots))
        assert column.dtype == "bfloat16"
        assert [row.tobytes() for row in rows] == [
            expected_row(int(layer), "kv".index(half), slot) for slot in slots
        ]


def test_live_rows_are_the_slots_below_kv_len(tmp_path: Path) -> None:
    files = dump(tmp_path / "full", **POOL, **REQUESTS)
    assert files == (tmp_path / "full.snapshot.arrow", tmp_path / "full.sequences.arrow")
    snapshot, sequences = (read_file(str(path)) for path in files)
    assert_holds_the_pool(snapshot, LIVE)
    assert (snapshot.num_slots, snapshot.page_size) == (PAGES * PAGE_SIZE, PAGE_SIZE)
    assert snapshot.metadata["sequences"] == "full.sequences.arrow"
    assert snapshot.checksummed
    assert list(sequences.request_ids) == ["a", "b"]
    assert sequences.kv_lens.tolist() == [6, 7]
    assert sequences.slots_of(1).tolist() == [12, 13, 14, 15, 20, 21, 22]
    assert sequences.tokens_of(0).tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_all_rows_are_the_whole_pool(tmp_path: Path) -> None:
    snapshot_file, _ = dump(tmp_path / "full", **POOL, **REQUESTS, rows="all")
    assert_holds_the_pool(read_file(str(snapshot_file)), list(range(PAGES * PAGE_SIZE)))


def test_slots_give_the_same_files_as_page_tables(tmp_path: Path) -> None:
    slots = [[12, 13, 14, 15, 4, 5], [12, 13, 14, 15, 20, 21, 22]]
    others = {key: value for key, value in REQUESTS.items() if key != "page_tables"}
    by_pages = dump(tmp_path / "a" / "full", **POOL, **REQUESTS)
    by_slots = dump(tmp_path / "b" / "full", **POOL, **others, slots=slots)
    for first, second in zip(by_pages, by_slots, strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_digests_are_the_hashes_of_the_bytes(tmp_path: Path) -> None:
    snapshot_file, _ = dump(tmp_path / "full", **POOL, **REQUESTS, content="digests")
    snapshot = read_file(str(snapshot_file))
    assert not snapshot.kv
    assert list(snapshot.digests) == ["kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1"]
    for name, digests in snapshot.digests.items():
        _, half, layer = name.split(".")
        rows = [expected_row(int(layer), "kv".index(half), slot) for slot in LIVE]
        expected = reference_hashes(np.frombuffer(b"".join(rows), np.uint8).reshape(len(LIVE), -1))
        np.testing.assert_array_equal(digests.read().view(np.uint64), expected)


def test_a_digest_of_a_page_is_of_its_live_slots_in_their_order(tmp_path: Path) -> None:
    asked = {**POOL, **REQUESTS, "content": "digests"}
    by_slot, by_page = (
        read_file(str(dump(tmp_path / grain, **asked, digest_grain=grain)[0]))
        for grain in ("slot", "page")
    )
    assert by_page.slots.tolist() == by_slot.slots.tolist() == LIVE
    assert by_page.digest_grain == "page"
    pages = [[4, 5], [12, 13, 14, 15], [20, 21, 22]]
    for name, digests in by_slot.digests.items():
        of_slot = dict(zip(LIVE, digests.read().view(np.uint64).tolist(), strict=True))
        expected = []
        for page in pages:
            running = 0
            for slot in page:
                running = splitmix64(running ^ of_slot[slot])
            expected += [running] * len(page)
        assert by_page.digests[name].read().view(np.uint64).tolist() == expected


def test_digests_of_pages_are_of_a_pool_without_a_live_slot_too(tmp_path: Path) -> None:
    asked = {**POOL, "page_tables": [[]], "kv_lens": [0], "content": "digests"}
    snapshot_file, _ = dump(tmp_path / "full", **asked, digest_grain="page")
    assert read_file(str(snapshot_file)).num_rows == 0


def reference_hashes(rows: np.ndarray) -> np.ndarray:
    hashes = np.zeros(len(rows), np.uint64)
    width = rows.shape[1]
    launch_fold(rows, np.arange(len(rows)), hashes, 1, width, width)
    return hashes


def test_the_key_and_further_metadata_are_in_both_or_in_the_snapshot(tmp_path: Path) -> None:
    files = dump(
        tmp_path / "decode-0.target.r3",
        **POOL,
        **REQUESTS,
        instance="decode-0",
        group="target",
        rank=3,
        step=120,
        pool_kind="SWA",
        reserved_slots="0-3",
        at="mid_step",
        metadata={"engine": "toy"},
    )
    assert [path.name for path in files] == [
        "decode-0.target.r3.snapshot.arrow",
        "decode-0.target.r3.sequences.arrow",
    ]
    snapshot, sequences = (read_file(str(path)) for path in files)
    for key in (snapshot.key, sequences.key):
        assert (key.instance, key.group, key.rank, key.step) == ("decode-0", "target", 3, 120)
        assert key.pool_kind == "SWA"
    assert str(snapshot.reserved_slots) == "0-3"
    assert snapshot.at == "mid_step"
    assert snapshot.metadata["engine"] == "toy"


def test_only_the_layers_asked_for_are_dumped(tmp_path: Path) -> None:
    snapshot_file, _ = dump(tmp_path / "full", **POOL, **REQUESTS, layers=[1])
    assert list(read_file(str(snapshot_file)).kv) == ["kv.k.1", "kv.v.1"]


@pytest.mark.parametrize("content", ["bytes", "digests"])
@pytest.mark.parametrize(
    ("page", "slots"),
    [
        (PAGES, [24, 25]),
        (-3, [-1, -1]),
        (1 << 62, [OUT_OF_TABLE_SLOT, OUT_OF_TABLE_SLOT]),
    ],
)
def test_a_page_outside_the_pool_is_dumped_and_the_audit_reports_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], page: int, slots: list[int], content: str
) -> None:
    dumped = {**REQUESTS, "page_tables": [[3, page], [3, 5]], "content": content}
    files = dump(tmp_path / "full", **POOL, **dumped)
    snapshot, sequences = (read_file(str(path)) for path in files)
    assert snapshot.slots.tolist() == [12, 13, 14, 15, 20, 21, 22]
    assert sequences.slots_of(0).tolist() == [12, 13, 14, 15, *slots]
    report, code = audited_by_command(tmp_path, capsys)
    assert code == ExitCode.VIOLATIONS
    (finding,) = report["findings"]
    assert (finding["rule"], finding["request_ids"]) == ("KV102", ["a"])
    assert [(hit["position"], hit["slot"]) for hit in finding["evidence"]["examples"]] == [
        (4, slots[0]),
        (5, slots[1]),
    ]


@pytest.mark.parametrize("arguments", [{"page_tables": [[3], [3, 5]]}, {"kv_lens": [1 << 62, 7]}])
def test_a_table_that_ends_before_kv_len_is_dumped_and_the_audit_reports_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: dict
) -> None:
    dump(tmp_path / "full", **POOL, **{**REQUESTS, **arguments})
    report, code = audited_by_command(tmp_path, capsys)
    assert code == ExitCode.VIOLATIONS
    assert [(finding["rule"], finding["request_ids"]) for finding in report["findings"]] == [
        ("KV104", ["a"])
    ]


def audited_by_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict, int]:
    """The JSON report and the exit code."""
    code = run(["verify", str(folder), "--backend", "reference", "--format", "json"])
    return json.loads(capsys.readouterr().out), code


def test_a_dump_without_a_live_slot_is_readable(tmp_path: Path) -> None:
    files = dump(tmp_path / "full", **POOL, page_tables=[[]], kv_lens=[0])
    snapshot, sequences = (read_file(str(path)) for path in files)
    assert snapshot.num_rows == 0
    assert sequences.num_sequences == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rows": "some"}, "rows"),
        ({"content": "both"}, "content"),
        ({"content": "digests", "digest_grain": "block"}, "digest_grain"),
        ({"digest_grain": "page"}, "digest_grain"),
        ({"at": "now"}, "at"),
        ({"pool_kind": "full"}, "pool_kind"),
        ({"kv_lens": None}, "kv_lens"),
        ({"page_size": 8}, "page_size"),
        ({"layout": "page slot dim"}, "layout"),
        ({"page_size": 4.0}, "page_size"),
        ({"reserved_slots": 0}, "reserved_slots"),
        ({"rank": -1}, "rank"),
        ({"step": "last"}, "step"),
        ({"instance": "\ud800"}, "instance"),
        ({"metadata": {"rank": "3"}}, "metadata"),
        ({"layers": [9]}, "layers"),
        ({"page_tables": [[3.0, 1.0], [3, 5]]}, r"page_tables\[0\]"),
        ({"page_tables": [[3, 1]]}, "tokens"),
    ],
)
def test_an_argument_that_does_not_fit_leaves_no_file(
    tmp_path: Path, arguments: dict, named: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{named}: ") as refused:
        dump(tmp_path / "full", **{**POOL, **REQUESTS, **arguments})
    assert refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_dump_that_fails_on_its_way_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does an earlier dump of that name keep sequences that are not its own."""
    dump(tmp_path / "full", **POOL, **REQUESTS)

    def device_is_gone(*_: object) -> None:
        raise RuntimeError("device lost")

    monkeypatch.setattr("kvaudit.capture.slot_view.SlotView.gather", device_is_gone)
    for stem in ("full", "other"):
        with pytest.raises(RuntimeError, match="device lost"):
            dump(tmp_path / stem, **POOL, **REQUESTS)
    assert [file.name for file in tmp_path.iterdir()] == ["full.snapshot.arrow"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileUnwritable):
        dump(tmp_path / "file" / "full", **POOL, **REQUESTS)


BARE_ENVIRONMENT = """
import sys
from kvaudit.capture import dump
assert not {"torch", "pyarrow", "numba", "typer", "rich"} & set(sys.modules)
import torch
pair = (torch.zeros(4, 2, 1, 8), torch.zeros(4, 2, 1, 8))
loaded = set(sys.modules)
dump(sys.argv[1], kv=[pair], layout="page slot head dim", page_size=2, page_tables=[[1]], kv_lens=[1])
packages = {name.partition(".")[0] for name in set(sys.modules) - loaded}
print(*(name for name in packages - set(sys.stdlib_module_names) if not name.startswith("_")))
"""


def test_bytes_need_torch_pyarrow_numpy_and_xxhash_alone(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", BARE_ENVIRONMENT, str(tmp_path / "full")],
        check=True,
        capture_output=True,
        text=True,
    )
    packages = set(run.stdout.split()) - {"cython_runtime"}
    assert {"pyarrow", "xxhash"} <= packages <= {"kvaudit", "torch", "pyarrow", "numpy", "xxhash"}
