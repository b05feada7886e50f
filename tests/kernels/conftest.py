"""A property test draws fewer examples in the simulator, where a thread is a Python thread."""

from __future__ import annotations

from hypothesis import settings

from tests.kernels.implementations import IN_SIMULATOR

# The first example of a test may compile a kernel: no deadline.
settings.register_profile("kernels", deadline=None)
settings.register_profile("simulator", max_examples=6, deadline=None)
settings.load_profile("simulator" if IN_SIMULATOR else "kernels")
