"""A canary that runs beside an engine, or is stepped over recorded steps (DESIGN.md 7).

The engine allocates a `CanaryDeviceState` and a `CanaryPool` for each pool, and steps a
`CanaryManager`; docs/live.md shows it. All of it works on torch tensors of one device, CUDA or CPU.
"""

from __future__ import annotations

from kvaudit.runner.live.config import CanaryConfig, CanaryMode
from kvaudit.runner.live.delayed_handler import DelayedDeviceHostHandler, DeliveredCopy
from kvaudit.runner.live.device_state import CanaryDeviceState, CounterSample
from kvaudit.runner.live.endpoint import CanaryEndpoint
from kvaudit.runner.live.flight_recorder import DumpCause, DumpRequest, FlightRecorder
from kvaudit.runner.live.health_checker import KernelRunCounterHealthChecker
from kvaudit.runner.live.launches import REFERENCE_LAUNCHES, CanaryLaunches, device_launches
from kvaudit.runner.live.manager import STEP_ORDER, CanaryManager
from kvaudit.runner.live.pool import CanaryPool, PoolGeometry
from kvaudit.runner.live.stats_logger import PeriodicCanaryStatsLogger
from kvaudit.runner.live.step_inputs import CanaryBatch, PlannedStep, WrittenEntries
from kvaudit.runner.live.sweep_orchestrator import CachedPrefix, SweepOrchestrator
from kvaudit.runner.live.violation_manager import ViolationBatch, ViolationManager

__all__ = [
    "REFERENCE_LAUNCHES",
    "STEP_ORDER",
    "CachedPrefix",
    "CanaryBatch",
    "CanaryConfig",
    "CanaryDeviceState",
    "CanaryEndpoint",
    "CanaryLaunches",
    "CanaryManager",
    "CanaryMode",
    "CanaryPool",
    "CounterSample",
    "DelayedDeviceHostHandler",
    "DeliveredCopy",
    "DumpCause",
    "DumpRequest",
    "FlightRecorder",
    "KernelRunCounterHealthChecker",
    "PeriodicCanaryStatsLogger",
    "PlannedStep",
    "PoolGeometry",
    "SweepOrchestrator",
    "ViolationBatch",
    "ViolationManager",
    "WrittenEntries",
    "device_launches",
]
