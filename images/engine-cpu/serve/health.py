"""Is the engine ready? It is when it has just generated a token, and not earlier.

SGLang's /health_generate runs a one-token generation through the scheduler. Asked by a container health check every
few seconds, so this module imports neither SGLang nor torch nor pydantic and takes some tens of milliseconds. It says
nothing about whether the published port is reachable: who waits for the engine asks it over the network.
"""

import http.client
import os

# seconds; below the time-out of the container's health check, so that the reason is still printed
TIMEOUT = 8.0


def health(port: int, host: str = "127.0.0.1", timeout: float = TIMEOUT) -> str | None:
    """Ask for one generated token.

    Returns:
        None when the engine is ready, else the reason why it is not.
    """
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", "/health_generate")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"no answer on port {port}: {type(error).__name__}: {error}"
    finally:
        connection.close()
    return None if status == http.client.OK else f"the engine answers {status}, it is still loading or hangs"


def main() -> int:
    """Exit status for a container health check: 0 ready, 1 not ready, with the reason on standard output."""
    reason = health(int(os.environ.get("PORT") or 30000))
    print(reason or "ready")
    return 1 if reason else 0
