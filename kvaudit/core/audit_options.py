"""What a user may ask of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvaudit.core.coverage import Family
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.layout import SlotRanges
from kvaudit.core.severity import Severity


class Layer0(StrEnum):
    """What layer-0 rows are judged by where no table is given: the dump itself, or nothing."""

    AUTO = "auto"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Scope, demands and limits of one audit.

    Fields:
        require: families that must be fully covered; None = index, records and bytes, each where
            something of it is planned.
        min_coverage: percent of each required family that must be checked.
        skip_bytes: leave the bytes family out, and identity, which reads bytes; coverage says so.
        layer0: what the identity family judges by: AUTO is the dump itself, a table comes before
            it, and OFF leaves the family out.
        request_ids: judge these requests alone; empty = all.
        slots: judge these slots alone; None = all.
        layers: judge the KV columns of these layers alone; None = all.
        select: rule ids or prefixes to run; empty = all.
        ignore: rule ids or prefixes to leave out.
        fail_on: findings at or above this severity make the verdict violations; violation rows
            always do.
        max_violations: rows kept in the report; the count is exact.
    """

    require: frozenset[Family] | None = None
    min_coverage: float = 100.0
    skip_bytes: bool = False
    layer0: Layer0 | Layer0Table = Layer0.AUTO
    request_ids: tuple[str, ...] = ()
    slots: SlotRanges | None = None
    layers: tuple[int, ...] | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity = Severity.ERROR
    max_violations: int = 100
