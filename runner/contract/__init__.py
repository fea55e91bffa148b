"""Contracts with code that is not ours: what a session server reads off its args, how SGLang converts messages.

Checked without starting a server, so that a field or a behaviour that changed is named before any container runs.
"""
