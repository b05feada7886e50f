"""A tokenizer.json says the words of tokens; what is none is refused by name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kvaudit.errors import BackendNotInstalled, FileUnreadable, LimitExceeded, SchemaMismatch
from kvaudit.importers import tokenizer_file
from kvaudit.importers.tokenizer_file import read_tokenizer

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"}
# The byte 0x0a and the two of an e with an accent, in the letters of a byte-level vocabulary.
VOCAB = {
    "\u0120the": 0,
    "\u0120Paris": 1,
    "\u010a": 2,
    "\u00c3": 3,
    "\u00a9": 4,
    "s": 5,
    "<unk>": 6,
}


def tokenizer(tmp_path: Path, *, vocab: dict[str, int] = VOCAB, decoder: dict = BYTE_LEVEL) -> str:
    special = {"id": 7, "content": "<|im_start|>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    path = tmp_path / "tokenizer.json"
    path.write_text(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": [{**special, **flags}],
                "decoder": decoder,
                "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"},
            }
        ),
        encoding="utf-8",
    )
    return str(path)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ([0], " the"),
        ([1], " Paris"),
        ([0, 1, 5], " the Pariss"),
        ([2], "\n"),
        ([3, 4], "\u00e9"),
        ([3], "\ufffd"),
        ([7, 0], "<|im_start|> the"),
    ],
)
def test_words_keep_their_blanks_and_special_tokens_are_said(
    tmp_path: Path, tokens: list[int], text: str
) -> None:
    assert read_tokenizer(tokenizer(tmp_path)).text_of(tokens) == text


def test_the_first_word_keeps_its_blank_where_a_text_would_lose_it(tmp_path: Path) -> None:
    path = tokenizer(tmp_path, vocab={"\u2581the": 0, "\u2581a": 1, "<unk>": 2}, decoder=METASPACE)
    words = read_tokenizer(path)
    assert words.text_of([0]) == " the"
    assert words.text_of([0, 1]) == " the a"


@pytest.mark.parametrize("tokens", [[], [8], [0, 99], [-1], [1 << 40]])
def test_a_token_that_the_vocabulary_does_not_have_has_no_word(
    tmp_path: Path, tokens: list[int]
) -> None:
    assert read_tokenizer(tokenizer(tmp_path)).text_of(tokens) is None


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'{"model": {"type": "None"}}', b"\xff\xfe", b"\x00" * 9]
)
def test_what_is_no_tokenizer_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(SchemaMismatch) as refused:
        read_tokenizer(str(path))
    assert refused.value.path == str(path)
    assert "tokenizer.json" in refused.value.hint


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(FileUnreadable) as refused:
            read_tokenizer(str(path))
        assert refused.value.path == str(path)


def test_a_file_larger_than_any_tokenizer_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_file, "MAX_TOKENIZER_BYTES", 10)
    with pytest.raises(LimitExceeded):
        read_tokenizer(tokenizer(tmp_path))


def test_a_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(BackendNotInstalled) as refused:
        read_tokenizer(tokenizer(tmp_path))
    assert "kvaudit[tokenizer]" in refused.value.hint
