"""From a request to the server's parts."""

from __future__ import annotations

from fastapi import Request

from session_server.app.service import Service


def service_of(request: Request) -> Service:
    """The service that `app.build` made for this application."""
    service: Service = request.app.state.service
    return service
