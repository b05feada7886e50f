from __future__ import annotations

from kvaudit.core.chain_entries import ChainCounters
from kvaudit.render.chain_table import HEADER, chain_table

CHAINS = (
    ChainCounters(
        tag="TAIL_K_FULL", records=1024, heads=4, orphans=1, forks=2, chains=7, duplicates=34
    ),
    ChainCounters(
        tag="TAIL_V_FULL", records=0, heads=0, orphans=0, forks=0, chains=0, duplicates=0
    ),
)


def test_every_launch_has_its_chains() -> None:
    title, header, *rows = [text.plain for text in chain_table(CHAINS)]
    assert (title, tuple(header.split())) == ("chains", HEADER)
    assert [row.split() for row in rows] == [
        ["TAIL_K_FULL", "1,024", "4", "1", "2", "7", "34"],
        ["TAIL_V_FULL", "0", "0", "0", "0", "0", "0"],
    ]


def test_no_recovery_is_no_table() -> None:
    assert chain_table(()) == []
