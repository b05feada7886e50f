"""The shipped dump without a stamp names whose text bled in, and the script makes it anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.bled_smollm2 import NAME, VICTIM, VICTIM_PAGE, WRITER, WRITER_PAGE, capture
from examples.capture_smollm2 import PAGE_SIZE, QUESTIONS, TEXTS
from kvaudit.formats.reader import read_file
from kvaudit.formats.table_writer import write_table
from tests.helpers.clean_identity import model_rows
from tests.helpers.command_line import kvaudit
from tests.helpers.smollm2 import smollm2, smollm2_tokenizer

EXAMPLES = Path(__file__).parents[2] / "examples"
MEGABYTE = 1_000_000
BLED = range(VICTIM_PAGE * PAGE_SIZE, (VICTIM_PAGE + 1) * PAGE_SIZE)


@pytest.fixture(scope="module")
def made_anew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    outputs = capture(smollm2(), smollm2_tokenizer(), folder)
    assert outputs.keys() == {*QUESTIONS, *TEXTS}
    return folder / NAME


@pytest.fixture(params=["shipped", "made anew"])
def folder(request: pytest.FixtureRequest) -> Path:
    shipped = request.param == "shipped"
    return EXAMPLES / NAME if shipped else request.getfixturevalue("made_anew")


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "model.table.arrow"
    write_table(path, model_rows("bfloat16"))
    return path


def the_finding(folder: Path, *options: object) -> dict:
    """The only finding of `kvaudit verify` in a process of its own."""
    run = kvaudit("verify", folder, "--format", "json", *options)
    assert run.returncode == 1, run.stderr
    report = json.loads(run.stdout)
    assert report["violations"]["total"] == 0
    [finding] = report["findings"]
    return finding


def bled_slots(folder: Path) -> list[int]:
    sequences = read_file(str(folder / "full.sequences.arrow"))
    table = sequences.slots_of(list(sequences.request_ids).index(VICTIM))
    return table[BLED.start : BLED.stop].tolist()


def test_the_dump_by_itself_names_whose_text_bled_in(folder: Path) -> None:
    finding = the_finding(folder)
    assert (finding["rule"], finding["request_ids"]) == ("KV210", [VICTIM])
    assert set(finding["slots"]) <= set(bled_slots(folder))
    assert finding["evidence"]["content_of"] == [WRITER]


def test_the_model_tells_every_slot_of_the_page_and_its_true_place(
    folder: Path, model_file: Path
) -> None:
    finding = the_finding(folder, "--layer0", model_file)
    assert finding["slots"] == bled_slots(folder)
    [stretch] = finding["evidence"]["ranges"]
    assert stretch["positions"] == [BLED.start, BLED.stop - 1]
    assert stretch["content_of"] == WRITER
    first = WRITER_PAGE * PAGE_SIZE
    assert stretch["content_positions"] == [first, first + PAGE_SIZE - 1]


def test_the_text_shows_both_texts_in_words(folder: Path) -> None:
    run = kvaudit("verify", folder, "--tokenizer", folder / "tokenizer.json")
    assert "should read '. He was a', read \"'s own son,\" of request hamlet" in run.stdout


def test_nothing_in_it_is_stamped_and_layer_0_alone_is_there_in_bytes(folder: Path) -> None:
    snapshot = read_file(str(folder / "full.snapshot.arrow"))
    assert not snapshot.canary
    assert not snapshot.stamped
    assert list(snapshot.kv) == ["kv.k.0", "kv.v.0"]
    assert list(snapshot.digests) == [f"kv.{half}.{layer}" for layer in range(30) for half in "kv"]
    assert {"model", "rope"} <= snapshot.metadata.keys()


def test_it_is_small_and_names_no_path(folder: Path) -> None:
    files = sorted(folder.iterdir())
    assert [path.name for path in files] == [
        "full.sequences.arrow",
        "full.snapshot.arrow",
        "tokenizer.json",
    ]
    assert sum(path.stat().st_size for path in files) < MEGABYTE
    metadata = read_file(str(folder / "full.snapshot.arrow")).metadata
    assert not any("/" in value for value in metadata.values())
