"""The example that times launches runs, and times what it says."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from examples import time_prepared_launch as example
from kvaudit.backends import launch
from tests.helpers.command_line import python

SCRIPT = Path(__file__).parents[2] / "examples" / "time_prepared_launch.py"


def test_the_example_names_every_mode_and_number_of_sources() -> None:
    run = python(SCRIPT, "--sources", "1", "2")
    assert run.returncode == 0, run.stderr
    pattern = r"^(\w+), (\d) sources: one-shot [\d.,]+ us, prepared"
    lines = re.findall(pattern, run.stdout, re.MULTILINE)
    assert lines == [(mode, number) for mode in ("NONE", "PARTIAL", "ALL") for number in "12"]


def test_what_it_times_checks_every_entry_and_finds_all_right() -> None:
    device = torch.device("cpu")
    context = example.context_of(2, launch.RealKvHashMode.ALL, device)
    plan = example.plan_of(device)
    for num_violations in (0, 2):
        launch.launch_canary_verify_kernel(
            context=context, plan=plan, check_verify_expected_token=False
        )
        assert context.violation_write_index.item() == num_violations
        # The position of a record, which the next one's chain hash covers.
        context.canary_buf[example.PAGE_SIZE + 5, 8] = 1
    assert context.slot_run_counter.item() == 2 * example.NUM_ENTRIES
