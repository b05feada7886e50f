"""The words of tokens from a model's `tokenizer.json`, through the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvaudit.errors import BackendNotInstalled, FileUnreadable, LimitExceeded, SchemaMismatch
from kvaudit.formats.given_path import refuse_empty

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# The largest vocabularies of today take 40 MB.
MAX_TOKENIZER_BYTES: Final = 1 << 28
_HINT: Final = "give the tokenizer.json that lies beside the model's weights"
_MAX_TOKEN: Final = (1 << 32) - 1


class FileTokenWords:
    """The words of a tokenizer.

    Args:
        tokenizer: what decodes.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def text_of(self, tokens: Sequence[int]) -> str | None:
        """The text of consecutive tokens, special ones included; None where one is not known."""
        if not tokens or not all(map(self._knows, tokens)):
            return None
        # A decoder takes the blank off the first word of a text: let another word be the first.
        first = self._decoded([tokens[0]])
        text = self._decoded([tokens[0], *tokens])
        return text[len(first) :] if text.startswith(first) else self._decoded(tokens)

    def _knows(self, token: int) -> bool:
        return 0 <= token <= _MAX_TOKEN and self._tokenizer.id_to_token(token) is not None

    def _decoded(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))


def read_tokenizer(path: str) -> FileTokenWords:
    """Read a `tokenizer.json`.

    Raises:
        BackendNotInstalled: the library is missing.
        FileUnreadable: the path is empty, or the file is missing, a folder, or may not be read.
        LimitExceeded: it is larger than any tokenizer.
        SchemaMismatch: it is no tokenizer.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise BackendNotInstalled(
            "a tokenizer.json is read by the tokenizers library, and that is not installed",
            hint="install the extra: pip install 'kvaudit[tokenizer]'",
        ) from error
    text = _text_of(path)
    try:
        return FileTokenWords(Tokenizer.from_str(text))
    # The library raises nothing more definite, whatever is wrong.
    except Exception as error:
        raise SchemaMismatch(f"is no tokenizer: {error}", path=path, hint=_HINT) from error


def _text_of(path: str) -> str:
    refuse_empty(path)
    try:
        size = Path(path).stat().st_size
        if size > MAX_TOKENIZER_BYTES:
            raise LimitExceeded(
                f"it has {size} bytes, and a tokenizer at most {MAX_TOKENIZER_BYTES}",
                path=path,
                hint=_HINT,
            )
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise FileUnreadable(
            (error.strerror or str(error)).lower(), path=path, hint=_HINT
        ) from error
    except UnicodeDecodeError as error:
        raise SchemaMismatch("is no text in UTF-8", path=path, hint=_HINT) from error
