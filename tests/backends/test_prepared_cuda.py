"""Prepared launches on a device: graphs, streams, allocations and waiting.

`test_launch` and `test_prepared_launch` hold them against the shared vectors and one-shot launches.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kvaudit.backends import launch
from kvaudit.backends.prepared_cuda import RecordedKernels
from kvaudit.backends.recorded_work import recorded, side_stream
from tests.helpers.lanes import IN_SIMULATOR
from tests.helpers.torch_launches import (
    LAUNCHES,
    assert_outputs,
    make_context,
    make_source,
    on_device,
    stamp_all,
    tensors_of,
    vector_launch,
)
from tests.helpers.vectors import vector_cases

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        IN_SIMULATOR or not torch.cuda.is_available(), reason="torch finds no CUDA device"
    ),
]

NUM_SLOTS = 1024
BUSY_CYCLES = 1 << 29


def stamped(num_sources: int = 1) -> dict[str, Any]:
    """The arguments of a verify launch of all slots that finds everything right."""
    sources = [make_source(num_slots=NUM_SLOTS) for _ in range(num_sources)]
    context = make_context(num_slots=NUM_SLOTS, real_kv_sources=sources)
    plan = stamp_all(context, launch.launch_canary_write_kernel)
    context.slot_run_counter.zero_()
    context.kernel_run_counter.zero_()
    arguments = {"context": context, "plan": plan, "check_verify_expected_token": True}
    return on_device(arguments, "cuda")


def captured(prepared: launch.PreparedLaunch) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        prepared()
    return graph


def assert_ran(arguments: dict[str, Any], num_runs: int) -> None:
    context = arguments["context"]
    torch.cuda.synchronize()
    assert context.kernel_run_counter.tolist() == [num_runs]
    assert context.slot_run_counter.tolist() == [num_runs * (NUM_SLOTS - 1)]
    assert context.violation_write_index.tolist() == [0]


@pytest.mark.parametrize("family", LAUNCHES)
def test_a_graph_that_captured_a_launch_replays_it_on_what_its_tensors_hold(family: str) -> None:
    """On a case of the vectors, then on what is no case of theirs, then on the case again."""
    name = LAUNCHES[family]
    for case, (inputs, expected) in enumerate(vector_cases(family)):
        arguments, outputs = vector_launch(family, inputs, device="cuda")
        twins, twin_outputs = vector_launch(family, inputs, device="cuda")
        for tensor in tensors_of(twins):
            tensor.copy_(tensor.flatten().roll(1).view_as(tensor))
        tensors = list(tensors_of(arguments))
        held = [tensor.clone() for tensor in tensors]
        turned = [tensor.clone() for tensor in tensors_of(twins)]
        getattr(launch, f"launch_{name}")(**twins)
        graph = captured(getattr(launch, f"prepare_{name}")(**arguments))
        for contents, wanted in ((held, expected), (turned, twin_outputs()), (held, expected)):
            for tensor, values in zip(tensors, contents, strict=True):
                tensor.copy_(values)
            graph.replay()
            assert_outputs(outputs(), wanted, rows_are_free=True, case=case)
    assert case == 59


def test_a_call_runs_after_the_work_that_its_stream_already_has() -> None:
    arguments = stamped()
    prepared = launch.prepare_canary_verify_kernel(**arguments)
    enable = arguments["plan"].enable
    for runs, stream in enumerate((torch.cuda.Stream(), torch.cuda.default_stream()), start=1):
        enable.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(BUSY_CYCLES)
            enable.fill_(1)
            prepared()
        assert_ran(arguments, runs)


@pytest.mark.parametrize("num_sources", [1, 64])
def test_a_call_does_not_wait_for_its_stream(num_sources: int) -> None:
    arguments = stamped(num_sources)
    prepared = launch.prepare_canary_verify_kernel(**arguments)
    torch.cuda._sleep(BUSY_CYCLES)
    busy = torch.cuda.Event()
    busy.record()
    for _ in range(3):
        prepared()
    assert not busy.query()
    assert_ran(arguments, 3)


def test_a_call_allocates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvaudit.kernels.cuda_module import cuda

    def refuse(*_arguments: object, **_named: object) -> None:
        raise AssertionError

    def allocated() -> tuple[int, int]:
        stats = torch.cuda.memory_stats()
        return stats["allocation.all.allocated"], stats["segment.all.allocated"]

    arguments = stamped(num_sources=3)
    prepared = launch.prepare_canary_verify_kernel(**arguments)
    monkeypatch.setattr(type(cuda.current_context().memory_manager), "memalloc", refuse)
    before = allocated()
    for _ in range(3):
        prepared()
    assert allocated() == before
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        before = allocated()
        prepared()
        assert allocated() == before
    graph.replay()
    assert_ran(arguments, 4)


def test_sources_by_the_dozen_are_one_launch_that_finds_a_flipped_bit() -> None:
    arguments = stamped(num_sources=64)
    context = arguments["context"]
    prepared = launch.prepare_canary_verify_kernel(**arguments)
    prepared()
    assert_ran(arguments, 1)
    context.real_kv_sources[63].tensor[50, 3] ^= 1  # slot 100
    prepared()
    assert context.violation_write_index.tolist() == [1]
    assert context.violation_ring[0, 1].item() == 100


def test_another_thread_can_call_a_prepared_launch() -> None:
    arguments = stamped()
    prepared = launch.prepare_canary_verify_kernel(**arguments)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(prepared).result()
    prepared()
    assert_ran(arguments, 2)


def test_nothing_is_prepared_while_a_graph_is_captured() -> None:
    arguments = stamped()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        with pytest.raises(ValueError, match="capturing a graph"):
            launch.prepare_canary_verify_kernel(**arguments)
        torch.zeros(1, device="cuda")  # a graph of nothing is a warning
    launch.prepare_canary_verify_kernel(**arguments)()
    assert_ran(arguments, 1)


FRESH_PROCESS = """
from tests.backends.test_prepared_cuda import assert_ran, captured, launch, stamped

arguments = stamped(num_sources=2)
graph = captured(launch.prepare_canary_verify_kernel(**arguments))
graph.replay()
assert_ran(arguments, 1)
"""


def test_a_fresh_process_captures_kernels_that_it_compiled_or_read_from_disk(
    tmp_path: Path,
) -> None:
    root = Path(__file__).parents[2]
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", FRESH_PROCESS],
            cwd=root,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("*.nbi"))


def test_memory_that_numba_is_given_back_meanwhile_ends_no_recording() -> None:
    from numba import cuda

    # More than numba keeps for later: it frees them where the last one is dropped.
    dropped = [[cuda.device_array(1, dtype=np.int32) for _ in range(64)] for _ in range(2)]
    counter = torch.zeros(1, dtype=torch.int64, device="cuda")

    def enqueue() -> None:
        dropped.pop().clear()
        counter.add_(1)

    kernels = RecordedKernels(enqueue, counter.device)
    before = int(counter)
    kernels()
    assert int(counter) == before + 1


def test_what_python_collects_meanwhile_ends_no_recording() -> None:
    """Streams, events and graphs of anyone's, in a cycle: a collection is what lets go of them."""
    from numba import cuda

    def of_anyone() -> list[object]:
        stream = side_stream()
        return [stream, recorded(lambda: None, stream), cuda.stream(), torch.cuda.Event()]

    counter = torch.zeros(1, dtype=torch.int64, device="cuda")
    owned = [of_anyone() for _ in range(2)]

    def enqueue() -> None:
        cycle = owned.pop()[:]  # young: the next collection would find it
        cycle.append(cycle)
        del cycle
        _ = [[number] for number in range(100_000)]
        counter.add_(1)

    kernels = RecordedKernels(enqueue, counter.device)
    before = int(counter)
    kernels()
    assert int(counter) == before + 1
    assert gc.isenabled()
