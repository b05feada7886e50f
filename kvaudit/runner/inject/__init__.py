"""Faults, put into copies of pools: `kvaudit inject` and the self-test of `kvaudit doctor`."""

from __future__ import annotations

from kvaudit.runner.inject.run import FAULT_CLASSES, FaultClass, Injection, fault_of, inject

__all__ = ["FAULT_CLASSES", "FaultClass", "Injection", "fault_of", "inject"]
