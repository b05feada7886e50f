from __future__ import annotations

import json

from kvaudit.constants import FailReason
from kvaudit.core.log_report import LoggedCause, LoggedSlot, LogNote, LogReport


def test_a_report_is_one_json_document_with_hashes_as_labels() -> None:
    root = LoggedSlot(
        pool_kind="FULL",
        slot=4,
        position=1,
        token=22,
        chain_hash=0xAB,
        reasons=FailReason.VERIFY_CHAIN_HASH_MISMATCH,
        expected_hashes=[1],
        tags=["HEAD_K_FULL"],
        num_rows=2,
    )
    cause = LoggedCause(roots=[root], says="a", candidates=["KV101"], open="b", settled_by="c")
    report = LogReport(
        num_rows=2,
        num_ungrouped=0,
        causes=[cause],
        not_checked=[LogNote(rule="KV002", text="one step")],
        notes=[],
        lines={"statistics": 1},
        next_steps=["kvaudit verify DUMP"],
    )
    document = json.loads(json.dumps(report.to_dict()))
    assert document["schema"] == "kvaudit.log/1"
    assert document["causes"][0]["roots"][0]["chain_hash"] == "0x00000000000000ab"
    assert document["causes"][0]["roots"][0]["expected_chain_hashes"] == ["0x0000000000000001"]
    assert document["causes"][0]["roots"][0]["reasons"] == ["verify_chain_hash"]
    assert document["not_checked"] == [{"rule": "KV002", "text": "one step"}]
