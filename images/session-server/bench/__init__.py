"""What the session server costs per turn: a load, and an engine that does no work, so that only the server is left.

Run as `python -m bench` from images/session-server. Everything is measured in one run on one machine, because only the
ratios of such figures travel.
"""
