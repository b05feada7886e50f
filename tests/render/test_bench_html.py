from __future__ import annotations

import io
from html.parser import HTMLParser

from kvaudit.render.bench_html import bench_page, write_bench_html
from kvaudit.render.bench_labels import HEADER, row_cells
from tests.helpers.bench_pools import report, row


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.cells: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        if tag != "meta":  # it has no end
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value)

    def handle_startendtag(self, tag, attrs) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        if self.open and self.open[-1] in {"td", "th"}:
            self.cells.append(data)


def test_the_page_has_a_chart_and_the_figures_of_every_row() -> None:
    rows = [row(), row(op="plan", real_kv=None)]
    page = _Page(bench_page(report(*rows)))
    assert page.tags.count("svg") == 1
    assert page.tags.count("rect") == 2
    assert page.cells == [*HEADER, *row_cells(rows[0]), *row_cells(rows[1])]


def test_the_page_explains_only_the_columns_that_it_has() -> None:
    text = bench_page(report(row(engine_seconds=None)))
    assert "engine" not in _Page(text).cells
    assert "engine: how many times" not in text
    assert "reference: how many times" in text


def test_the_page_runs_nothing_and_loads_nothing() -> None:
    text = bench_page(report())
    page = _Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not {"src", "href"} & set(page.attributes)
    assert not [name for name in page.attributes if name.startswith("on")]
    assert "url(" not in text
    assert "@import" not in text
    assert "http" not in text


def test_every_word_of_the_run_is_escaped() -> None:
    text = bench_page(report(command="kvaudit <script>alert(1)</script>"))
    assert "<b>" not in text
    assert "&lt;b&gt;GPU&lt;/b&gt; &amp; co" in text
    assert "<script" not in text


def test_every_tag_is_closed_and_the_page_is_written_whole() -> None:
    stream = io.StringIO()
    write_bench_html(report(), stream)
    text = stream.getvalue()
    assert text == bench_page(report())
    assert _Page(text).open == []
