from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvaudit.kernels import cuda_module
from kvaudit.kernels.cuda_module import SIMULATED, launch, load_only, on_stream

LAUNCHERS = "hash", "fold", "verify", "write", "plan"


class RecordingKernel:
    """Stands in for a compiled kernel: notes how it was configured, called and loaded."""

    def __init__(self):
        self.configuration = None
        self.arguments = None
        self.loaded = None

    def __getitem__(self, configuration):
        self.configuration = configuration
        return self

    def __call__(self, *arguments):
        self.arguments = arguments

    typeof_pyval = staticmethod(type)

    def compile(self, signature):
        self.signature = signature
        return self

    def bind(self):
        self.loaded = self.signature


def _launched(num_items: int) -> RecordingKernel:
    recording = RecordingKernel()
    launch(recording, ("a", 1), num_items=num_items, block_threads=32, shared_bytes=256)
    return recording


def test_launch_hands_arguments_and_block_over():
    recording = _launched(num_items=1)
    assert recording.arguments == ("a", 1)
    assert recording.configuration[1:] == (32, 0, 256)


@pytest.mark.parametrize("num_items", [0, 1, 4097, 1 << 20, 1 << 40])
def test_launch_keeps_the_grid_in_bounds(num_items):
    num_blocks = _launched(num_items).configuration[0]
    assert cuda_module._MIN_BLOCKS <= num_blocks <= cuda_module._MAX_BLOCKS


def test_launch_gives_every_item_a_thread_while_the_grid_allows():
    num_items = cuda_module._MAX_BLOCKS * 32 - 1
    assert _launched(num_items).configuration[0] == cuda_module._MAX_BLOCKS


def test_launches_go_to_the_stream_of_their_own_context():
    with on_stream("outer"):
        with on_stream("inner"):
            assert _launched(1).configuration[2] == "inner"
        assert _launched(1).configuration[2] == "outer"
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(_launched, 1).result().configuration[2] == 0
    assert _launched(1).configuration[2] == 0


def test_an_error_gives_the_stream_back():
    with pytest.raises(RuntimeError, match="failed launch"), on_stream("side"):
        raise RuntimeError("failed launch")
    assert _launched(1).configuration[2] == 0


def test_a_kernel_that_is_only_loaded_is_not_launched():
    with load_only():
        recording = _launched(1)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(_launched, 1).result().arguments == ("a", 1)
    assert recording.configuration is None
    assert recording.loaded == (None if SIMULATED else (str, int))
    assert _launched(1).arguments == ("a", 1)


def test_importing_every_kernel_needs_no_driver():
    imports = "; ".join(f"import kvaudit.kernels.{op}.numba_cuda" for op in LAUNCHERS)
    # A driver that cannot be loaded, whatever this machine has.
    environment = {"NUMBA_CUDA_DRIVER": "/nonexistent/libcuda.so", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", imports],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
