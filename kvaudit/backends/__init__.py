"""Backends behind the port of `core.backend`, and the torch launch API."""
