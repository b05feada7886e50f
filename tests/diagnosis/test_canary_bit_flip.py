"""KV208: bits of a record that turned over."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.corruptions import POSITION, PREV_HASH, REAL_KV_HASH, TOKEN
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.worlds import World, build, fixture_f

EVERY_BUFFER = ("k.head", "k.tail", "v.head", "v.tail")


def _flipped(word: int, *, slot: int = 7, bit: int = 2, **options: object) -> World:
    world = fixture_f(**options)
    corruptions.flip_record_bit(world, slot, word, bit=bit)
    return world


def _long(page_size: int, *, length: int = 200) -> World:
    """Two sequences over whole pages of a larger pool."""
    first = page_size
    return (
        build(num_slots=page_size + 2 * length + 2 * page_size, page_size=page_size, num_layers=1)
        .request("A", tokens=range(1000, 1000 + length), slots=range(first, first + length))
        .request(
            "B",
            tokens=range(5000, 5000 + length),
            slots=range(first + length, first + 2 * length),
        )
        .done()
    )


@pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])
@pytest.mark.parametrize("mode", RealKvHashMode)
@pytest.mark.parametrize(
    ("word", "name"),
    [
        (TOKEN, "token"),
        (POSITION, "position"),
        (PREV_HASH, "prev_hash"),
        (REAL_KV_HASH, "real_kv_hash"),
    ],
    ids=["T19", "position", "T21", "T22"],
)
def test_a_flipped_bit_is_named_with_its_word_and_its_slot(
    word: int, name: str, mode: RealKvHashMode, tokens: bool
) -> None:
    finding = finding_of(_flipped(word, mode=mode), tokens=tokens)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV208", [7], ["B"])
    assert (finding.evidence["word"], finding.evidence["bits"]) == (name, [2])
    assert not finding.alternatives


def test_what_was_written_is_solved_even_where_no_token_is_expected() -> None:
    finding = finding_of(_flipped(TOKEN), tokens=False)
    assert (finding.evidence["stored"], finding.evidence["written"]) == (18, 22)
    assert finding.summary == (
        "1 bit of the token in the record of slot 7 (page 3 +1) turned over (bit 2): "
        "22 was written, 18 is stored"
    )


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("bit", [0, 13, 63])
@pytest.mark.parametrize("word", [TOKEN, POSITION, PREV_HASH])
def test_any_bit_is_found_at_any_page_size(word: int, bit: int, page_size: int) -> None:
    world = _long(page_size)
    slot = world.request_of("B").slots[77]
    corruptions.flip_record_bit(world, slot, word, bit=bit)
    finding = finding_of(world, tokens=False)
    assert (finding.rule, finding.slots, finding.evidence["bits"]) == ("KV208", [slot], [bit])


def test_head_and_tail_k_and_v_of_one_flip_are_one_finding() -> None:
    finding = finding_of(_flipped(TOKEN, canary=EVERY_BUFFER))
    assert finding.evidence["launches"] == [
        "HEAD_K_FULL", "HEAD_V_FULL", "TAIL_K_FULL", "TAIL_V_FULL",
    ]  # fmt: skip
    assert finding.evidence["rows"] == 8


def test_a_flip_in_one_buffer_alone_is_found_there() -> None:
    world = fixture_f(canary=EVERY_BUFFER)
    world.records["v.tail"][7, TOKEN] ^= 4
    finding = finding_of(world)
    assert (finding.slots, finding.evidence["launches"]) == ([7], ["TAIL_V_FULL"])


def test_two_flips_are_two_findings() -> None:
    world = _flipped(TOKEN)
    corruptions.flip_record_bit(world, 3, PREV_HASH, bit=50)
    findings = findings_of(world)
    assert {tuple(found.slots) for found in findings} == {(3,), (7,)}
    assert {found.rule for found in findings} == {"KV208"}


def test_all_that_share_a_flipped_slot_are_tainted() -> None:
    builder = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    world = builder.request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2).done()
    corruptions.flip_record_bit(world, 3, TOKEN)
    finding = finding_of(world, tokens=False)
    assert (finding.slots, finding.request_ids) == ([3], ["A", "C"])
    assert finding.evidence["rows"] == 2


def test_a_plan_gives_the_same_finding() -> None:
    from kvaudit.core.dataset import AuditedPool, Dataset

    world = _flipped(TOKEN)
    pool = AuditedPool(snapshot=world.snapshot(), plans=(world.plan(),))
    finding = finding_of(Dataset(pools=[pool]))
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV208", [7], ["B"])


def test_slots_of_a_pool_that_uses_slot_0_are_the_engines() -> None:
    world = (
        build(reserved="none")
        .request("A", tokens=[11, 12, 13], slots=[0, 1, 2])
        .request("B", tokens=[21, 22, 23], slots=[6, 7, 8])
        .done()
    )
    corruptions.flip_record_bit(world, 1, TOKEN)
    assert finding_of(world).slots == [1]


@pytest.mark.parametrize("word", [TOKEN, POSITION])
def test_two_bits_of_a_small_number_are_no_flip(word: int) -> None:
    world = _flipped(word, bit=0)
    corruptions.flip_record_bit(world, 7, word, bit=1)
    assert not report_of(world, select=("KV208",)).findings


def test_a_clean_pool_has_no_finding() -> None:
    assert not findings_of(fixture_f(mode=RealKvHashMode.ALL))
