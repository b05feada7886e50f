"""docs/detection.md is what audits of injected faults say, and its words agree with its cells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docs import update_detection as detection
from docs.detection_matrix import NAMED, View, views
from docs.detection_pools import LAYOUTS


@pytest.fixture(scope="module")
def outcomes() -> detection.Outcomes:
    return detection.measured()


def test_the_page_is_what_the_audits_say(outcomes: detection.Outcomes) -> None:
    assert detection.PAGE.read_text(encoding="utf-8") == detection.page(outcomes), (
        "run python -m docs.update_detection"
    )


def test_every_class_is_named_in_a_dump_of_everything(outcomes: detection.Outcomes) -> None:
    whole = View(content="bytes", stamps="all", expectations="sequences")
    of_plan = replace(whole, expectations="plan")
    for fault in detection.CLASSES:
        cell = outcomes[fault.rule][of_plan if fault.rule == "KV103" else whole]
        assert len(cell) >= len(LAYOUTS) - 1, fault.rule
        assert set(cell.values()) == {frozenset({NAMED})}, fault.rule


def test_a_cell_that_no_blind_spot_speaks_of_is_refused(
    outcomes: detection.Outcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection, "BLIND_SPOTS", detection.BLIND_SPOTS[1:])
    with pytest.raises(ValueError, match=r"no blind spot says why these are not seen: .*KV301"):
        detection.check_blind_spots(outcomes)


def test_a_blind_spot_that_is_seen_is_refused(outcomes: detection.Outcomes) -> None:
    named = {view: {"a layout": frozenset({NAMED})} for view in outcomes["KV201"]}
    healed = {**outcomes, "KV201": named}
    with pytest.raises(ValueError, match=r"KV201 is seen, against: .*A wrong token"):
        detection.check_blind_spots(healed)


def test_records_alone_have_no_stamps_of_bytes() -> None:
    assert {view.stamps for view in views() if view.content == "records alone"} == {"none"}
