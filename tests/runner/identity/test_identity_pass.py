from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.audit_options import AuditOptions, Layer0
from kvaudit.core.coverage import Family
from kvaudit.core.element_types import encoded
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.identity import IdentityResult
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.core.layer0_table import Layer0Table, TableSource
from kvaudit.core.layout import SlotRanges
from kvaudit.core.report import Verdict
from kvaudit.core.rope import Rope, plain_frequencies
from kvaudit.core.snapshot import DumpMoment, Snapshot
from kvaudit.kernels.distance.numba_cpu import launch_distance
from kvaudit.runner.expectations import expectations_of, scope_of
from kvaudit.runner.identity.identity_pass import IdentityPass
from tests.helpers.diagnosing import report_of
from tests.helpers.layer0_worlds import K, Layer0World, TokenModel, V, chatty_world, fixture_f


def result_of(
    world: Layer0World, *, snapshot: Snapshot | None = None, **options: object
) -> IdentityResult:
    pool = world.pool()
    chosen = AuditOptions(**options)
    expected = expectations_of(pool, ALL_ENTRIES)
    evidence = PoolEvidence(
        snapshot=snapshot or pool.snapshot,
        sequences=expected.sequences,
        sources=expected.sources,
        scope=scope_of(chosen),
    )
    return IdentityPass(evidence=evidence, options=chosen, launcher=lambda: launch_distance).run()


def test_a_clean_pool_is_judged_by_repetition_without_being_asked() -> None:
    result = result_of(chatty_world())
    assert result.planned == 12 * 64 + 16
    assert result.checked == result.counts["by_repetition"] > 600
    assert result.checked + result.counts["token_seen_once"] == result.planned
    assert result.evidence is not None
    assert result.evidence.source is TableSource.DUMP
    assert (len(result.evidence.content), len(result.evidence.rotation)) == (0, 0)
    assert result.evidence.sound.sum() == result.checked == len(result.judged_rows)


def test_a_table_judges_all_of_it_and_k_too() -> None:
    world = fixture_f()
    result = result_of(world, layer0=world.model.table())
    assert (result.planned, result.checked) == (8, 8)
    assert (result.counts["by_table"], result.counts["positions_checked"]) == (8, 8)
    assert result.counts["positions_open"] == 0
    assert result.evidence is not None
    assert result.evidence.columns == [V, K]


def test_the_rotation_that_the_file_states_serves_repetition() -> None:
    world = chatty_world()
    counts = result_of(world).counts
    without = counts["positions_checked"]
    assert counts["positions_open"] + without == counts["by_repetition"]
    world.metadata["rope"] = world.model.rope.to_json()
    assert result_of(world).counts["positions_checked"] > 2 * without


def test_the_scope_bounds_what_is_judged_and_not_what_votes() -> None:
    world = chatty_world()
    slots = world.requests[3].slots[16:]
    of_request = result_of(world, request_ids=("r3",))
    assert of_request.planned == 64 + 16
    of_slots = result_of(world, slots=SlotRanges.of((slot, slot) for slot in slots))
    assert of_slots.planned == 64
    assert of_slots.checked > 40
    assert result_of(world, slots=SlotRanges.parse("0-3")).not_applicable == "nothing in scope"


def _without_dtype(world: Layer0World) -> Snapshot:
    return _with_v(world, dtype="")


def _with_v(world: Layer0World, **changes: object) -> Snapshot:
    snapshot = world.pool().snapshot
    column = snapshot.kv[V]
    assert isinstance(column, ArrayKvColumn)
    return replace(snapshot, kv={**snapshot.kv, V: replace(column, **changes)})


def _fused(world: Layer0World) -> Snapshot:
    snapshot = world.pool().snapshot
    return replace(snapshot, kv={"kv.kv.0": replace(snapshot.kv[V], name="kv.kv.0")})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda w: replace(w.pool().snapshot, kv={}), "no bytes"),
        (
            _fused,
            "not applicable: K and V are one row, and nothing says which part of it turns",
        ),
        (_without_dtype, "not applicable: the type of kv.v.0 is not given"),
        (lambda w: _with_v(w, dtype="int8"), "not applicable: kv.v.0 is int8"),
        (
            lambda w: replace(w.pool().snapshot, at=DumpMoment.MID_STEP),
            "not applicable: dumped in mid-step",
        ),
    ],
)
def test_a_pool_that_cannot_be_judged_says_why(make, words: str) -> None:
    world = chatty_world()
    result = result_of(world, snapshot=make(world))
    assert (result.not_applicable, result.planned, result.evidence) == (words, 0, None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layer0": Layer0.OFF}, "left out"),
        ({"skip_bytes": True}, "left out"),
        ({"layers": (1, 2)}, "nothing in scope"),
        (
            {"layer0": TokenModel(seed=4).table()},
            "not applicable: the pool's rows are not in the table (random): it is of another model",
        ),
    ],
)
def test_what_was_asked_for_may_leave_it_out(options: dict[str, object], words: str) -> None:
    assert result_of(chatty_world(), **options).not_applicable == words


def test_unknown_tokens_plan_nothing() -> None:
    world = chatty_world()
    for request in world.requests:
        request.tokens = [-1] * len(request.tokens)
    assert result_of(world).not_applicable == "no tokens"


def test_too_few_tokens_that_come_again_tell_nothing() -> None:
    assert result_of(fixture_f()).not_applicable == "not applicable: too few tokens occur twice"


def test_a_pool_of_zeros_is_wrong_by_a_table_and_by_itself_says_why_it_is_not_judged() -> None:
    world = chatty_world()
    table = world.model.table()
    world.v[:] = 0
    result = result_of(world, layer0=table)
    assert result.checked == result.planned == len(result.evidence.content.rows) > 700
    assert not result.evidence.sound.any()
    assert result_of(world).not_applicable.endswith("they are zeros, or no numbers")


def test_a_pool_of_which_a_third_is_wrong_accuses_nobody() -> None:
    world = chatty_world(num_requests=12)
    for number in range(4):
        own, other = world.requests[number], world.requests[number + 6]
        world.copy(other.slots[16:], own.slots[16:])
    result = result_of(world)
    assert result.evidence is None
    assert "a table tells" in result.not_applicable or "depend on more" in result.not_applicable
    by_table = result_of(world, layer0=world.model.table())
    assert by_table.evidence is not None
    wrong = set(by_table.evidence.content.rows.tolist())
    assert len(wrong) > 150
    assert wrong <= {slot for number in range(4) for slot in world.requests[number].slots[16:]}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_every_float_type_is_judged(dtype: str) -> None:
    world = chatty_world(dtype=dtype)
    request = world.requests[0]
    world.write(request.slots[20:36], [390 - n for n in range(16)], range(20, 36))
    result = result_of(world)
    assert result.evidence is not None
    wrong = set(result.evidence.content.rows.tolist())
    assert len(wrong) >= 10
    assert wrong <= set(request.slots[20:36])


def test_noise_of_the_engine_s_kernels_is_no_fault() -> None:
    world = chatty_world(dtype="float32")
    rng = np.random.default_rng(1)
    for half in ("k", "v"):
        numbers = getattr(world, half).view(np.float32)
        numbers *= 1 + 2e-3 * rng.standard_normal(numbers.shape).astype(np.float32)
    for options in ({}, {"layer0": world.model.table()}):
        result = result_of(world, **options)
        assert result.evidence is not None
        assert (len(result.evidence.content), len(result.evidence.rotation)) == (0, 0)


def test_a_prompt_that_was_computed_often_is_one_history() -> None:
    """Layer 0 here depends on the token before too: a cache of equal prompts must not hide it."""
    world = chatty_world(num_requests=3)
    prompt = world.requests[0].tokens[:64]
    base = world.num_slots
    grown = Layer0World(model=world.model, num_slots=base + 20 * 64, page_size=16)
    grown.requests = world.requests
    grown.k[:base], grown.v[:base] = world.k, world.v
    for number in range(20):
        slots = [base + number * 64 + offset for offset in range(64)]
        grown.request(f"again{number}", prompt, slots)
    mixed = grown.model.v0.reshape(400, -1)
    for request in grown.requests:
        before = [0, *request.tokens]
        length = request.kv_len
        rows = mixed[request.tokens[:length]] + mixed[before[:length]]
        grown.v[request.slots[:length]] = grown.model.stored(rows)
    result = result_of(grown)
    assert result.evidence is None
    assert "depend on more than it" in result.not_applicable


def test_an_error_makes_the_verdict_and_being_judged_in_part_does_not() -> None:
    world = chatty_world()
    assert report_of(world.dataset()).verdict is Verdict.CLEAN
    demanded = report_of(world.dataset(), require=frozenset({Family.IDENTITY}))
    assert demanded.verdict is Verdict.INCOMPLETE
    assert "pass --layer0 TABLE" not in demanded.incomplete_reasons[0]
    table = world.model.table()
    whole = report_of(world.dataset(), require=frozenset({Family.IDENTITY}), layer0=table)
    assert whole.verdict is Verdict.CLEAN
    world.write([world.requests[0].slots[20]], [399], [20])
    assert report_of(world.dataset(), layer0=table).verdict is Verdict.VIOLATIONS


def test_coverage_counts_what_was_judged_by_what_and_why_not() -> None:
    world = chatty_world()
    covered = report_of(world.dataset()).to_dict()["coverage"]
    identity = covered["identity"]
    assert identity["planned"] == 784
    assert identity["checked"] == identity["by_repetition"]
    assert {"by_table", "positions_checked", "token_seen_once", "no_majority"} <= set(identity)
    assert covered["slots"]["checked"] == identity["checked"]


def _with_other_heads(world: Layer0World, requests: range) -> set[int]:
    """Requests whose rows are another rank's: consistent with each other, and like no token."""
    slots = [slot for number in requests for slot in world.requests[number].slots[16:]]
    for data in (world.k, world.v):
        data[slots] = np.roll(data[slots], data.shape[1] // 4, axis=1)
    return set(slots)


@pytest.mark.parametrize("requests", [range(3), range(9), range(11)], ids=len)
def test_a_pool_with_two_versions_of_its_tokens_accuses_neither(requests: range) -> None:
    world = chatty_world(num_requests=12)
    _with_other_heads(world, requests)
    result = result_of(world)
    assert result.evidence is None
    assert "a table tells" in result.not_applicable or "depend on more" in result.not_applicable


def test_an_adapter_that_the_dump_does_not_name_is_no_fault() -> None:
    world = chatty_world(num_requests=12)
    changed = _with_other_heads(world, range(1, 2))
    result = result_of(world)
    assert result.evidence is not None
    assert len(result.evidence.content) == 0
    assert result.counts["no_majority"] > 30
    by_table = result_of(world, layer0=world.model.table())
    assert by_table.evidence is not None
    assert set(by_table.evidence.content.rows.tolist()) == changed


def test_a_table_s_verdicts_stand_where_the_dump_s_own_do_not() -> None:
    world = chatty_world(num_requests=12)
    changed = _with_other_heads(world, range(3))
    few = world.model.table()
    known = few.tokens % 2 == 0
    half = replace(few, tokens=few.tokens[known], k0=few.k0[known], v0=few.v0[known])
    result = result_of(world, layer0=half)
    assert result.counts["by_repetition"] == 0
    assert result.evidence is not None
    found = set(result.evidence.content.rows.tolist())
    assert found
    assert found <= changed


LATENT, TURNING = 24, 8
LATENT_ROPE = Rope(
    inverse_frequencies=plain_frequencies(theta=10_000.0, rotary_dim=TURNING),
    head_dim=LATENT + TURNING,
    first_dim=LATENT,
)


def _latent(world: Layer0World) -> tuple[Snapshot, Layer0Table]:
    """The world as an MLA model holds it: one row, whose last elements turn; and its table."""
    rows = np.random.default_rng(6).standard_normal((400, 1, LATENT + TURNING)).astype(np.float32)
    data = np.zeros((world.num_slots, 2 * (LATENT + TURNING)), dtype=np.uint8)
    for request in world.requests:
        tokens, slots = request.tokens[: request.kv_len], request.slots[: request.kv_len]
        turned = LATENT_ROPE.rotated(rows[tokens], np.arange(len(tokens)))
        data[slots] = encoded(turned[:, 0], "bfloat16")
    name = "kv.kv.0"
    column = ArrayKvColumn(name=name, data=data, read_bytes=data.shape[1], dtype="bfloat16")
    table = Layer0Table(
        tokens=np.arange(400),
        k0=encoded(rows[:, 0], "bfloat16"),
        v0=None,
        dtype="bfloat16",
        num_heads=1,
        head_dim=LATENT + TURNING,
        rope=LATENT_ROPE,
        source=TableSource.MODEL,
    )
    return replace(world.pool().snapshot, kv={name: column}), table


@pytest.mark.parametrize("by_table", [True, False])
def test_a_latent_row_is_judged_by_the_part_that_does_not_turn_and_by_the_one_that_does(
    by_table: bool,
) -> None:
    world = chatty_world()
    snapshot, table = _latent(world)
    snapshot = replace(snapshot, metadata={"rope": LATENT_ROPE.to_json()})
    options = {"layer0": table} if by_table else {}
    clean = result_of(world, snapshot=snapshot, **options)
    assert clean.evidence is not None
    assert (len(clean.evidence.content), len(clean.evidence.rotation)) == (0, 0)
    assert clean.counts["positions_checked"] > 600
    own, other = world.requests[0].slots[20:36], world.requests[1].slots[20:36]
    data = snapshot.kv["kv.kv.0"].data
    data[own] = data[other]
    damaged = result_of(world, snapshot=snapshot, **options)
    assert damaged.evidence is not None
    wrong = set(damaged.evidence.content.rows.tolist())
    assert len(wrong) > 6
    assert wrong <= set(own)
    assert damaged.evidence.columns == ["kv.kv.0"]


def test_a_latent_pool_takes_no_table_of_two_halves_and_the_other_way_round() -> None:
    world = chatty_world()
    snapshot, latent = _latent(world)
    of_halves = result_of(world, snapshot=snapshot, layer0=world.model.table())
    assert "kv.kv.0 are no latent rows" in of_halves.not_applicable
    assert "the table has no V" in result_of(world, layer0=latent).not_applicable
