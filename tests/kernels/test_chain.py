"""`chain`: by hand, pinned vectors, against the reference, invariants.

Host implementations alone: there is no other.
"""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.constants import CHAIN_ANCHOR
from kvaudit.kernels import chain
from kvaudit.kernels.chain.scalar import NUM_SHARES
from tests.helpers.hand_oracle import Record, link, mix
from tests.kernels.implementations import CPU, IN_SIMULATOR, REFERENCE
from tests.kernels.launches import UNTOUCHED, arguments, assert_same_outcome, outcome

HOSTS = (REFERENCE,) if IN_SIMULATOR else (REFERENCE, CPU)
# The reference alone runs in the simulator's process, and computes on Python ints.
pytestmark = [
    pytest.mark.parametrize("implementation", [pytest.param(each, id=each.name) for each in HOSTS])
]

HEAD, ORPHAN = -1, 0
A = [(11, 0), (12, 1), (13, 2), (14, 3)]
B = [(21, 0), (22, 1), (23, 2), (24, 3)]


def stamped(content, prev_hash=CHAIN_ANCHOR):
    """The records of one chain from its (token, position) pairs."""
    records = []
    for token, position in content:
        records.append(Record(token, position, prev_hash, 0))
        prev_hash = link(records[-1])
    return records


def launch_of(by_slot, num_slots=None):
    """A launch over the records of some slots."""
    records = np.zeros((num_slots or max(by_slot, default=0) + 1, 4), dtype=np.uint64)
    for slot, record in by_slot.items():
        records[slot] = record
    return arguments(
        canary_records=records,
        slot_indices=sorted(by_slot),
        prev_slot_indices=[UNTOUCHED] * len(by_slot),
        duplicate_counter=[0],
    )


def chained(implementation, by_slot):
    """What each slot follows, and how many duplicates there are."""
    found = outcome(implementation, "chain", launch_of(by_slot))
    prevs = found["prev_slot_indices"].tolist()
    return dict(zip(sorted(by_slot), prevs, strict=True)), int(found["duplicate_counter"][0])


def placed(*chains):
    """Records of several chains by slot, from (slots, records) pairs."""
    return {
        slot: record
        for slots, records in chains
        for slot, record in zip(slots, records, strict=True)
    }


# By hand


def test_chain_finds_predecessors_in_any_order_of_slots(implementation):
    by_slot = placed(([9, 2, 7, 4], stamped(A)))
    assert chained(implementation, by_slot) == ({9: HEAD, 2: 9, 7: 2, 4: 7}, 0)


def test_chain_forks_where_a_prefix_is_shared(implementation):
    prefix = stamped(A[:2])
    suffix = stamped([(31, 2)], link(prefix[-1]))
    by_slot = placed(([2, 3, 4, 5], stamped(A)), ([8], suffix))
    assert chained(implementation, by_slot) == ({2: HEAD, 3: 2, 4: 3, 5: 4, 8: 3}, 0)


def test_chain_leaves_a_record_whose_predecessor_is_gone_unreachable(implementation):
    by_slot = placed(([2, 3, 4, 5], stamped(A)))
    del by_slot[3]
    assert chained(implementation, by_slot) == ({2: HEAD, 4: ORPHAN, 5: 4}, 0)


def test_chain_does_not_judge_positions(implementation):
    by_slot = placed(([2, 3, 4], stamped([(11, 0), (12, 7), (13, 8)])))
    assert chained(implementation, by_slot)[0] == {2: HEAD, 3: 2, 4: 3}


def test_chain_ignores_the_real_kv_hash(implementation):
    by_slot = {
        slot: record._replace(real_kv_hash=slot * 99)
        for slot, record in placed(([2, 3], stamped(A[:2]))).items()
    }
    assert chained(implementation, by_slot)[0] == {2: HEAD, 3: 2}


def test_chain_never_follows_a_zero_record_that_is_not_listed(implementation):
    """A zero record hashes to 0, and so does the link to it."""
    by_slot = placed(([5, 6], stamped([(15, 4), (16, 5)], 0)))
    assert chained(implementation, by_slot)[0] == {5: ORPHAN, 6: 5}


def test_chain_takes_the_twin_nearest_below(implementation):
    """Two requests that begin alike, each in slots of its own."""
    by_slot = placed(
        ([2, 3], stamped([(1, 0), (12, 1)])),
        ([6, 7], stamped([(1, 0), (22, 1)])),
        ([12, 10], stamped([(1, 0), (32, 1)])),
    )
    prevs, duplicates = chained(implementation, by_slot)
    assert prevs == {2: HEAD, 3: 2, 6: HEAD, 7: 6, 10: 6, 12: HEAD}
    assert duplicates == 2


def test_chain_takes_the_lowest_twin_where_none_is_below(implementation):
    head, second = stamped(A[:2])
    by_slot = {2: second, 4: head, 6: head, 8: head}
    assert chained(implementation, by_slot) == ({2: 4, 4: HEAD, 6: HEAD, 8: HEAD}, 2)


def test_chain_tells_a_whole_copy_from_its_source(implementation):
    by_slot = placed(([2, 3, 4, 5], stamped(B)), ([6, 7, 8, 9], stamped(B)))
    prevs, duplicates = chained(implementation, by_slot)
    assert prevs == {2: HEAD, 3: 2, 4: 3, 5: 4, 6: HEAD, 7: 6, 8: 7, 9: 8}
    assert duplicates == 4


def unmix(mixed):
    """The inverse of the mixer."""
    for shift, factor in ((31, 10723151780598845931), (27, 13787848793156543929), (30, 1)):
        value = mixed
        for _ in range(64 // shift):
            value = mixed ^ value >> shift
        mixed = value * pow(factor, -1, 2**64) % 2**64
    return mixed


def test_chain_lets_a_forged_record_follow_itself(implementation):
    prev_hash, position = 5, 1
    token = unmix(unmix(prev_hash) ^ position) ^ mix(prev_hash)
    record = Record(token, position, prev_hash, 0)
    assert link(record) == prev_hash
    assert chained(implementation, {4: record}) == ({4: 4}, 0)
    assert chained(implementation, {4: record, 9: record}) == ({4: 4, 9: 4}, 1)


def test_chain_of_nothing_writes_nothing(implementation):
    assert chained(implementation, {}) == ({}, 0)


def test_chain_adds_to_the_counter(implementation):
    launch = launch_of({2: stamped(A)[0], 3: stamped(A)[0], 4: stamped(A)[0]})
    launch["duplicate_counter"][0] = 40
    assert outcome(implementation, "chain", launch)["duplicate_counter"].tolist() == [42]


def test_chain_reads_rows_of_wider_buffers(implementation):
    launch = launch_of(placed(([2, 3], stamped(A[:2]))))
    wide = np.full((4, 7), UNTOUCHED, dtype=np.uint64)
    wide[:, :4] = launch["canary_records"]
    launch["canary_records"] = wide[:, :4]
    assert outcome(implementation, "chain", launch)["prev_slot_indices"].tolist() == [HEAD, 2]


# Pins: CASES.md 2


def test_chain_links_fixture_f(implementation):
    a = [
        (11, 0, 0xDE7FAE23A9A1B716, 0),
        (12, 1, 0x89CD2ABFBEBC0649, 0),
        (13, 2, 0x13F5BAAFE6EF85D6, 0),
        (14, 3, 0x86BD2A2B9B320591, 0),
    ]
    b = [
        (21, 0, 0xDE7FAE23A9A1B716, 0),
        (22, 1, 0x37FCA5A47DCA7665, 0),
        (23, 2, 0x6B7B87C0703B2023, 0),
        (24, 3, 0x7BE47DBB74D425A4, 0),
    ]
    prevs, duplicates = chained(implementation, placed(([2, 3, 4, 5], a), ([6, 7, 8, 9], b)))
    assert prevs == {2: HEAD, 3: 2, 4: 3, 5: 4, 6: HEAD, 7: 6, 8: 7, 9: 8}
    assert duplicates == 0


# Differential


@st.composite
def pools(draw):
    """Chains that fork, with twins, lost records and broken words, in slots of any order."""
    records, num_chains = [], draw(st.integers(1, 5))
    for _ in range(num_chains):
        tokens = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
        start = draw(st.integers(0, 2)) if records else 0
        if start:
            seed = records[draw(st.integers(0, len(records) - 1))]
            content = [(token, seed.position + 1 + i) for i, token in enumerate(tokens)]
            records += stamped(content, link(seed))
        else:
            records += stamped([(token, position) for position, token in enumerate(tokens)])
    slots = draw(st.permutations(range(1, len(records) + 4)))
    by_slot = dict(zip(slots, records, strict=False))
    for slot in draw(st.lists(st.sampled_from(sorted(by_slot)), max_size=4)):
        word, bit = draw(st.integers(0, 2)), draw(st.integers(0, 63))
        words = list(by_slot[slot])
        words[word] ^= 1 << bit
        by_slot[slot] = Record(*words)
    lost = draw(st.sets(st.sampled_from(sorted(by_slot)), max_size=2))
    return {
        slot: record for slot, record in by_slot.items() if slot not in lost and any(record[:3])
    }


def model(by_slot):
    """What each slot follows, one slot at a time, by the oracle that shares nothing."""
    prevs = {}
    for slot, record in by_slot.items():
        twins = sorted(other for other, one in by_slot.items() if link(one) == record.prev_hash)
        below = [other for other in twins if other < slot]
        prevs[slot] = (
            HEAD
            if record.prev_hash == CHAIN_ANCHOR
            else below[-1]
            if below
            else twins[0]
            if twins
            else ORPHAN
        )
    return prevs, len(by_slot) - len({link(record) for record in by_slot.values()})


@given(by_slot=pools())
def test_chain_agrees_with_the_hand_oracle(implementation, by_slot):
    assert chained(implementation, by_slot) == model(by_slot)


@given(
    records=st.lists(
        st.tuples(*[st.sampled_from([0, 1, 2**63, 2**64 - 1, CHAIN_ANCHOR])] * 4), min_size=1
    ),
    gap=st.integers(1, 3),
)
def test_chain_agrees_with_the_reference_on_any_words(implementation, records, gap):
    by_slot = {1 + gap * idx: Record(*words) for idx, words in enumerate(records) if any(words)}
    launch = launch_of(by_slot)
    assert_same_outcome(
        implementation,
        outcome(implementation, "chain", launch),
        outcome(REFERENCE, "chain", launch),
    )


def test_chain_agrees_with_the_reference_on_more_records_than_a_task_has(
    implementation, monkeypatch
):
    """Every share has hashes, and chains cross all of them."""
    monkeypatch.setattr(implementation.module("chain"), "_ROWS_PER_TASK", 256, raising=False)
    rng = np.random.default_rng(3)
    slots = rng.permutation(np.arange(1, 3001)).tolist()
    lengths = rng.integers(1, 60, 100).tolist()
    chains = []
    for length in lengths:
        tokens = rng.integers(0, 3, length).tolist()
        content = [(token, position) for position, token in enumerate(tokens)]
        chains.append(([slots.pop() for _ in range(min(length, len(slots)))], content))
    by_slot = placed(*((taken, stamped(content[: len(taken)])) for taken, content in chains))
    shares = {link(record) >> 60 for record in by_slot.values()}
    assert len(shares) == NUM_SHARES
    launch = launch_of(by_slot)
    assert_same_outcome(
        implementation,
        outcome(implementation, "chain", launch),
        outcome(REFERENCE, "chain", launch),
    )


def test_chain_agrees_with_the_reference_where_all_hashes_fall_into_one_share(implementation):
    """One table then holds them all, and the others stay empty."""
    candidates = (Record(token, 0, CHAIN_ANCHOR, 0) for token in range(4000))
    heads = [record for record in candidates if link(record) < 2**60]
    seconds = [Record(7, 1, link(head), 0) for head in heads[::2]]
    by_slot = dict(enumerate([*heads, *seconds, *heads[:9]], start=1))
    assert len(heads) > 200
    launch = launch_of(by_slot)
    assert_same_outcome(
        implementation,
        outcome(implementation, "chain", launch),
        outcome(REFERENCE, "chain", launch),
    )


# Invariants


@given(by_slot=pools())
def test_chain_names_listed_slots_alone_and_every_link_is_one(implementation, by_slot):
    prevs, duplicates = chained(implementation, by_slot)
    for slot, prev in prevs.items():
        assert prev in {HEAD, ORPHAN} | by_slot.keys()
        if prev > 0:
            assert link(by_slot[prev]) == by_slot[slot].prev_hash
    assert 0 <= duplicates < max(1, len(by_slot))


def test_chain_gives_the_same_in_every_run(implementation):
    """The place of a hash in its table is salted: nothing may depend on it."""
    head, second = stamped(A[:2])
    launch = launch_of({2: second, 4: head, 6: head, 7: second, 9: head, 12: second})
    outcomes = [outcome(implementation, "chain", launch) for _ in range(20)]
    for each in outcomes[1:]:
        assert_same_outcome(implementation, each, outcomes[0])


def test_chain_s_launcher_takes_the_contract_s_arguments_in_its_order(implementation):
    module = importlib.import_module(f"kvaudit.kernels.chain.{implementation.module_stem}")
    parameters = inspect.signature(module.launch_chain).parameters.values()
    _, _, call = chain.__doc__.partition("`launch_chain(")
    named = [name.strip() for name in call.partition(")`")[0].split(",")]
    assert [parameter.name for parameter in parameters] == named
    assert all(parameter.default is inspect.Parameter.empty for parameter in parameters)
