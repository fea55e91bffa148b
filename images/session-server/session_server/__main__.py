"""`python -m session_server`: read the settings, load the tokenizer, serve until SIGTERM.

Exit codes: 0 after a graceful end; 2 when the settings, the tokenizer directory or the template are wrong, with every
problem on stderr before anything was bound. What takes seconds to import is imported after the settings were checked.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from collections.abc import Sequence

from session_server import __version__
from session_server.settings import Settings, SettingsError, describe, load

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept. Agents pause between turns while their tools run, and a client that takes up a
connection just as the server closes it loses the turn; so clients (httpx: 5 s) and balancers (often 60 s) must
be the ones that close."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m session_server",
        description="Session server in front of SGLang: token in, token out. It takes no arguments.",
        epilog=describe(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.parse_args(argv)
    try:
        return serve(load())
    except (SettingsError, ValueError) as error:
        print(f"session server cannot start:\n{error}", file=sys.stderr)
        return 2


def serve(settings: Settings) -> int:
    """Load what `settings` name and serve until told to stop.

    Raises:
        ValueError: the settings name something that does not exist or cannot be used.
    """
    # one text at a time is encoded, on the event loop's thread
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    import uvicorn

    from session_server.app.build import build
    from session_server.app.protocol import BoundedHead
    from session_server.observe import logs
    from session_server.tito.loading import load_codec

    app = build(settings, load_codec(settings))
    logs.configure(settings.log_level, settings.instance_id)
    # what was loaded stays; the collector need not walk through it, nor look after every few hundred parsed messages
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    # until the server listens to signals itself, and when it raises again the one that ended it in order
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=BoundedHead,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_seconds)),
        )
    ).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
