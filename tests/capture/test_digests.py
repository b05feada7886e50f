"""Digests are computed where the tensors lie, and are the same wherever that is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kvaudit.backends import cuda_device, slot_hashes
from kvaudit.capture import Recorder, dump
from kvaudit.capture.digests import column_digests
from kvaudit.capture.layouts import slot_views
from kvaudit.capture.slot_view import GatheredColumn
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.core.report import Verdict
from kvaudit.errors import NoDevice
from kvaudit.kernels.fold import reference
from kvaudit.kernels.hash.reference import splitmix64
from tests.helpers.auditing import audited, bad_columns, bad_slots
from tests.helpers.toy_engine import PAGE_SIZE, ToyEngine

on_a_device = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]
WORDS = ("layer", "kv", "page", "slot", "head", "dim")


def reference_hashes(rows: np.ndarray) -> list[int]:
    hashes = np.zeros(len(rows), np.uint64)
    width = rows.shape[1]
    reference.launch_fold(rows, np.arange(len(rows)), hashes, 1, width, width)
    return hashes.view(np.int64).tolist()


def test_a_digest_covers_a_width_that_is_no_multiple_of_a_word() -> None:
    rows = np.arange(3 * 13, dtype=np.uint8).reshape(3, 13)
    column = ArrayKvColumn(name="kv.k.0", data=rows, read_bytes=13)
    (digests,) = column_digests({"kv.k.0": column}).values()
    assert digests.tolist() == reference_hashes(rows)


def test_a_page_on_the_host_is_one_digest() -> None:
    rows = np.arange(3 * 16, dtype=np.uint8).reshape(3, 16)
    column = ArrayKvColumn(name="kv.k.0", data=rows, read_bytes=16)
    digests = column_digests({"kv.k.0": column}, rows_per_page=np.array([2, 1]))
    first, second, third = (value % (1 << 64) for value in reference_hashes(rows))
    assert digests["kv.k.0"].view(np.uint64).tolist() == [
        splitmix64(splitmix64(first) ^ second),
        splitmix64(third),
    ]


class ColumnsOfADevice:
    """Two columns of CUDA tensors around one of the host, and a fold that answers for the device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (view,) = slot_views([torch.arange(8.0).reshape(4, 2)], layout="slot dim", page_size=1)
        slots = np.array([1, 3])
        far = SimpleNamespace(rows=SimpleNamespace(is_cuda=True), check_readable=lambda: None)
        self.columns = {
            "kv.k.0": GatheredColumn(view=far, slots=slots),
            "kv.k.1": GatheredColumn(view=view, slots=slots),
            "kv.k.2": GatheredColumn(view=far, slots=slots),
        }
        self.on_host = reference_hashes(view.gather(slots))
        self.asked: list[int] = []
        monkeypatch.setattr(slot_hashes, "slot_hashes", self._slot_hashes)

    def _slot_hashes(self, views: list, slots: np.ndarray, **_: object) -> list[np.ndarray]:
        self.asked = slots.tolist()
        return [slots + 10 * place for place, _ in enumerate(views)]


def test_columns_of_a_device_are_hashed_there_at_once_and_stay_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = ColumnsOfADevice(monkeypatch)
    monkeypatch.setattr(cuda_device, "require_cuda", lambda: "a device")
    digests = column_digests(pool.columns)
    assert list(digests) == ["kv.k.0", "kv.k.1", "kv.k.2"]
    assert [column.tolist() for column in digests.values()] == [[1, 3], pool.on_host, [11, 13]]
    assert pool.asked == [1, 3]


def test_columns_of_a_device_come_to_the_host_where_no_kernel_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_device() -> str:
        raise NoDevice("none")

    pool = ColumnsOfADevice(monkeypatch)
    monkeypatch.setattr(cuda_device, "require_cuda", no_device)
    gathered = GatheredColumn(view=pool.columns["kv.k.1"].view, slots=np.array([1, 3]))
    monkeypatch.setattr(type(gathered.view.rows), "is_cuda", True)
    digests = column_digests({"kv.k.1": gathered})
    assert digests["kv.k.1"].tolist() == pool.on_host
    assert pool.asked == []


REQUESTS = {
    "page_size": PAGE_SIZE,
    "page_tables": [[3, 1], [3, 5]],
    "kv_lens": [6, 7],
    "tokens": [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 8, 9, 10, 11]],
    "content": "digests",
}


def random_pool(dtype: torch.dtype) -> torch.Tensor:
    """Random bytes, shape [layer, kv, page, slot, head, dim]."""
    generator = torch.Generator().manual_seed(3)
    shape = (3, 2, 6, PAGE_SIZE, 2, 8 * dtype.itemsize)
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8).view(dtype)


@pytest.mark.parametrize("grain", ["slot", "page"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float32], ids=str)
@pytest.mark.parametrize(
    "layout",
    [
        "layer kv page slot head dim",
        "page slot layer kv head dim",
        "layer kv page head slot dim",
    ],
)
@pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_a_device)])
def test_a_dump_of_a_device_is_that_of_the_host(
    tmp_path: Path, device: str, layout: str, dtype: torch.dtype, grain: str
) -> None:
    order = [WORDS.index(word) for word in layout.split()]
    tensor = random_pool(dtype).permute(order).contiguous()
    asked = {**REQUESTS, "layout": layout, "digest_grain": grain}
    for place, kv in (("host", tensor), ("device", tensor.to(device))):
        dump(tmp_path / place / "full", kv=kv, **asked)
    for name in ("full.snapshot.arrow", "full.sequences.arrow"):
        files = [tmp_path / place / name for place in ("host", "device")]
        assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_a_device)])
def test_a_pool_without_a_live_slot_is_dumped(tmp_path: Path, device: str) -> None:
    kv = random_pool(torch.bfloat16).to(device)
    asked = {**REQUESTS, "page_tables": [[]], "kv_lens": [0], "tokens": None}
    dump(tmp_path / "full", kv=kv, layout=" ".join(WORDS), **asked)
    assert audited(tmp_path).verdict is Verdict.INCOMPLETE


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_device)])
@pytest.mark.parametrize("grain", ["slot", "page"])
def test_a_recorder_finds_a_flipped_bit_in_any_layer(
    tmp_path: Path, device: str, grain: str
) -> None:
    engine = ToyEngine(Recorder(content="digests"), num_layers=3, device=device)
    engine.join("a", [11, 12, 13, 14, 15, 16])
    engine.join("b", [21, 22, 23])
    for _ in range(3):
        engine.step()
    engine.recorder.dump(tmp_path / "clean", digest_grain=grain)
    assert audited(tmp_path / "clean").verdict is Verdict.CLEAN
    slot = engine.slots("a", 7)[6]
    first = slot if grain == "slot" else slot - slot % PAGE_SIZE
    for layer, halves in enumerate(engine.kv):
        for half, tensor in zip("kv", halves, strict=True):
            value = tensor.view(torch.int16)[slot // PAGE_SIZE, slot % PAGE_SIZE, 1, 2]
            value ^= 1 << 4
            folder = tmp_path / f"{half}{layer}"
            engine.recorder.dump(folder, digest_grain=grain)
            report = audited(folder)
            assert bad_slots(report) == {first}
            assert bad_columns(report) == {f"kv.{half}.{layer}"}
            value ^= 1 << 4


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_a_device)])
def test_a_recorder_on_a_device_writes_the_files_of_one_on_the_host(
    tmp_path: Path, device: str
) -> None:
    for place in ("cpu", device):
        engine = ToyEngine(Recorder(content="digests"), device=place)
        engine.join("a", [11, 12, 13, 14, 15, 16])
        engine.step()
        engine.leave("a")
        engine.join("b", [21, 22, 23])
        engine.step()
        engine.copy_page("b", 0)
        engine.step()
        engine.recorder.dump(tmp_path / place)
    names = sorted(path.name for path in (tmp_path / "cpu").iterdir())
    assert len(names) == 4
    for name in names:
        assert (tmp_path / "cpu" / name).read_bytes() == (tmp_path / device / name).read_bytes()
