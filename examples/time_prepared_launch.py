"""How long the host takes to enqueue a verify of 1,000 entries: at once, prepared, in a CUDA graph.

pip install '.[torch,cuda13]' && python examples/time_prepared_launch.py --sources 1 64
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from kvaudit.backends import launch

NUM_ENTRIES, PAGE_SIZE, TOKEN_BYTES = 1000, 16, 1024
NUM_PAGES = 1 + -(-NUM_ENTRIES // PAGE_SIZE)
NUM_ROUNDS, CALLS_A_ROUND = 20, 50


def context_of(
    num_sources: int, mode: launch.RealKvHashMode, device: torch.device
) -> launch.VerifyOrWriteContext:
    """Records of a pool whose layers are the sources."""
    pages = torch.zeros((NUM_PAGES, PAGE_SIZE * TOKEN_BYTES), dtype=torch.uint8, device=device)
    source = launch.RealKvSource(
        tensor=pages,
        page_size=PAGE_SIZE,
        num_bytes_per_token=TOKEN_BYTES,
        read_bytes=TOKEN_BYTES,
    )
    return launch.VerifyOrWriteContext(
        canary_buf=torch.zeros((NUM_PAGES * PAGE_SIZE, 32), dtype=torch.uint8, device=device),
        kernel_kind=launch.CanaryLaunchTag.TAIL_K_FULL,
        violation_ring=torch.zeros((1024, 8), dtype=torch.int64, device=device),
        violation_write_index=torch.zeros(1, dtype=torch.int32, device=device),
        slot_run_counter=torch.zeros(1, dtype=torch.int64, device=device),
        kernel_run_counter=torch.zeros(1, dtype=torch.int64, device=device),
        real_kv_sources=[source] * num_sources,
        real_kv_hash_mode=mode,
        enable_chain_position_assert=torch.zeros(1, dtype=torch.int32, device=device),
    )


def plan_of(device: torch.device) -> launch.VerifyPlan:
    """All slots but those of page 0, of which zero records and zero bytes are what is expected."""
    plan = launch.VerifyPlan.allocate(verify_capacity=NUM_ENTRIES, device=device)
    entries = torch.arange(NUM_ENTRIES, device=device)
    plan.verify_slot_indices.copy_(PAGE_SIZE + entries)
    plan.verify_prev_slot_indices.copy_(PAGE_SIZE + entries - 1)
    plan.verify_num_valid.fill_(NUM_ENTRIES)
    return plan


def host_us(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """Median over rounds of the time of a call, without what the device takes after it."""
    call()
    rounds = []
    for _ in range(NUM_ROUNDS):
        wait()
        started = time.perf_counter()
        for _ in range(CALLS_A_ROUND):
            call()
        rounds.append((time.perf_counter() - started) / CALLS_A_ROUND)
    wait()
    return statistics.median(rounds) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, nargs="+", default=[1])
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    plan = plan_of(device)
    for mode in launch.RealKvHashMode:
        for num_sources in arguments.sources:
            context = context_of(num_sources, mode, device)
            one_shot = partial(
                launch.launch_canary_verify_kernel,
                context=context,
                plan=plan,
                check_verify_expected_token=False,
            )
            prepared = launch.prepare_canary_verify_kernel(
                context=context, plan=plan, check_verify_expected_token=False
            )
            times = {"one-shot": host_us(one_shot, wait), "prepared": host_us(prepared, wait)}
            if device.type == "cuda":
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    prepared()
                times["replay of a graph"] = host_us(graph.replay, wait)
            labels = ", ".join(f"{name} {us:,.1f} us" for name, us in times.items())
            print(f"{mode.name}, {num_sources} sources: {labels}")


if __name__ == "__main__":
    main()
