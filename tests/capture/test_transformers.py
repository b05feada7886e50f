"""SmolLM2-135M in transformers' continuous batching, recorded, dumped and audited."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers.generation.continuous_batching.cache import PagedAttentionCache

from examples.capture_smollm2 import make_manager, serve
from kvaudit.capture import Recorder, transformers_engine
from kvaudit.capture.transformers import record
from kvaudit.capture.transformers_cache import recorded_pools
from kvaudit.constants import FailReason
from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from kvaudit.errors import ConfigError, KvauditError
from kvaudit.formats.reader import read_file
from kvaudit.formats.sequences_writer import write_sequences
from tests.helpers.auditing import assert_all_covered, audited, bad_columns, bad_slots
from tests.helpers.rederived import assert_trace_agrees
from tests.helpers.smollm2 import smollm2
from tests.helpers.tiny_model import TINY_PROMPTS, TINY_TOKENS, sliding_model, tiny_model

STAMPED = (Family.INDEX, Family.RECORDS, Family.BYTES)
DUMP_STEP = 20
ENGINE = {"max_requests": 4, "max_batch_tokens": 256, "num_blocks": 96}


def prompts() -> dict[str, list[int]]:
    """Ten prompts of arbitrary tokens, five of them behind one prefix of three blocks."""
    generator = np.random.default_rng(11)
    prefix = generator.integers(1000, 40000, 48).tolist()
    texts = [generator.integers(1000, 40000, 50 + 9 * i).tolist() for i in range(10)]
    return {f"r{i}": (prefix if i % 2 else []) + text for i, text in enumerate(texts)}


NEW_TOKENS = {f"r{i}": 8 + 3 * i for i in range(10)}


@dataclass
class Capture:
    """One recorded run: its dumps at a step in the middle, what ran in each step, its texts."""

    folder: Path
    texts: dict[str, list[int]] = field(default_factory=dict)
    live: list[frozenset[str]] = field(default_factory=list)
    num_stamped: int = 0
    flipped_slot: int = -1


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    run = Capture(folder=tmp_path_factory.mktemp("capture"))

    def on_step(recorder: Recorder) -> None:
        run.live.append(recorder.live_requests)
        if recorder.step != DUMP_STEP:
            return
        recorder.dump(run.folder / "running")
        sequences = read_file(str(run.folder / "running" / "full.sequences.arrow"))
        run.flipped_slot = int(sequences.slots_of(0)[30])
        (pool,) = recorded_pools(manager.batch_processor.cache)
        page, offset = divmod(run.flipped_slot, pool.page_size)
        value = pool.kv[17].view(torch.int16)[page, 1, offset, 2, 5]
        value ^= 1 << 3
        recorder.dump(run.folder / "flipped")
        recorder.dump(run.folder / "flipped-digests", content="digests")
        value ^= 1 << 3

    with record(smollm2(), on_step=on_step) as recorder:
        manager = make_manager(smollm2(), **ENGINE)
        run.texts = serve(manager, prompts(), NEW_TOKENS)
        run.num_stamped = recorder.num_stamped
    recorder.dump(run.folder / "finished")
    return run


def test_the_text_is_that_of_a_run_without_capture(capture: Capture) -> None:
    plain = serve(make_manager(smollm2(), **ENGINE), prompts(), NEW_TOKENS)
    assert capture.texts == plain
    assert {name: len(tokens) for name, tokens in plain.items()} == NEW_TOKENS


def test_requests_join_and_leave_while_over_a_thousand_slots_are_stamped(
    capture: Capture,
) -> None:
    assert capture.num_stamped >= 1000
    changes = list(pairwise(capture.live))
    assert sum(bool(later - earlier) for earlier, later in changes) >= 4
    assert sum(bool(earlier - later) for earlier, later in changes) >= 4


@pytest.mark.parametrize("moment", ["running", "finished"])
def test_a_capture_is_clean_and_fully_covered(capture: Capture, moment: str) -> None:
    report = audited(capture.folder / moment)
    assert report.verdict is Verdict.CLEAN, report.violations[:3]
    assert_all_covered(report, *STAMPED)


def test_every_request_is_in_a_dump_with_its_whole_text(capture: Capture) -> None:
    """Who finished before the first dump is in that one alone, if its slots were given away."""
    texts: dict[str, list[int]] = {}
    folders = [capture.folder / moment for moment in ("running", "finished")]
    for path in [path for folder in folders for path in folder.glob("*.sequences.arrow")]:
        sequences = read_file(str(path))
        for row, request_id in enumerate(sequences.request_ids):
            if sequences.states[row] == "finished":
                assert sequences.prompt_lens[row] == len(prompts()[request_id])
                texts[request_id] = sequences.tokens_of(row)[sequences.prompt_lens[row] :].tolist()
    assert texts == capture.texts


def test_the_last_sampled_token_of_a_running_request_raises_nothing(capture: Capture) -> None:
    sequences = read_file(str(capture.folder / "running" / "full.sequences.arrow"))
    running = [row for row, state in enumerate(sequences.states) if state == "running"]
    assert len(running) == 4
    for row in running:
        assert len(sequences.tokens_of(row)) == sequences.kv_lens[row] + 1
    assert audited(capture.folder / "running").verdict is Verdict.CLEAN


@pytest.mark.parametrize("folder", ["flipped", "flipped-digests"])
def test_one_flipped_bit_is_that_slot_and_column_alone(capture: Capture, folder: str) -> None:
    report = audited(capture.folder / folder)
    assert report.verdict is Verdict.VIOLATIONS
    assert bad_slots(report) == {capture.flipped_slot}
    assert bad_columns(report) == {"kv.v.17"}


def test_one_changed_token_is_one_row_of_verify_token(capture: Capture, tmp_path: Path) -> None:
    folder = capture.folder / "running"
    sequences = read_file(str(folder / "full.sequences.arrow"))
    tokens = sequences.tokens.copy()
    position = 60
    tokens[sequences.token_offsets[1] + position] += 1
    (tmp_path / "full.snapshot.arrow").symlink_to(folder / "full.snapshot.arrow")
    write_sequences(str(tmp_path / "full.sequences.arrow"), replace(sequences, tokens=tokens))
    report = audited(tmp_path / "full.snapshot.arrow")
    rows = [(row.slot, row.position, row.request_ids, row.reasons) for row in report.violations]
    expected = (
        int(sequences.slots_of(1)[position]),
        position,
        (sequences.request_ids[1],),
        FailReason.VERIFY_TOKEN_MISMATCH,
    )
    assert rows == [expected, expected]
    assert [row.tag.name for row in report.violations] == ["TAIL_K_FULL", "TAIL_V_FULL"]


def test_sliding_groups_have_slots_of_their_own(tmp_path: Path) -> None:
    model = sliding_model()
    plain = serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)

    def on_step(recorder: Recorder) -> None:
        recorder.dump(tmp_path / f"{recorder.step}")

    with record(model, on_step=on_step) as recorder:
        assert serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS) == plain
    assert recorder.step > 15
    for step in (1, 5, 12, recorder.step):
        report = audited(tmp_path / f"{step}")
        assert report.verdict is Verdict.CLEAN, (step, report.violations[:3])
        assert_all_covered(report, *STAMPED)
    full, swa = (
        read_file(str(tmp_path / "12" / f"{name}.snapshot.arrow")) for name in ("full", "swa")
    )
    assert (list(full.kv), full.window) == (["kv.k.0", "kv.v.0"], None)
    assert (list(swa.kv), swa.window) == (["kv.k.1", "kv.v.1", "kv.k.2", "kv.v.2"], 24)
    sequences = read_file(str(tmp_path / "5" / "swa.sequences.arrow"))
    assert max(sequences.start_positions) > 0


def test_forked_requests_are_followed_through_their_copied_blocks(tmp_path: Path) -> None:
    from transformers import ContinuousBatchingConfig, GenerationConfig

    model = tiny_model()
    configs = {
        "generation_config": GenerationConfig(
            do_sample=True, num_return_sequences=3, max_new_tokens=20, eos_token_id=-1
        ),
        "continuous_batching_config": ContinuousBatchingConfig(
            page_size=16, num_blocks=32, max_batch_tokens=64, max_requests_per_batch=8
        ),
    }

    def on_step(recorder: Recorder) -> None:
        if recorder.step == 12:
            recorder.dump(tmp_path / "dump")

    with record(model, on_step=on_step, trace=tmp_path / "trace"):
        outputs = model.generate_batch([list(range(40, 77))], **configs)
    assert len(outputs) == 3
    rederived, _ = assert_trace_agrees(tmp_path / "trace")
    assert rederived.events["copy"] == 2 * 16
    sequences = read_file(str(tmp_path / "dump" / "full.sequences.arrow"))
    assert sequences.num_sequences == 3
    report = audited(tmp_path / "dump")
    assert report.verdict is Verdict.CLEAN, report.violations[:3]
    assert report.coverage.families[Family.RECORDS].details["unstamped"] == 0


def test_warm_up_and_padding_are_no_part_of_a_recording(tmp_path: Path) -> None:
    model = tiny_model()
    plain = serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    with record(model) as recorder:
        manager = make_manager(model)
        manager.batch_processor = manager._create_batch_processor()
        # What CUDA graphs and compilation ask for: padded inputs, whose KV goes to the trash.
        manager.batch_processor.model_runner.pad_inputs = True
        manager.warmup()
        assert recorder.num_stamped == 0
        assert serve(manager, TINY_PROMPTS, TINY_TOKENS) == plain
    assert recorder.num_stamped > 0
    recorder.dump(tmp_path)
    report = audited(tmp_path)
    assert report.verdict is Verdict.CLEAN, report.violations[:3]
    assert_all_covered(report, *STAMPED)


def test_an_evicted_request_is_followed_through_its_second_prefill(tmp_path: Path) -> None:
    model = tiny_model()
    prompts = {"a": list(range(40, 70)), "b": list(range(90, 120))}
    new_tokens = {"a": 60, "b": 60}
    live = [frozenset[str]()]

    def on_step(recorder: Recorder) -> None:
        live.append(recorder.live_requests)

    with record(model, on_step=on_step, trace=tmp_path / "trace", digests_every=9) as recorder:
        outputs = serve(make_manager(model, num_blocks=8), prompts, new_tokens)
    assert {name: len(tokens) for name, tokens in outputs.items()} == new_tokens
    joins = [later - earlier for earlier, later in pairwise(live)]
    assert sum(map(len, joins)) > len(prompts)
    rederived, _ = assert_trace_agrees(tmp_path / "trace")
    assert rederived.events["free"] == sum(map(len, joins))
    recorder.dump(tmp_path / "dump")
    report = audited(tmp_path / "dump")
    assert report.verdict is Verdict.CLEAN, report.violations[:3]
    assert_all_covered(report, *STAMPED)


def test_a_cancelled_request_is_forgotten(tmp_path: Path) -> None:
    model = tiny_model()

    def on_step(recorder: Recorder) -> None:
        if recorder.step == 4:
            manager.cancel_request("b")

    with record(model, on_step=on_step) as recorder:
        manager = make_manager(model)
        for request_id, tokens in TINY_PROMPTS.items():
            manager.add_request(tokens, request_id=request_id, max_new_tokens=20)
        manager.start()
        manager.stop(block=True)
    assert not recorder.live_requests
    recorder.dump(tmp_path)
    assert audited(tmp_path).verdict is Verdict.CLEAN


def test_a_persistent_manager_is_recorded_in_its_second_session(tmp_path: Path) -> None:
    from transformers import ContinuousBatchingConfig, GenerationConfig

    model = tiny_model()
    session = {
        "generation_config": GenerationConfig(do_sample=False, max_new_tokens=6, eos_token_id=-1),
        "continuous_batching_config": ContinuousBatchingConfig(
            page_size=16, num_blocks=32, max_batch_tokens=64
        ),
        "persistent_manager": True,
    }
    model.generate_batch([[5, 6, 7]], **session)
    with record(model) as recorder:
        model.generate_batch([[5, 6, 7], [8, 9]], **session)
    model.destroy_cached_continuous_batching_manager()
    snapshots = recorder.dump(tmp_path)[::2]
    assert [read_file(str(path)).num_rows for path in snapshots] == [3 + 5, 2 + 5]
    assert audited(tmp_path).verdict is Verdict.CLEAN


@pytest.mark.parametrize(
    ("setting", "value"), [("use_async_batching", True), ("cpu_offload_space", 0.001)]
)
def test_what_cannot_be_followed_is_refused_before_a_request_is_served(
    setting: str, value: object
) -> None:
    from transformers import ContinuousBatchingConfig, GenerationConfig

    model = tiny_model()
    config = ContinuousBatchingConfig(page_size=16, num_blocks=8, max_batch_tokens=32)
    setattr(config, setting, value)
    generation_config = GenerationConfig(max_new_tokens=4, eos_token_id=-1)
    with record(model), pytest.raises(ConfigError, match=f"^{setting}: ") as refused:
        model.generate_batch(
            [[5, 6, 7]], generation_config=generation_config, continuous_batching_config=config
        )
    assert refused.value.hint


def test_a_fault_of_the_recording_is_raised_where_the_block_ends() -> None:
    model = tiny_model()

    def on_step(recorder: Recorder) -> None:
        raise RuntimeError(f"no room at step {recorder.step}")

    outputs: dict[str, list[int]] = {}
    with pytest.raises(KvauditError, match="step 1") as failed, record(model, on_step=on_step):
        outputs = serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    assert isinstance(failed.value.__cause__, RuntimeError)
    assert failed.value.hint
    assert {name: len(tokens) for name, tokens in outputs.items()} == TINY_TOKENS


def _misread(_future: object) -> None:
    raise AttributeError("no query_length")


@pytest.mark.parametrize("change", ["inputs", "methods"])
def test_an_engine_that_is_not_as_it_was_serves_all_the_same(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    model = tiny_model()
    outputs: dict[str, list[int]] = {}
    if change == "inputs":
        monkeypatch.setattr(transformers_engine, "_inputs_of", _misread)
    else:
        monkeypatch.delattr(PagedAttentionCache, "perform_cache_copy")
    with pytest.raises(KvauditError) as failed, record(model):
        outputs = serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    assert isinstance(failed.value.__cause__, AttributeError)
    assert {name: len(tokens) for name, tokens in outputs.items()} == TINY_TOKENS


def test_two_recordings_of_one_model_may_end_in_any_order(tmp_path: Path) -> None:
    model = tiny_model()
    first, second = record(model), record(model)
    recorders = [first.__enter__(), second.__enter__()]
    serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    stamped = [recorder.num_stamped for recorder in recorders]
    assert stamped[0] == stamped[1] > 0
    serve(make_manager(model), TINY_PROMPTS, TINY_TOKENS)
    assert [recorder.num_stamped for recorder in recorders] == stamped
    for number, recorder in enumerate(recorders):
        recorder.dump(tmp_path / f"{number}")
        assert audited(tmp_path / f"{number}").verdict is Verdict.CLEAN


def test_the_model_is_left_as_it_was() -> None:
    model = tiny_model()
    before = set(vars(model))
    with record(model):
        assert set(vars(model)) - before == {"init_continuous_batching"}
    assert set(vars(model)) == before
