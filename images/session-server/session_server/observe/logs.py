"""Structured logs: one JSON object per line on stdout, with session and request ids.

Message content is never logged above debug level; the ids in a line are enough to find the record itself.
"""

from __future__ import annotations

import logging
import sys

import orjson
import structlog

from session_server.settings import LogLevel

_LEVELS = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}


def configure(level: LogLevel, instance_id: str) -> None:
    """Send this package's and uvicorn's logs to stdout as JSON lines, each with `instance_id`."""

    def name_instance(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["instance"] = instance_id
        return event

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_instance,
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(serializer=_dumps)],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.BytesLoggerFactory(file=sys.stdout.buffer),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(_LEVELS[level])


def _dumps(value: object, default: object = None, **_options: object) -> bytes:
    return orjson.dumps(value, default=repr)


def logger() -> structlog.typing.FilteringBoundLogger:
    """The package's logger."""
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return bound
