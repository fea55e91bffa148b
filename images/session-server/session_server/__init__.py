"""A session server in front of SGLang: token in, token out.

It owns the token ids of every conversation. What the engine sampled is stored and sent again, never re-rendered; only
what the client appends is rendered, and joined to the stored ids where the family's template would have joined it.

Layers, each importing only those to its left (a test holds it):
`settings` < `observe` < `core` (state machines, no HTTP) < `tito` (tokens) < `engine` (the client) < `wire` (formats)
< `samples` < `app` (HTTP). `tito.families` is a table that `settings` reads, too.
"""

from __future__ import annotations

__version__ = "0.1.0"
