"""The shipped captures verify as README shows, and the script makes them anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.capture_smollm2 import NEW_TOKENS, QUESTIONS, TEXTS, Damage, capture
from kvaudit.formats.reader import read_file
from tests.helpers.command_line import kvaudit
from tests.helpers.smollm2 import smollm2, smollm2_tokenizer

EXAMPLES = Path(__file__).parents[2] / "examples"
MEGABYTE = 1_000_000
REQUESTS = {*QUESTIONS, *TEXTS}


@pytest.fixture(scope="module")
def made_anew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    outputs = capture(smollm2(), smollm2_tokenizer(), folder)
    assert outputs.keys() == REQUESTS
    return folder


@pytest.fixture(params=["shipped", "made anew"])
def folder(request: pytest.FixtureRequest) -> Path:
    return EXAMPLES if request.param == "shipped" else request.getfixturevalue("made_anew")


def verified(path: Path) -> tuple[int, dict]:
    """Exit code and JSON report of `kvaudit verify` in a process of its own."""
    run = kvaudit("verify", path, "--format", "json")
    return run.returncode, json.loads(run.stdout)


@pytest.mark.parametrize("name", ["smollm2-clean", "smollm2-digests"])
def test_a_whole_capture_is_clean_and_fully_covered(folder: Path, name: str) -> None:
    code, report = verified(folder / name)
    assert (code, report["verdict"]) == (0, "clean")
    for family in ("index", "records", "bytes"):
        assert report["coverage"][family]["planned"] > 0
        assert report["coverage"][family]["ratio"] == 1.0
    assert report["violations"]["total"] == 0
    assert report["coverage"]["records"]["unstamped"] == 0


def test_the_damaged_capture_names_slot_request_position_and_layer(folder: Path) -> None:
    code, report = verified(folder / "smollm2-damaged")
    assert (code, report["verdict"]) == (1, "violations")
    sequences = read_file(str(folder / "smollm2-damaged" / "full.sequences.arrow"))
    assert list(sequences.request_ids) == [Damage.request_id]
    slot = int(sequences.slots_of(0)[Damage.position])
    record, column = report["violations"]["rows"]
    assert (record["tag"], record["reasons"]) == ("TAIL_V_FULL", ["verify_real_kv_hash"])
    assert (column["tag"], column["columns"]) == (None, [f"kv.v.{Damage.layer}"])
    for row in (record, column):
        assert (row["slot"], row["request_ids"]) == (slot, [Damage.request_id])
    assert record["position"] == Damage.position


def test_the_captures_hold_what_they_say(folder: Path) -> None:
    clean = read_file(str(folder / "smollm2-clean" / "full.snapshot.arrow"))
    sequences = read_file(str(folder / "smollm2-clean" / "full.sequences.arrow"))
    assert set(sequences.request_ids) == REQUESTS
    finished = {
        request_id
        for request_id, state in zip(sequences.request_ids, sequences.states, strict=True)
        if state == "finished"
    }
    assert finished == NEW_TOKENS.keys()
    first_pages = [tuple(sequences.slots_of(row)[:16]) for row in range(len(REQUESTS))]
    assert max(first_pages.count(page) for page in first_pages) == len(QUESTIONS)
    assert list(clean.kv) == [f"kv.{half}.{layer}" for layer in range(30) for half in "kv"]
    assert {(column.dtype, column.row_bytes) for column in clean.kv.values()} == {("bfloat16", 384)}
    digests = read_file(str(folder / "smollm2-digests" / "full.snapshot.arrow"))
    assert not digests.kv
    assert list(digests.digests) == list(clean.kv)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("smollm2-clean", 6 * MEGABYTE),
        ("smollm2-damaged", MEGABYTE),
        ("smollm2-digests", MEGABYTE),
    ],
)
def test_the_captures_are_small_and_a_pair_of_files(folder: Path, name: str, limit: int) -> None:
    files = sorted((folder / name).iterdir())
    assert [path.name for path in files] == ["full.sequences.arrow", "full.snapshot.arrow"]
    assert sum(path.stat().st_size for path in files) < limit


def test_no_file_names_a_path_of_the_machine_that_made_it(folder: Path) -> None:
    for path in sorted(folder.glob("smollm2-*/*.snapshot.arrow")):
        metadata = read_file(str(path)).metadata
        assert metadata["model"] == "SmolLM2-135M-Instruct"
        assert not any("/" in value for value in metadata.values())
