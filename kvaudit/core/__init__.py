"""The meaning as data: numpy only; no screen, no file, no device."""
