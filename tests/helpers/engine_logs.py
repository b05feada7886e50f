"""Logs of engines: the fixture of CASES.md 2 as its launches print it, and text around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvaudit.constants import CHAIN_ANCHOR, FailReason, LaunchTag
from kvaudit.core.log_line import violation_text
from kvaudit.core.ring_row import RingRow
from kvaudit.kernels.hash.reference import splitmix64_mix3

CHAIN = FailReason.VERIFY_CHAIN_HASH_MISMATCH
POSITION = FailReason.VERIFY_POSITION_MISMATCH
BYTES = FailReason.VERIFY_REAL_KV_HASH_MISMATCH
TOKEN = FailReason.VERIFY_TOKEN_MISMATCH

# Token, position and prev_hash.
Record = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A plan row."""

    slot: int
    token: int
    position: int
    prev_slot: int


def chain(tokens: Sequence[int], slots: Sequence[int]) -> dict[int, Record]:
    """The records of one sequence, by slot."""
    records, link = {}, CHAIN_ANCHOR
    for position, (token, slot) in enumerate(zip(tokens, slots, strict=True)):
        records[slot] = (token, position, link)
        link = splitmix64_mix3(link, token, position)
    return records


def entries(tokens: Sequence[int], slots: Sequence[int]) -> list[Entry]:
    """The plan rows of one sequence."""
    return [
        Entry(slot=slot, token=token, position=position, prev_slot=([-1, *slots])[position])
        for position, (token, slot) in enumerate(zip(tokens, slots, strict=True))
    ]


A = ((11, 12, 13, 14), (2, 3, 4, 5))
B = ((21, 22, 23, 24), (6, 7, 8, 9))
RECORDS = {**chain(*A), **chain(*B)}
PLAN = [*entries(*A), *entries(*B)]


def rows(
    records: dict[int, Record],
    *,
    tag: int = LaunchTag.HEAD_K_FULL,
    judges_tokens: bool = False,
    plan: Iterable[Entry] = PLAN,
) -> list[RingRow]:
    """What a verify launch without bytes reports of these records."""
    found = []
    for entry in plan:
        token, position, prev_hash = records[entry.slot]
        before = records.get(entry.prev_slot)
        expected = (
            CHAIN_ANCHOR if before is None else splitmix64_mix3(before[2], before[0], before[1])
        )
        reasons = FailReason(0)
        reasons |= CHAIN if prev_hash != expected else 0
        reasons |= POSITION if position != entry.position else 0
        reasons |= TOKEN if judges_tokens and token != entry.token else 0
        if reasons:
            found.append(
                RingRow(
                    tag=tag,
                    slot=entry.slot,
                    position=position,
                    token=token,
                    expected_token=entry.token if judges_tokens else -1,
                    chain_hash=prev_hash,
                    expected_aux=expected,
                    reasons=reasons,
                )
            )
    return found


def log_of(
    ring: Sequence[RingRow], *, prefix: str = "", step: int = 7, overflow: bool = False
) -> str:
    """The rows as a log in mode `log`: only first lines have the logger's prefix."""
    return "".join(
        f"{prefix}{violation_text(row, total=len(ring), ring_overflow=overflow, step=step)}\n"
        for row in ring
    )


# CASES.md T02 as ENGINE_LOGS.md prints it, and its neighbours of section 2.
T02 = log_of(rows({**RECORDS, 4: RECORDS[7]})[:1]).replace("violations=1", "violations=2")
OTHER_LINES = """\
[canary] step=300 protected_tokens=4096 sweep_passes=3 violations=2 launch_tags_active=4/12
[canary] sweep succeeded 30 times (last_step=290)
kv-canary: per-forward verify skipped this step due to overflow (total=70000, capacity=65536); \
check ServerArgs / pool sizing
RuntimeError: kv-canary: kernel_run_counter did not increase since previous check for \
tags=[HEAD_K_FULL, TAIL_K_FULL] at step=200; canary path is not executing
kv-canary: no attacher registered for pool class MLATokenToKVPool; supported: ['MHA', 'SWA']
install_canary: disaggregation_mode=decode config=CanaryConfig(mode=log, ring_capacity=1024) \
perturb_config=None launch_capacities=(1, 2) n_buffer_groups=1 buffer_group_kinds=[FULL] \
swa_window_size=0 speculative_num_steps=0
attach_canary_buffers: pool=MHATokenToKVPool attacher=mha read_bytes=256 n_groups=1 kinds=[FULL] \
kv_token_id_vs_position_offset=0
kv_canary_swa_divergence={"forward_ct":12,"verify_full":30,"verify_swa":20,\
"swa_full_idx_divergence":5}
kv_canary swa_divergence: {"forward_ct":12,"verify_full":30,"verify_swa":20,\
"swa_full_idx_divergence":3}
"""
