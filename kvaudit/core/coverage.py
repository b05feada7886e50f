"""How much was planned and how much was checked, a family at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class Family(StrEnum):
    """A family of checks (DESIGN.md 5)."""

    INDEX = "index"
    RECORDS = "records"
    BYTES = "bytes"
    IDENTITY = "identity"


# Of the slots of identity, those whose token has several contents, none with a majority.
NO_MAJORITY: Final = "no_majority"

# The counts that make checked less than due; all other details only explain.
LOWERING_COUNTS: Final = (
    "not_in_snapshot",
    "columns_absent",
    "token_seen_once",
    NO_MAJORITY,
    "claimed_twice",
    "extra_key",
)

# Of the checked records, those judged by the chains that they form, for want of expectations.
BY_CHAIN: Final = "by_chain"
# Of the checked slots of identity, those that V alone judged: what K holds told nothing.
POSITIONS_OPEN: Final = "positions_open"
# What the checked ones were judged by, and so no gap.
INFORMING_COUNTS: Final = (BY_CHAIN, "by_table", "by_repetition", "positions_checked")


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyCoverage:
    """Coverage of one family.

    Fields:
        planned: what should be checked.
        checked: what was checked.
        excused: planned entries that lower nothing: padding, and entries of an all-zero column.
        details: further counts by their JSON key, such as `skipped_padding`.
        scope: why the ratio is not the whole story, for the verdict line; "" when it is.
        basis: what the verdict line says in place of the ratio, where the family rests on something
            else than expectations; "" when it does not.
    """

    planned: int
    checked: int
    excused: int = 0
    details: Mapping[str, int] = field(default_factory=dict)
    scope: str = ""
    basis: str = ""

    @property
    def due(self) -> int:
        """What had to be checked: planned less excused."""
        return self.planned - self.excused

    @property
    def ratio(self) -> float | None:
        """The share checked / due; None when nothing was due."""
        return self.checked / self.due if self.due else None

    def to_dict(self) -> dict[str, Any]:
        """The family in the JSON report."""
        return {
            "planned": self.planned,
            "checked": self.checked,
            "ratio": self.ratio,
            **self.details,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Coverage of a run.

    Fields:
        families: by family; None or missing = nothing of that family was planned.
        absent: why a family has nothing planned, such as `not stamped`; for the verdict line.
        disabled_launches: launches whose plan had enable 0.
        slots_pool: slots of all pools.
        slots_planned: different slots that an expectation names, or for want of any, that hold a
            record or a stamp.
        slots_checked: different slots that a check read.
    """

    families: Mapping[Family, FamilyCoverage | None] = field(default_factory=dict)
    absent: Mapping[Family, str] = field(default_factory=dict)
    disabled_launches: int = 0
    slots_pool: int = 0
    slots_planned: int = 0
    slots_checked: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The coverage in the JSON report."""
        document: dict[str, Any] = {}
        for family in Family:
            covered = self.families.get(family)
            document[str(family)] = None if covered is None else covered.to_dict()
        document["disabled_launches"] = self.disabled_launches
        document["slots"] = {
            "pool": self.slots_pool,
            "planned": self.slots_planned,
            "checked": self.slots_checked,
        }
        return document
