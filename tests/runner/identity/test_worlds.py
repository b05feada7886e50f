"""Worlds that would make an auditor of layer 0 cry wolf, and random ones: no sound row is accused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kvaudit.core.report import Report
from tests.helpers.diagnosing import report_of
from tests.helpers.layer0_worlds import Layer0World, TokenModel, chatty_world

DTYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")
Harm = Callable[[Layer0World, np.ndarray, np.random.Generator], None]


def accused(report: Report) -> set[int]:
    return {slot for finding in report.findings for slot in finding.slots}


def why_not(report: Report) -> str:
    return str(report.coverage.absent.get("identity", ""))


def test_tokens_that_hardly_repeat_are_left_unjudged() -> None:
    world = chatty_world(num_requests=3, length=64, vocab=20_000)
    report = report_of(world.dataset())
    identity = report.to_dict()["coverage"]["identity"]
    assert not report.findings
    assert identity is None or identity["token_seen_once"] > 0.4 * identity["planned"]


def test_a_pool_of_one_token_tells_nothing() -> None:
    world = Layer0World(model=TokenModel(), num_slots=200, page_size=4)
    world.request("A", [7] * 90, range(4, 94))
    world.request("B", [7] * 90, range(100, 190))
    world.v[50] = 0x3F
    report = report_of(world.dataset())
    assert not report.findings
    assert "too alike" in why_not(report)


@pytest.mark.parametrize("byte", [0, 0x3C, 0xFF])
def test_a_pool_of_one_content_tells_nothing(byte: int) -> None:
    world = chatty_world()
    world.v[:] = byte
    report = report_of(world.dataset(), select=("KV210", "KV211"))
    assert not accused(report)
    assert why_not(report).startswith("not applicable: ")


def test_a_third_of_nan_rows_accuses_no_other() -> None:
    world = chatty_world()
    slots = [slot for request in world.requests[:4] for slot in request.slots[16:]]
    world.v[slots] = 0xFF
    assert accused(report_of(world.dataset(), select=("KV210", "KV211"))) <= set(slots)


def test_a_damaged_page_that_hundreds_share_is_one_vote() -> None:
    """Its readers are many and its rows one: the few rows elsewhere outvote it."""
    world = Layer0World(model=TokenModel(vocab=300), num_slots=4096, page_size=16)
    rng = np.random.default_rng(3)
    prefix = list(range(16))
    for number in range(200):
        own = range(32 + 16 * number, 48 + 16 * number)
        tokens = rng.integers(0, 40, 16).tolist()
        world.request(f"r{number}", prefix + tokens, [*range(16, 32), *own])
    world.write(range(16, 32), [200 + n for n in range(16)], range(16))
    report = report_of(world.dataset())
    assert accused(report) == set(range(16, 32))
    assert len(report.findings[0].request_ids) == 200


def test_a_huge_vocabulary_is_searched() -> None:
    world = chatty_world(vocab=100_000, num_requests=4)
    request = world.requests[0]
    world.write(request.slots[16:32], [99_000 + n for n in range(16)], range(16, 32))
    [finding] = report_of(world.dataset(), layer0=world.model.table()).findings
    assert finding.slots == sorted(request.slots[16:32])
    assert finding.evidence["examples"][0]["holds_token"] == 99_000


@pytest.mark.parametrize("share", [0.4, 0.5, 0.7])
def test_a_pool_that_is_mostly_foreign_accuses_no_sound_row(share: float) -> None:
    world = chatty_world(num_requests=20)
    rng = np.random.default_rng(int(10 * share))
    slots = np.array(sorted({slot for request in world.requests for slot in request.slots}))
    wrong = rng.choice(slots, int(share * len(slots)), replace=False)
    world.write(wrong, rng.integers(0, 400, len(wrong)).tolist(), [3] * len(wrong))
    assert accused(report_of(world.dataset())) <= set(wrong.tolist())


def _foreign(world: Layer0World, slots: np.ndarray, rng: np.random.Generator) -> None:
    other = world.requests[int(rng.integers(len(world.requests)))]
    size = min(len(slots), other.kv_len)
    world.copy(other.slots[:size], slots[:size])


def _shifted(world: Layer0World, slots: np.ndarray, _rng: np.random.Generator) -> None:
    world.copy(slots[:-1], slots[1:])


def _zero(world: Layer0World, slots: np.ndarray, _rng: np.random.Generator) -> None:
    world.k[slots] = world.v[slots] = 0


def _nan(world: Layer0World, slots: np.ndarray, _rng: np.random.Generator) -> None:
    world.k[slots] = world.v[slots] = 0xFF


def _alike(world: Layer0World, slots: np.ndarray, _rng: np.random.Generator) -> None:
    world.v[slots] = world.v[slots[0]]


def _other_heads(world: Layer0World, slots: np.ndarray, _rng: np.random.Generator) -> None:
    for data in (world.k, world.v):
        data[slots] = np.roll(data[slots], data.shape[1] // 2, axis=1)


def _unknown(world: Layer0World, slots: np.ndarray, rng: np.random.Generator) -> None:
    model = world.model
    rows = rng.standard_normal((len(slots), model.num_heads * model.head_dim))
    world.v[slots] = model.stored(rows.astype(np.float32))


def _rotated(world: Layer0World, slots: np.ndarray, rng: np.random.Generator) -> None:
    places = {
        slot: (token, position)
        for request in world.requests
        for position, (slot, token) in enumerate(zip(request.slots, request.tokens, strict=False))
    }
    tokens, positions = zip(*(places[slot] for slot in slots.tolist()), strict=True)
    world.k[slots] = world.model.k(tokens, np.array(positions) + int(rng.integers(1, 50)))


HARMS: tuple[Harm, ...] = (
    _foreign,
    _shifted,
    _zero,
    _nan,
    _alike,
    _other_heads,
    _unknown,
    _rotated,
)


def _random_world(rng: np.random.Generator, seed: int) -> Layer0World:
    world = chatty_world(
        seed=seed,
        num_requests=int(rng.integers(2, 20)),
        length=int(rng.integers(8, 120)),
        page_size=int(rng.choice([1, 4, 16])),
        vocab=int(rng.choice([8, 30, 400, 5000])),
        num_heads=int(rng.choice([1, 2, 8])),
        head_dim=int(rng.choice([8, 16, 64])),
        dtype=str(rng.choice(DTYPES)),
    )
    if rng.random() < 0.5:
        world.metadata["rope"] = world.model.rope.to_json()
    return world


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_in_random_worlds_no_row_is_accused_that_did_not_change(harm: Harm) -> None:
    num_accused = 0
    for seed in range(12):
        rng = np.random.default_rng((seed, HARMS.index(harm)))
        world = _random_world(rng, seed)
        before = world.k.copy(), world.v.copy()
        share = rng.choice([0.02, 0.1, 0.3, 0.8])
        hit = [request for request in world.requests if rng.random() < share]
        if harm is _other_heads:
            # What is the same in most of a pool is right, as far as the pool can tell.
            hit = hit[: (len(world.requests) - 1) // 2]
        harmed: set[int] = set()
        for request in hit or world.requests[:1]:
            # What is turned round twice is as it was.
            slots = [slot for slot in request.slots[: request.kv_len] if slot not in harmed]
            harm(world, np.array(slots), rng)
            harmed.update(slots)
        changed = ((world.k != before[0]) | (world.v != before[1])).any(axis=1)
        for options in ({}, {"layer0": world.model.table()}):
            found = accused(report_of(world.dataset(), **options))
            assert found <= set(np.flatnonzero(changed).tolist()), (seed, options.keys())
            num_accused += len(found)
    assert num_accused > 100


@pytest.mark.parametrize("seed", range(12))
def test_a_clean_random_world_is_clean(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = _random_world(rng, 1000 + seed)
    for options in ({}, {"layer0": world.model.table()}):
        assert report_of(world.dataset(), **options).findings == []
