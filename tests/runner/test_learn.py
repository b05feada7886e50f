from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.backends.availability import choose
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.layer0_table import Layer0Table, TableSource
from kvaudit.core.rope import Rope
from kvaudit.errors import SnapshotInconsistent, ValuesInvalid
from kvaudit.runner.learn import learnt_table
from tests.helpers.diagnosing import report_of
from tests.helpers.layer0_worlds import Layer0World, V, chatty_world, fixture_f
from tests.helpers.watcher import Watcher


def learnt(*worlds: Layer0World | AuditedPool, rope: Rope | None = None) -> Layer0Table:
    backend, _ = choose("cpu", kv_bytes=0, num_entries=0)
    pools = [world.pool() if isinstance(world, Layer0World) else world for world in worlds]
    return learnt_table(pools, backend=backend, observer=Watcher(), rope=rope, model="small")


def test_a_table_holds_a_row_of_every_token_and_how_many_agree() -> None:
    world = chatty_world()
    table = learnt(world)
    held = {t for request in world.requests for t in request.tokens[: request.kv_len]}
    assert table.tokens.tolist() == sorted(held)
    assert np.array_equal(table.v0, world.model.v(table.tokens.tolist()))
    assert (table.rows_seen == table.rows_agreeing).all()
    assert table.rows_seen.max() > 40
    assert (table.source, table.model, table.k0, table.rope) == (
        TableSource.LEARNT,
        "small",
        None,
        None,
    )


def test_with_the_rotation_k_is_learnt_as_it_was_before_it() -> None:
    world = chatty_world(dtype="float32")
    table = learnt(world, rope=world.model.rope)
    assert (table.num_heads, table.head_dim) == (2, 16)
    found = table.k_rows(np.arange(table.num_tokens))
    assert np.allclose(found, world.model.k0[table.tokens], atol=1e-4)
    world.metadata["rope"] = world.model.rope.to_json()
    assert learnt(world).k0 is not None


def test_a_wrong_row_is_outvoted_and_counted() -> None:
    world = chatty_world()
    request = world.requests[0]
    place = next(p for p in range(16, 60) if request.tokens[p] == 0)
    world.write([request.slots[place]], [399], [place])
    table = learnt(world)
    assert np.array_equal(table.v0[0], world.model.v([0])[0])
    assert table.rows_seen[0] == table.rows_agreeing[0] + 1


def test_several_dumps_are_learnt_as_one() -> None:
    one, other = chatty_world(seed=1), chatty_world(seed=2)
    table = learnt(one, other)
    assert table.num_tokens > max(learnt(one).num_tokens, learnt(other).num_tokens)
    assert table.rows_seen[0] > learnt(one).rows_seen[0]
    assert np.array_equal(table.v0, one.model.v(table.tokens.tolist()))


def test_a_learnt_table_judges_another_dump_of_the_model() -> None:
    table = learnt(chatty_world(seed=1), chatty_world(seed=2), rope=chatty_world().model.rope)
    other = chatty_world(seed=3)
    clean = report_of(other.dataset(), layer0=table)
    assert clean.to_dict()["coverage"]["identity"]["by_table"] > 600
    assert not clean.findings
    other.write(other.requests[0].slots[20:24], [399, 398, 397, 396], range(20, 24))
    found = report_of(other.dataset(), layer0=table).findings
    assert [finding.rule for finding in found] == ["KV210"]


def test_a_table_of_another_model_is_recognised_once() -> None:
    table = learnt(chatty_world(seed=1))
    foreign = chatty_world(seed=5)
    foreign.v[:] = np.roll(foreign.v.view(np.uint16), 5, axis=1).view(np.uint8)
    report = report_of(foreign.dataset(), layer0=table)
    assert not report.findings
    assert "it is of another model" in str(report.coverage.absent["identity"])


def test_extra_keys_and_disputed_rows_teach_nothing() -> None:
    world = chatty_world()
    before = learnt(world)
    world.requests[0].extra_key = "adapter"
    after = learnt(world)
    assert after.rows_seen[0] < before.rows_seen[0]


@pytest.mark.parametrize("what", ["few", "kv", "type"])
def test_what_cannot_be_learnt_from_says_why(what: str) -> None:
    world = chatty_world()
    pool = world.pool()
    if what == "few":
        with pytest.raises(ValuesInvalid, match="too few tokens occur twice") as caught:
            learnt(fixture_f())
    elif what == "kv":
        with pytest.raises(ValuesInvalid, match=r"it has no kv.v.0 to learn from") as caught:
            learnt(replace(pool, snapshot=replace(pool.snapshot, kv={})))
    else:
        untyped = replace(pool.snapshot.kv[V], dtype="")
        snapshot = replace(pool.snapshot, kv={**pool.snapshot.kv, V: untyped})
        with pytest.raises(ValuesInvalid, match=r"the type of kv\.v\.0 is not given") as caught:
            learnt(replace(pool, snapshot=snapshot))
    assert caught.value.hint


def test_dumps_of_two_types_are_refused_together() -> None:
    with pytest.raises(SnapshotInconsistent, match="of float16, those of the first dump"):
        learnt(chatty_world(), chatty_world(dtype="float16"))
