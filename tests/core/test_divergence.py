from __future__ import annotations

from kvaudit.core.divergence import Divergence, DivergenceKind, Divergences


def at(first_step: int, last_step: int) -> Divergence:
    return Divergence(kind=DivergenceKind.BYTES, first_step=first_step, last_step=last_step)


def test_those_of_one_moment_are_kept_in_the_order_of_their_first_step() -> None:
    divergences = Divergences()
    divergences.add([at(90, 100), at(51, 100)])
    divergences.add([at(20, 150)])
    assert [each.first_step for each in divergences.kept] == [51, 90, 20]
    assert divergences.total == 3


def test_only_the_first_ones_are_kept_and_all_are_counted() -> None:
    divergences = Divergences(capacity=2)
    divergences.add([at(1, 1), at(2, 2)], total=70)
    divergences.add([at(3, 3)])
    divergences.add([], total=0)
    assert [each.first_step for each in divergences.kept] == [1, 2]
    assert divergences.total == 71
