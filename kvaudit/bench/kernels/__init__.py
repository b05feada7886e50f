"""Kernels that exist to be compared with: bandwidth, and launches in an engine's own shape."""
