from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvaudit.importers import log_chunks
from kvaudit.importers.log_chunks import whole_lines


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_pieces_hold_the_same_bytes_and_end_with_a_line(pieces: list[bytes]) -> None:
    found = list(whole_lines(pieces))
    whole = b"".join(pieces).replace(b"\0", b"")
    plain = b"".join(found)
    assert plain.replace(b"\n", b"") == whole.replace(b"\r", b"").replace(b"\n", b"")
    assert all(piece.endswith(b"\n") for piece in found[:-1] if piece)


def test_line_ends_of_other_systems_are_plain_ones() -> None:
    assert b"".join(whole_lines([b"a\r\nb\rc\r", b"\nd"])) == b"a\nb\nc\nd"


def test_a_log_in_utf_16_is_read() -> None:
    text = "kv_canary violation:\nnext\n".encode("utf-16-le")
    assert b"".join(whole_lines([text])) == b"kv_canary violation:\nnext\n"


def test_a_line_without_an_end_is_handed_on_in_bounded_pieces(monkeypatch) -> None:
    monkeypatch.setattr(log_chunks, "CHUNK_BYTES", 100)
    found = list(whole_lines([b"x" * 60] * 50))
    assert sum(map(len, found)) == 3000
    assert max(map(len, found)) <= 160
