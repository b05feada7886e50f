"""`hash`: the mixer, the link of a chain, and the anchor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import njit

from kvaudit.constants import CHAIN_ANCHOR
from kvaudit.kernels.hash import arrays, reference, scalar
from tests.helpers import hand_oracle
from tests.kernels.implementations import IMPLEMENTATIONS, REFERENCE, WRAPS
from tests.kernels.launches import arguments, assert_same_outcome, outcome

pytestmark = [pytest.mark.parametrize("implementation", IMPLEMENTATIONS), WRAPS]

WORD = st.integers(0, 2**64 - 1)


def _over_words(body):
    """A scalar body over Python ints."""
    return lambda value: int(body(np.uint64(value)))


_SCALAR = (_over_words(scalar.splitmix64), _over_words(scalar.inverse_splitmix64))
MIXERS = {
    "reference": (reference.splitmix64, reference.inverse_splitmix64),
    "cpu": tuple(map(_over_words, map(njit, (scalar.splitmix64, scalar.inverse_splitmix64)))),
    "simulator": _SCALAR,
    "cuda": _SCALAR,
}


def slot_hashes(implementation, records, slots):
    launch = arguments(
        canary_records=np.asarray(records, dtype=np.uint64).reshape(-1, 4),
        slot_indices=slots,
        slot_hashes=[1] * len(slots),
    )
    return [int(value) for value in outcome(implementation, "hash", launch)["slot_hashes"]]


# By hand


def test_hash_of_any_negative_slot_is_the_anchor(implementation):
    slots = [-1, -2, -(2**63)]
    assert slot_hashes(implementation, [[1, 2, 3, 4]], slots) == [0xDE7FAE23A9A1B716] * 3


def test_hash_of_a_zero_record_is_zero(implementation):
    assert slot_hashes(implementation, [[0, 0, 0, 0]], [0]) == [0]


def test_hash_ignores_the_real_kv_hash(implementation):
    one, other = slot_hashes(implementation, [[5, 6, 7, 8], [5, 6, 7, 9]], [0, 1])
    assert one == other


def test_hash_of_no_slots_writes_nothing(implementation):
    assert slot_hashes(implementation, [[1, 2, 3, 4]], []) == []


# Pins: CASES.md 2


@pytest.mark.parametrize(
    ("tokens", "prev_hashes"),
    [
        (
            [11, 12, 13, 14],
            [
                0xDE7FAE23A9A1B716,
                0x89CD2ABFBEBC0649,
                0x13F5BAAFE6EF85D6,
                0x86BD2A2B9B320591,
                0x4AC7BBB4E3644018,
            ],
        ),
        (
            [21, 22, 23, 24],
            [0xDE7FAE23A9A1B716, 0x37FCA5A47DCA7665, 0x6B7B87C0703B2023, 0x7BE47DBB74D425A4],
        ),
    ],
    ids=["A", "B"],
)
def test_hash_links_the_chains_of_fixture_f(implementation, tokens, prev_hashes):
    records = [[token, position, 0, 0] for position, token in enumerate(tokens)]
    chain = slot_hashes(implementation, records, [-1])
    for position, record in enumerate(records):
        record[2] = chain[-1]
        chain += slot_hashes(implementation, records, [position])
    assert chain[: len(prev_hashes)] == prev_hashes


# The inverse


@given(value=WORD)
@example(value=0)
@example(value=2**64 - 1)
def test_the_inverse_of_the_mixer_gives_back_what_was_mixed(implementation, value):
    mix, unmix = MIXERS[implementation.name]
    assert unmix(mix(value)) == value
    assert mix(unmix(value)) == value
    assert mix(value) == hand_oracle.mix(value)


def test_the_inverse_of_the_anchor_is_the_constant_that_was_mixed(implementation):
    _, unmix = MIXERS[implementation.name]
    assert unmix(CHAIN_ANCHOR) == 0xC0FFEE1234567890
    assert unmix(0) == 0


@given(record=st.tuples(WORD, WORD, WORD, WORD))
def test_a_link_over_arrays_is_undone_word_by_word(implementation, record):
    mix, _ = MIXERS[implementation.name]
    token, position, prev_hash = (np.array([word], dtype=np.uint64) for word in record[:3])
    hashes = arrays.linked(prev_hash, tokens=token, positions=position)
    assert hashes.tolist() == [hand_oracle.link(hand_oracle.Record(*record))]
    assert arrays.unlinked(hashes, tokens=token, positions=position).tolist() == [record[2]]
    assert arrays.mixed(token).tolist() == [mix(record[0])]
    assert arrays.unmixed(arrays.mixed(token)).tolist() == [record[0]]


@given(words=st.lists(WORD, max_size=5))
def test_the_bits_of_words_are_counted(implementation, words):
    _, unmix = MIXERS[implementation.name]
    given_and_undone = [*words, *map(unmix, words)]
    counts = arrays.bits_set(np.array(given_and_undone, dtype=np.uint64))
    assert counts.tolist() == [word.bit_count() for word in given_and_undone]


# Differential


@given(records=st.lists(st.tuples(WORD, WORD, WORD, WORD), min_size=1, max_size=8), data=st.data())
def test_hash_agrees_with_the_hand_oracle(implementation, records, data):
    slots = data.draw(st.lists(st.integers(-3, len(records) - 1), max_size=12))
    wanted = [
        CHAIN_ANCHOR if slot < 0 else hand_oracle.link(hand_oracle.Record(*records[slot]))
        for slot in slots
    ]
    assert slot_hashes(implementation, records, slots) == wanted


# Invariants


def test_hash_of_strided_rows_equals_that_of_packed_ones(implementation):
    wide = np.arange(1, 61, dtype=np.uint64).reshape(10, 6)
    slots = list(range(10))
    launch = arguments(canary_records=wide, slot_indices=slots, slot_hashes=[0] * 10)
    strided = arguments(canary_records=wide[:, :4], slot_indices=slots, slot_hashes=[0] * 10)
    wanted = outcome(REFERENCE, "hash", launch)
    assert_same_outcome(implementation, outcome(implementation, "hash", launch), wanted)
    assert_same_outcome(implementation, outcome(implementation, "hash", strided), wanted)
