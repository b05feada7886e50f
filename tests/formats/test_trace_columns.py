"""The columns of plans and traces."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvaudit.constants import LaunchTag
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.errors import ValuesInvalid
from kvaudit.formats import schema
from kvaudit.formats.trace_columns import (
    TRACE_SCHEMA,
    num_values,
    tags_array,
    trace_arrays,
    verify_arrays,
)
from tests.helpers.arrow_files import plan, recorded_steps


def test_a_trace_has_every_column_of_a_plan_but_the_tag_of_one_launch():
    wanted = {*schema.PLAN_REQUIRED, *schema.PLAN_OPTIONAL, *schema.TRACE_COLUMNS} - {"tag"}
    assert set(TRACE_SCHEMA.names) == wanted
    assert [field.name for field in TRACE_SCHEMA if not field.nullable] == ["step"]


def test_columns_stand_in_the_order_of_the_schema_with_its_types():
    arrays = trace_arrays(recorded_steps(), first_row=0)
    batch = pa.record_batch(arrays, schema=TRACE_SCHEMA)
    batch.validate(full=True)
    assert batch.num_rows == 4
    assert [array.type for array in arrays] == [field.type for field in TRACE_SCHEMA]


def test_a_step_of_nothing_is_null_in_all_but_its_number():
    arrays = trace_arrays([RecordedStep(step=3)], first_row=0)
    given = [
        name for name, array in zip(TRACE_SCHEMA.names, arrays, strict=True) if array[0].is_valid
    ]
    assert given == ["step"]


def test_a_launch_that_is_none_is_null_and_others_are_not():
    columns = verify_arrays([None, plan().launches[0]])
    assert columns.keys() == {*schema.VERIFY_COLUMNS, "verify_request_ids"}
    assert all(not column[0].is_valid and column[1].is_valid for column in columns.values())


def test_tags_are_written_by_name():
    tags = [None, (), (LaunchTag.HEAD_K_FULL, LaunchTag.SWEEP_V_SWA)]
    assert tags_array(tags).to_pylist() == [None, [], ["HEAD_K_FULL", "SWEEP_V_SWA"]]


def test_a_name_that_is_no_text_is_refused_with_the_row_of_the_file():
    launches = [*plan().launches]
    object.__setattr__(launches[0], "request_ids", ["a", 5])
    with pytest.raises(ValuesInvalid) as caught:
        verify_arrays(launches, first_row=40)
    assert (caught.value.column, caught.value.row) == ("verify_request_ids", 40)


def test_the_size_of_a_step_counts_its_long_lists():
    whole, nothing, *_ = recorded_steps()
    assert num_values(nothing) == 0
    # Edits, copies, a batch of two, three written tokens, three verify entries.
    assert num_values(whole) == 4 + 2 + 3 * 2 + 3 * 3 + 4 * 3
