from __future__ import annotations

import numpy as np

from kvaudit.core.element_types import encoded
from kvaudit.core.identity import Content, WrongContent
from kvaudit.kernels.distance.numba_cpu import launch_distance
from kvaudit.runner.identity.held_content import rotated_for, without_odd_sequences, wrong_content
from kvaudit.runner.identity.layer0_rows import Layer0Rows
from kvaudit.runner.identity.table_fit import fitted_table
from kvaudit.runner.identity.token_judge import judged_tokens
from kvaudit.runner.identity.unrotated_k import UnrotatedK
from tests.helpers.layer0_judging import judged, rows_of, rows_of_v
from tests.helpers.layer0_worlds import K, Layer0World, TokenModel, chatty_world, fixture_f


def wrong_of(world: Layer0World, model: TokenModel | None = None) -> WrongContent:
    """By the table of a model."""
    rows, v = rows_of(world), rows_of_v(world)
    table = fitted_table((model or world.model).table(), world.pool().snapshot, v, rows=rows)
    assert not isinstance(table, str)
    verdicts = judged_tokens(rows, v, table=table, election=None)
    return wrong_content(verdicts, v, table=table)


def test_another_token_is_named() -> None:
    world = fixture_f()
    world.write([7, 8], [99, 300], [1, 2])
    found = wrong_of(world)
    assert found.rows.tolist() == [7, 8]
    assert found.contents.tolist() == [Content.FOREIGN] * 2
    assert found.tokens.tolist() == [99, 300]


def test_zeros_and_nan_are_named_and_have_no_token() -> None:
    world = fixture_f()
    world.v[7] = 0
    world.v[8] = 0xFF
    found = wrong_of(world)
    assert found.contents.tolist() == [Content.ZEROS, Content.NOT_FINITE]
    assert found.tokens.tolist() == [-1, -1]
    assert found.distances.tolist() == [1.0, np.inf]


def test_what_no_token_has_is_not_known() -> None:
    world = fixture_f()
    world.v[7] = world.model.stored(np.random.default_rng(9).standard_normal((1, 32)))[0]
    assert wrong_of(world).contents.tolist() == [Content.NOT_KNOWN]


def test_its_own_token_in_another_type_is_named() -> None:
    world = fixture_f()
    world.v[7] = encoded(world.model.v0[22].reshape(1, -1), "float16")[0]
    found = wrong_of(world)
    assert (found.contents.tolist(), found.types.tolist()) == ([Content.OTHER_TYPE], ["float16"])


def test_its_own_token_of_another_rank_is_named() -> None:
    whole, world = TokenModel(num_heads=4), fixture_f(num_heads=1)
    for row, token in zip(range(2, 10), rows_of(world).tokens.tolist(), strict=True):
        head = 2 if row == 7 else 0
        world.v[row] = world.model.stored(whole.v0[token : token + 1, head])[0]
    found = wrong_of(world, whole)
    assert found.rows.tolist() == [7]
    assert found.contents.tolist() == [Content.OTHER_HEADS]


def test_without_a_table_a_row_is_looked_for_among_the_dump_s_own() -> None:
    world = chatty_world()
    one, other = world.requests[0], world.requests[1]
    world.copy(other.slots[32:48], one.slots[32:48])
    verdicts = judged(world)
    found = wrong_content(verdicts, rows_of_v(world), table=None)
    assert len(found) >= 8
    due = dict(zip(one.slots[32:48], other.tokens[32:48], strict=True))
    assert [due[row] for row in found.rows.tolist()] == found.tokens.tolist()


def test_the_position_of_a_foreign_row_is_told_by_its_k() -> None:
    world = fixture_f()
    world.write([7], [99], [13])
    found = wrong_of(world)
    model = world.model
    k = Layer0Rows(columns=[world.pool().snapshot.kv[K]], launch_distance=launch_distance)
    known = UnrotatedK(
        tokens=np.arange(400),
        entries=np.arange(400),
        numbers=lambda some: model.k0[some],
        rope=model.rope,
        num_positions=64,
        tolerance=0.1,
    )
    rotated_for(found, k, known)
    assert found.positions.tolist() == [13]


def test_a_sequence_that_is_odd_throughout_is_not_judged_by_the_others() -> None:
    world = chatty_world()
    odd, torn = world.requests[0], world.requests[1]
    rng = np.random.default_rng(8)
    for slots in (odd.slots[16:], torn.slots[32:40]):
        rows = rng.standard_normal((len(slots), 32)).astype(np.float32)
        world.v[slots] = world.model.stored(rows)
    # The first page is the first request's, in the order of claims.
    world.requests.append(world.requests.pop(0))
    verdicts = judged(world)
    wrong = wrong_content(verdicts, rows_of_v(world), table=None)
    left = without_odd_sequences(verdicts, wrong)
    assert len(wrong) > len(left) > 3
    assert set(left.rows.tolist()) <= set(torn.slots[32:40])
    is_odd = np.isin(verdicts.rows.rows, odd.slots[16:])
    assert not verdicts.is_judged[is_odd].any()
