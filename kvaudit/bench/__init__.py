"""Workloads and measurement: proof first, on the very input that is then timed."""
