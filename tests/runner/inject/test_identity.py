from __future__ import annotations

from pathlib import Path

import pytest

from kvaudit.core.dataset import AuditedPool
from kvaudit.errors import ConfigError
from kvaudit.formats.dataset import open_dataset
from kvaudit.runner.inject import inject
from tests.helpers.injecting import copy_of, named, stamped_world
from tests.helpers.layer0_worlds import K, Layer0World, V, chatty_world, fixture_f

CLEAN = Path(__file__).parents[3] / "examples" / "smollm2-clean"
TOKEN, POSITION = "content-not-of-token", "content-not-of-position"


def roped(world: Layer0World) -> AuditedPool:
    world.metadata["rope"] = world.model.rope.to_json()
    return world.pool()


@pytest.mark.parametrize(("fault", "rule"), [(TOKEN, "KV210"), (POSITION, "KV211")])
def test_it_goes_where_the_dump_tells_it_by_itself(fault: str, rule: str) -> None:
    pool = roped(chatty_world())
    for seed in range(4):
        injection = inject(pool, fault, seed=seed)
        [finding] = named(injection.pool)
        assert finding.rule == rule
        assert finding.slots == list(injection.damage.slots)
        assert finding.request_ids == list(injection.damage.request_ids)


def test_two_tokens_of_one_content_are_no_fault() -> None:
    """The source of seed 0 was of a token that was never trained: its V is nearly the other's."""
    [pool] = open_dataset([str(CLEAN)]).pools
    for seed in range(3):
        injection = inject(pool, TOKEN, seed=seed)
        [finding] = named(injection.pool)
        assert (finding.rule, finding.slots) == ("KV210", list(injection.damage.slots))


def test_a_position_changes_k_of_layer_0_alone() -> None:
    injection = inject(roped(chatty_world()), POSITION, seed=0)
    assert injection.columns == [K]
    assert set(inject(roped(chatty_world()), TOKEN, seed=0).columns) == {K, V}


def test_it_goes_to_the_request_and_position_asked_for_or_nowhere() -> None:
    world = chatty_world()
    request = world.requests[4]
    place = next(p for p in range(16, 60) if request.tokens[p] == 0)
    injection = inject(roped(world), f"{TOKEN}:request=r4,position={place}", seed=0)
    assert injection.damage.slots == [request.slots[place]]
    rare = next(
        p
        for p in range(16, 60)
        if sum(each.tokens.count(request.tokens[p]) for each in world.requests) == 1
    )
    with pytest.raises(ConfigError, match="it needs tokens, and layer-0 KV bytes"):
        inject(roped(world), f"{TOKEN}:request=r4,position={rare}", seed=0)


@pytest.mark.parametrize("fault", [TOKEN, POSITION])
def test_a_pool_whose_layer_0_is_no_function_of_the_token_is_refused(fault: str) -> None:
    world = stamped_world(4)
    pool = AuditedPool(snapshot=world.snapshot(), sequences=(world.sequences(),))
    with pytest.raises(ConfigError, match="cannot be put into this dump: it needs tokens, and"):
        inject(pool, fault, seed=0)
    with pytest.raises(ConfigError, match="in five places"):
        inject(roped(fixture_f()), fault, seed=0)


def test_a_position_needs_the_rotation() -> None:
    with pytest.raises(ConfigError, match=r"kvaudit\.rope"):
        inject(chatty_world().pool(), POSITION, seed=0)


def test_a_place_among_none_is_none() -> None:
    import numpy as np

    copy = copy_of(chatty_world().pool())
    chain = copy.chains_with(1)[0]
    assert copy.place_among(chain, np.zeros(len(chain), dtype=np.bool_)) is None
