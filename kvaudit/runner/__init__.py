"""The audit itself: core objects in, a Report out. No path, no screen."""
