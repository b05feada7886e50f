"""What the printed hashes prove: the mixer is a bijection, so an old record is solved for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvaudit.constants import MASK64, FailReason
from kvaudit.core.log_report import LoggedSlot
from kvaudit.diagnosis.rule import counted
from kvaudit.kernels.hash.reference import inverse_splitmix64, splitmix64

# No vocabulary comes near it: a solved token below it is one by chance once in 2^33.
_TOKEN_BOUND: Final = 1 << 31
# Unrelated hashes are as near as this once in 10^14; tokens and positions are small numbers.
_MAX_HASH_BITS: Final = 3
_MAX_BITS: Final = (_MAX_HASH_BITS, 1, 1)

FLIP_RULE: Final = "KV208"
_ON_ALL_RANKS: Final = "it is the same on several ranks, which have memories of their own: no fault of a memory did that"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What hashes prove.

    Fields:
        text: one sentence.
        rule: the rule that it proves or makes the likeliest; "" of none.
        rules_out: the rule that it excludes; "" of none.
    """

    text: str
    rule: str = ""
    rules_out: str = ""


class _Record(NamedTuple):
    """The words of a record that a chain hash covers."""

    prev_hash: int
    token: int
    position: int


def proofs_of(root: LoggedSlot, consequences: Sequence[LoggedSlot]) -> list[Proof]:
    """What the rows of a root and of what follows from it prove."""
    if root.is_write or root.chain_hash is None or root.token is None:
        return []
    solved = next(iter(_originals(root, consequences)), None)
    if solved is not None:
        proofs = [_changed(_Record(root.chain_hash, root.token, root.position), solved)]
    elif root.reasons & FailReason.VERIFY_CHAIN_HASH_MISMATCH:
        proofs = list(_near_hash(root))
    else:
        return []
    if any(proof.rule == FLIP_RULE for proof in proofs) and len(root.ranks) > 1:
        proofs.append(Proof(text=_ON_ALL_RANKS))
    return proofs


def _originals(root: LoggedSlot, consequences: Sequence[LoggedSlot]) -> Iterator[_Record]:
    """The root's record when the slot behind it was stamped.

    `link = S(S(S(prev_hash) ^ token) ^ position)`, of which all but the token is printed.
    """
    for behind in consequences:
        if behind.chain_hash is None:
            continue
        position = behind.position - 1
        inner = inverse_splitmix64(inverse_splitmix64(behind.chain_hash) ^ (position & MASK64))
        for prev_hash in root.expected_hashes:
            original = _Record(prev_hash, inner ^ splitmix64(prev_hash), position)
            stored = (root.chain_hash, root.token, root.position)
            if original.token < _TOKEN_BOUND and original != stored:
                yield original


def _changed(now: _Record, before: _Record) -> Proof:
    """A record that is not what the next one was chained to changed in between."""
    was = (
        f"it was written as token {before.token} at position {before.position}, which the slot "
        "behind it proves"
    )
    bits = [((one ^ other) & MASK64).bit_count() for one, other in zip(now, before, strict=True)]
    changed = [word for word, count in enumerate(bits) if count]
    if len(changed) == 1 and bits[changed[0]] <= _MAX_BITS[changed[0]]:
        flipped = f"{counted(bits[changed[0]], 'bit')} of its {_Record._fields[changed[0]]}"
        return Proof(text=f"{was}; {flipped} turned over afterwards", rule=FLIP_RULE)
    return Proof(text=f"{was}; it was written over afterwards", rules_out=FLIP_RULE)


def _near_hash(root: LoggedSlot) -> Iterator[Proof]:
    for expected in root.expected_hashes:
        bits = ((root.chain_hash or 0) ^ expected).bit_count()
        if 0 < bits <= _MAX_HASH_BITS:
            of = f"{counted(bits, 'bit')} of 64"
            yield Proof(text=f"its prev_hash is {of} from the expected one", rule=FLIP_RULE)
            return
