"""Why records do not make samples."""

from __future__ import annotations


class SampleError(Exception):
    """The records of a session do not make a sample, or a hook failed; the message says where."""
