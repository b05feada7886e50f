"""The launchers of one implementation, by the names that the contracts in `kernels` give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSet:
    """Every launcher; all sets have the same signatures."""

    launch_hash: Callable[..., None]
    launch_fold: Callable[..., None]
    launch_fold_pieces: Callable[..., None]
    launch_combine: Callable[..., None]
    launch_fold_source: Callable[..., None]
    launch_count_written: Callable[..., None]
    launch_verify: Callable[..., None]
    launch_verify_source: Callable[..., None]
    launch_write: Callable[..., None]
    launch_plan: Callable[..., None]


@cache
def kernel_set(implementation: Literal["reference", "numba_cpu", "numba_cuda"]) -> KernelSet:
    """The launchers of an implementation; its packages are imported now."""
    hash_kernels, fold, verify, write, plan = (
        import_module(f"kvaudit.kernels.{operation}.{implementation}")
        for operation in ("hash", "fold", "verify", "write", "plan")
    )
    return KernelSet(
        launch_hash=hash_kernels.launch_hash,
        launch_fold=fold.launch_fold,
        launch_fold_pieces=fold.launch_fold_pieces,
        launch_combine=fold.launch_combine,
        launch_fold_source=fold.launch_fold_source,
        launch_count_written=fold.launch_count_written,
        launch_verify=verify.launch_verify,
        launch_verify_source=verify.launch_verify_source,
        launch_write=write.launch_write,
        launch_plan=plan.launch_plan,
    )
