from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from kvaudit.render.bench_chart import bandwidth_chart
from tests.helpers.bench_pools import row


def _chart(*rows):
    return ET.fromstring(bandwidth_chart(rows))  # noqa: S314 - our own chart


def _bar_ends(chart) -> list[float]:
    return [float(bar.get("x")) + float(bar.get("width")) for bar in chart.iter("rect")]


def _ticks(chart) -> list[float]:
    return [float(line.get("x1")) for line in chart.iter("line")]


def test_every_row_has_a_bar_as_long_as_its_fraction() -> None:
    chart = _chart(row(), row(op="fold", median=0.002))
    half, quarter = _bar_ends(chart)
    ticks = _ticks(chart)
    assert half == pytest.approx(ticks[2])
    assert quarter == pytest.approx(ticks[1])


def test_a_rate_above_the_bandwidth_shortens_the_scale() -> None:
    chart = _chart(row(median=0.00025), row())
    above, half = _bar_ends(chart)
    assert above > _ticks(chart)[-1]
    assert half == pytest.approx(_ticks(chart)[2])
    assert above < 960


def test_a_bar_says_in_words_what_it_shows() -> None:
    words = "".join(_chart(row()).itertext())
    assert "verify all 1,000,000" in words
    assert "0.50  1,000 GB/s  1.000 ms" in words


def test_names_are_escaped() -> None:
    assert "<script" not in bandwidth_chart([row(op='"><script>')])
    _chart(row(op='"><script>', real_kv="&"))
