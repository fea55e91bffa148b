"""The labels by which our containers, networks and volumes are found again. compose.yaml sets them."""

from __future__ import annotations

RUN = "io.github.tito-e2e.run"
"""Run id; everything of a run carries it."""

FAMILY = "io.github.tito-e2e.family"
"""Family of the lease."""

LOCK = "io.github.tito-e2e.lock"
"""Path of the lock file that the owning process holds for as long as it lives, on the host named in `HOST`."""

HOST = "io.github.tito-e2e.host"
"""Host name of the owning process: the lock says nothing on another machine that shares the Docker engine."""

KEEP = "io.github.tito-e2e.keep"
"""`1`: meant to outlive its process (`make up`, KEEP=1); only an explicit sweep of it removes it."""

PROJECT = "com.docker.compose.project"
SERVICE = "com.docker.compose.service"
NUMBER = "com.docker.compose.container-number"
"""Which of a service's containers it is, from 1."""
