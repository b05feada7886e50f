"""Offline auditor of the KV caches of LLM inference engines.

Importing the package loads no heavy dependency: the public functions live in `kvaudit.api`.
"""

from __future__ import annotations

__version__ = "0.1.0"
