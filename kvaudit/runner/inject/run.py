"""Fault classes, and one of them put into a copy of a pool: a pool in, a damaged one out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kvaudit.core.dataset import AuditedPool
from kvaudit.errors import ConfigError
from kvaudit.runner.inject import bytes as inject_bytes
from kvaudit.runner.inject import identity as inject_identity
from kvaudit.runner.inject import index as inject_index
from kvaudit.runner.inject import records as inject_records
from kvaudit.runner.inject.chains import Damage
from kvaudit.runner.inject.copy import Aim, PoolCopy

SCHEMA: Final = "kvaudit.injection/1"

_SEQUENCES: Final = "sequences"
_RECORDS: Final = "sequences, records"
_STAMPS: Final = "sequences, stamped KV bytes or digests"
_LAYER0: Final = "sequences with tokens that come again, layer-0 KV bytes of a float type"
_AIMS: Final = ("request", "position")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultClass:
    """A way to damage a pool.

    Fields:
        name: the name of the rule that finds it, such as `slot-alias`.
        rule: that rule's id.
        needs: what a dump must have for it.
        apply: puts it into a copy.
    """

    name: str
    rule: str
    needs: str
    apply: Callable[[PoolCopy], Damage]

    @property
    def what(self) -> str:
        """What it does, one sentence."""
        return (self.apply.__doc__ or "").splitlines()[0].rstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Injection:
    """A damaged pool, and what was done to it.

    Fields:
        pool: the copy.
        fault: the fault class.
        seed: what chose the place.
        damage: where it went.
        columns: columns of the snapshot that were written to.
    """

    pool: AuditedPool
    fault: FaultClass
    seed: int
    damage: Damage
    columns: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """The record of it, as JSON values."""
        return {
            "schema": SCHEMA,
            "fault": self.fault.name,
            "what": self.fault.what,
            "seed": self.seed,
            "rule": self.fault.rule,
            "slots": list(self.damage.slots),
            "request_ids": list(self.damage.request_ids),
            "columns": list(self.columns),
        }


def _class(rule: str, needs: str, apply: Callable[[PoolCopy], Damage]) -> FaultClass:
    name = apply.__name__.replace("_", "-")
    return FaultClass(name=name, rule=rule, needs=needs, apply=apply)


FAULT_CLASSES: Final = tuple(
    _class(*parts)
    for parts in (
        ("KV101", _SEQUENCES, inject_index.slot_alias),
        ("KV102", _SEQUENCES, inject_index.slot_out_of_range),
        ("KV103", "a plan", inject_index.broken_link),
        ("KV104", _SEQUENCES, inject_index.length_mismatch),
        ("KV105", "sequences, swa_slot", inject_index.swa_map_stale),
        ("KV106", "sequences, alloc.state", inject_index.live_slot_free),
        ("KV107", "alloc.ref with a slot at 0", inject_index.double_free),
        ("KV108", "sequences, alloc.ref", inject_index.refcount_mismatch),
        ("KV201", "sequences with tokens, records", inject_records.token_mismatch),
        ("KV202", _RECORDS, inject_records.foreign_content),
        ("KV203", _RECORDS, inject_records.late_writer),
        ("KV204", _RECORDS, inject_records.position_shift),
        ("KV205", f"{_RECORDS}, three pages a request", inject_records.page_permutation),
        ("KV206", _RECORDS, inject_records.slot_shift),
        ("KV207", f"{_RECORDS}, no shared slots", inject_records.undeclared_offset),
        ("KV208", _RECORDS, inject_records.canary_bit_flip),
        ("KV209", f"{_RECORDS}, KV bytes or digests", inject_records.record_missing),
        ("KV210", _LAYER0, inject_identity.content_not_of_token),
        ("KV211", f"{_LAYER0}, kvaudit.rope", inject_identity.content_not_of_position),
        ("KV301", _STAMPS, inject_bytes.bytes_changed),
        ("KV302", _STAMPS, inject_bytes.zero_tail),
        ("KV303", "sequences, stamped KV bytes", inject_bytes.torn_row),
        ("KV304", _STAMPS, inject_bytes.kv_bit_flip),
        ("KV305", f"{_STAMPS} of K and V", inject_bytes.wrong_layout),
        ("KV306", "sequences, KV bytes of a float type", inject_bytes.nan_inf),
        ("KV307", "KV bytes of a float type, a reserved slot", inject_bytes.reserved_slot_poisoned),
        ("KV308", f"{_STAMPS} of kv.side.*", inject_bytes.side_buffer_stale),
        ("KV309", f"{_STAMPS}, a reserved slot", inject_bytes.sentinel_write),
        ("KV310", f"{_STAMPS}, three pages a request", inject_bytes.bytes_permuted),
        ("KV311", f"{_RECORDS}, KV bytes or digests", inject_bytes.not_arrived),
    )
)


def fault_of(text: str) -> tuple[FaultClass, Aim]:
    """The class and the aim that `late-writer:request=A,position=7` names.

    Raises:
        ConfigError: there is no such class, or the arguments are none.
    """
    name, _, arguments = text.partition(":")
    fault = next(
        (each for each in FAULT_CLASSES if name.lower() in (each.name, each.rule.lower())), None
    )
    if fault is None:
        raise ConfigError(
            f"there is no fault class {name!r}",
            hint=f"choose one of {', '.join(each.name for each in FAULT_CLASSES)}",
        )
    given: dict[str, str] = {}
    for part in filter(None, arguments.split(",")):
        key, equals, value = part.partition("=")
        if key not in _AIMS or not equals or key in given:
            raise ConfigError(
                f"{part!r} is no argument of a fault", hint="write request=ID, position=N or both"
            )
        given[key] = value
    position = given.get("position")
    if position is not None and not position.isdecimal():
        raise ConfigError(f"{position!r} is no position", hint="count from 0, as in position=7")
    return fault, Aim(
        request_id=given.get("request"), position=None if position is None else int(position)
    )


def inject(pool: AuditedPool, fault: str, *, seed: int) -> Injection:
    """Put a fault into a copy of a pool.

    Args:
        pool: the pool with its expectations; it is not changed.
        fault: a class or the id of its rule, and where it goes: `late-writer:request=A,position=7`.
        seed: chooses what was not asked for; the same seed gives the same damage.

    Raises:
        ConfigError: there is no such class, it has no such place, or this pool cannot show it; the
            message says what it needs.
        FileCorrupt: a column that is read differs from its digest.
    """
    chosen, aim = fault_of(fault)
    rng = np.random.default_rng(seed)
    copy = PoolCopy(pool, fault=chosen.name, rng=rng, aim=aim)
    damage = chosen.apply(copy)
    copy.check_aim()
    return Injection(pool=copy.done(), fault=chosen, seed=seed, damage=damage, columns=copy.columns)
