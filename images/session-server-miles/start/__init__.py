"""Starts the published session server of miles with args from the one constructor, and adds what a lease asks for.

The server's own code is not changed. Two things are put beside it: `GET /ready`, which it does not have and which
proves that the engine generates; and an answer for the service `session-v2`, which every lease starts and which this
release, older than the tree, cannot be.
"""
