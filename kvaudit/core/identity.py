"""What the layer-0 rows of a pool say of its tokens: the identity family's evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.layer0_table import TableSource

# A token or a position that nothing tells.
NOT_TOLD = -1


class Unjudged(StrEnum):
    """Why a slot with a known token and layer-0 bytes was not judged; a key of the JSON report."""

    SEEN_ONCE = "token_seen_once"
    NO_MAJORITY = "no_majority"
    CLAIMED_TWICE = "claimed_twice"
    EXTRA_KEY = "extra_key"


class Content(StrEnum):
    """What a row that is not its token's holds, as far as the row itself tells."""

    FOREIGN = "another token"
    ZEROS = "zeros"
    NOT_FINITE = "a NaN or an infinity"
    OTHER_TYPE = "its own token in another element type"
    OTHER_HEADS = "its own token's other heads"
    NOT_KNOWN = "no token that is known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """How far a row may be from what it should be, from the rows themselves.

    Distances are relative: 0 between equal rows, about 1.4 between unrelated ones.

    Fields:
        distance: the largest that counts as equal.
        noise: a high percentile among rows of one content.
        separation: a low percentile among rows of different contents.
        pairs: pairs of one content that were looked at.
    """

    distance: float
    noise: float
    separation: float
    pairs: int

    def to_dict(self) -> dict[str, Any]:
        """The threshold as evidence of a finding."""
        return {
            "threshold": round(self.distance, 6),
            "noise": round(self.noise, 6),
            "separation": round(self.separation, 6),
            "pairs": self.pairs,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrongContent:
    """Rows whose layer-0 V is not their token's, ascending.

    Fields:
        rows: row of the snapshot, shape [n], int64.
        claims: the claim that it was judged by, number among `PoolEvidence.claims`, shape [n], int64.
        distances: from what it should be, shape [n], float64.
        votes: rows of different histories that its expected content rests on, shape [n], int64; 0
            where that comes from a model.
        against: those that hold something else, shape [n], int64.
        contents: what it holds, shape [n], object (Content); NOT_KNOWN where it was not looked for.
        tokens: the token that it holds, shape [n], int64; NOT_TOLD where none fits.
        positions: the position that its K was rotated for, shape [n], int64; NOT_TOLD where the
            rotation is not known or no position fits.
        types: the element type that it is in, where contents say so, shape [n], object (str).
    """

    rows: NDArray[np.int64]
    claims: NDArray[np.int64]
    distances: NDArray[np.float64]
    votes: NDArray[np.int64]
    against: NDArray[np.int64]
    contents: NDArray[np.object_]
    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]
    types: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.rows)

    def without(self, gone: NDArray[np.bool_]) -> WrongContent:
        """All but some, shape [n], bool."""
        return WrongContent(**{name: getattr(self, name)[~gone] for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrongRotation:
    """Rows whose layer-0 V is their token's and whose K is not that of their position, ascending.

    Fields:
        rows: row of the snapshot, shape [n], int64.
        claims: the claim that it was judged by, shape [n], int64.
        distances: from what it should be, shape [n], float64.
        positions: the position that it was rotated for, shape [n], int64; NOT_TOLD where none fits.
    """

    rows: NDArray[np.int64]
    claims: NDArray[np.int64]
    distances: NDArray[np.float64]
    positions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def without(self, gone: NDArray[np.bool_]) -> WrongRotation:
        """All but some, shape [n], bool."""
        return WrongRotation(**{name: getattr(self, name)[~gone] for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdentityEvidence:
    """What the layer-0 rows of one pool were judged by, and which failed.

    Fields:
        source: where the expected rows come from.
        columns: the columns that were judged, in order.
        of_token: the threshold of V.
        of_position: that of K; None where K was not judged.
        sound: rows that were judged and hold what they should, shape [num_rows], bool.
        content: the rows that are not their token's.
        rotation: those that are not their position's.
        whole_pool: what all judged rows have in common, where they fail at once; "" else.
    """

    source: TableSource
    columns: Sequence[str]
    of_token: Threshold
    of_position: Threshold | None
    sound: NDArray[np.bool_]
    content: WrongContent
    rotation: WrongRotation
    whole_pool: str = ""

    def without_rows(self, rows: NDArray[np.int64]) -> IdentityEvidence:
        """The same but for wrong rows, shape [n], int64, that something else explains."""
        content, rotation = self.content, self.rotation
        return replace(
            self,
            content=content.without(np.isin(content.rows, rows)),
            rotation=rotation.without(np.isin(rotation.rows, rows)),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdentityResult:
    """The identity family of one pool.

    Fields:
        planned: slots with a known token and layer-0 bytes, in scope.
        checked: those that were judged.
        counts: of the checked ones, those judged by a table, by repetition, and at their position
            too; then why the others were not, by reason; by the JSON keys.
        not_applicable: why none could be; "" where some were.
        judged_rows: the rows of the snapshot that were judged, shape [n], int64.
        evidence: what was judged; None where nothing could be.
    """

    planned: int = 0
    checked: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    not_applicable: str = ""
    judged_rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    evidence: IdentityEvidence | None = None
