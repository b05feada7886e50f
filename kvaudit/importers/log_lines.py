"""The lines of a canary that are no violation, by their own words without white space."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from kvaudit.core.engine_log import LogLineKind

_NUMBER: Final = r"\d{1,19}"
_PATTERNS: Final[Mapping[LogLineKind, re.Pattern[str]]] = {
    LogLineKind.STATISTICS: re.compile(
        rf"\[canary\]step=(?P<step>{_NUMBER})protected_tokens=(?P<protected_tokens>{_NUMBER})"
        rf"sweep_passes=(?P<sweep_passes>{_NUMBER})violations=(?P<violations>{_NUMBER})"
        rf"launch_tags_active=(?P<active_tags>{_NUMBER})/(?P<tags>{_NUMBER})"
    ),
    LogLineKind.SWEEPS: re.compile(
        rf"\[canary\]sweepsucceeded(?P<sweeps>{_NUMBER})times\(last_step=(?P<step>{_NUMBER})\)"
    ),
    LogLineKind.NOT_VERIFIED: re.compile(
        r"kv-canary:per-forwardverifyskippedthisstepduetooverflow"
        rf"\(total=(?P<total>{_NUMBER}),capacity=(?P<capacity>{_NUMBER})\)"
    ),
    LogLineKind.STALLED: re.compile(
        r"kv-canary:kernel_run_counterdidnotincreasesincepreviouscheckfor"
        rf"tags=\[(?P<tags>[^\]]{{0,400}})\]atstep=(?P<step>{_NUMBER})"
    ),
    LogLineKind.REFUSED: re.compile(
        r"kv-canary:noattacherregisteredforpoolclass(?P<pool_class>[^;]{1,200});"
        r"supported:\[(?P<supported>[^\]]{0,2000})\]"
    ),
    LogLineKind.INSTALLED: re.compile(
        r"install_canary:disaggregation_mode=(?P<disaggregation_mode>[^=]{1,40})config="
        rf"(?P<config>(?:(?!install_canary:).){{0,8000}})speculative_num_steps=(?P<speculative_num_steps>-?{_NUMBER})"
    ),
    LogLineKind.ATTACHED: re.compile(
        r"attach_canary_buffers:pool=(?P<pool>[^=]{1,400})attacher=(?P<attacher>[^=]{1,400})"
        rf"read_bytes=(?P<read_bytes>{_NUMBER})n_groups=(?P<n_groups>{_NUMBER})"
        rf"kinds=\[(?P<kinds>[^\]]{{0,400}})\]"
        rf"kv_token_id_vs_position_offset=(?P<token_offset>-?{_NUMBER})"
    ),
    LogLineKind.SWA_DIVERGENCE: re.compile(
        r"kv_canary_?swa_divergence[=:](?P<document>\{[^{}]{0,2000}\})"
    ),
}
# No line of a canary is longer without its white space.
_MAX_CHARS: Final = 1 << 14
_RING_CAPACITY: Final = re.compile(rf"ring_capacity=(?P<capacity>{_NUMBER})")


def line_facts(squeezed: str) -> tuple[LogLineKind, dict[str, int | str]] | None:
    """Which line a text without white space is, and what it says; None while it is incomplete."""
    for kind, pattern in _PATTERNS.items():
        if found := pattern.search(squeezed, 0, _MAX_CHARS):
            return kind, _facts(kind, found.groupdict())
    return None


def _facts(kind: LogLineKind, groups: Mapping[str, str]) -> dict[str, int | str]:
    if kind is LogLineKind.SWA_DIVERGENCE:
        return _document(groups["document"])
    facts = {name: _value(text) for name, text in groups.items()}
    if kind is LogLineKind.INSTALLED and (ring := _RING_CAPACITY.search(groups["config"])):
        facts["ring_capacity"] = int(ring["capacity"])
    return facts


def _document(text: str) -> dict[str, int | str]:
    """The whole numbers of a JSON document; none of one that is damaged."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {name: value for name, value in document.items() if type(value) is int}


def _value(text: str) -> int | str:
    return int(text) if re.fullmatch(rf"-?{_NUMBER}", text) else text
