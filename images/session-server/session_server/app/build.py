"""Puts the application together: parts, routes, lifespan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from fastapi.routing import APIRoute

from session_server import __version__
from session_server.app import chat, errors, health, messages, metrics, passthrough, samples, sessions
from session_server.app.direct import Direct
from session_server.app.middleware import RequestContext
from session_server.app.service import Service
from session_server.core import matchers
from session_server.core.linear import Line
from session_server.core.session import State
from session_server.core.store import Store
from session_server.core.tree import Tree
from session_server.engine.client import EngineClient, Transport
from session_server.engine.pool import Pool
from session_server.observe.logs import logger
from session_server.observe.metrics import Metrics
from session_server.samples.assemble import Assembler
from session_server.samples.leaves import Hooks
from session_server.samples.replay import ReplayShape
from session_server.settings import CoreVersion, Settings
from session_server.tito.codec import Codec
from session_server.tito.verdicts import Verdicts
from session_server.wire.anthropic.dialect import Anthropic
from session_server.wire.openai import EngineOptions, OpenAI
from session_server.wire.replay import Replays


def build(settings: Settings, codec: Codec, *, transport: Transport | None = None) -> FastAPI:
    """The application. `transport` replaces the network towards the engine.

    Raises:
        ValueError: a setting names a function that does not exist.
    """
    service = _service(settings, codec, transport)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(_sweep(service.store, settings.session_idle_seconds))
        try:
            yield
        finally:
            sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await sweeper
            await service.engine.aclose()

    app = FastAPI(
        title="Session server",
        version=__version__,
        description="Token in, token out sessions in front of SGLang.",
        lifespan=lifespan,
    )
    routers = [module.router for module in (chat, messages, health, metrics, sessions, samples, passthrough)]
    app.state.service = service
    app.state.documented = [
        route
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and route.include_in_schema
    ]
    errors.install(app)
    for router in routers:
        app.include_router(router)
    # the last one added is the first one to see a request
    app.add_middleware(
        Direct,
        endpoints={"v1/chat/completions": chat.chat_completions, "v1/messages": messages.create_message},
    )
    app.add_middleware(RequestContext)
    return app


def _service(settings: Settings, codec: Codec, transport: Transport | None) -> Service:
    def make_state() -> State:
        if settings.core_version is CoreVersion.V1:
            return Line(append_roles=codec.family.append_roles, max_turns=settings.max_nodes_per_session)
        return Tree(append_roles=codec.family.append_roles, max_nodes=settings.max_nodes_per_session)

    verdicts = Verdicts(codec)
    store = Store(
        make_state,
        exclusive=settings.core_version is CoreVersion.V1,
        max_sessions=settings.max_sessions,
        idle_seconds=settings.session_idle_seconds,
    )
    anthropic = Anthropic(inline_system=codec.inline_system)
    return Service(
        settings=settings,
        codec=codec,
        store=store,
        metrics=Metrics(sessions=lambda: len(store)),
        engine=EngineClient(
            transport
            or Pool(
                str(settings.engine_url),
                connect_timeout_seconds=settings.engine_connect_timeout_seconds,
                max_connections=settings.engine_max_connections,
            ),
            timeout_seconds=settings.engine_timeout_seconds,
            api_key=None if settings.engine_api_key is None else settings.engine_api_key.get_secret_value(),
        ),
        matcher=matchers.load(settings.matcher),
        verdicts=verdicts,
        anthropic=anthropic,
        chat_replays=Replays(OpenAI()),
        message_replays=Replays(anthropic),
        assembler=Assembler(
            codec=codec,
            verdicts=verdicts,
            hooks=Hooks.load(settings.sample_picker, settings.sample_postprocessor),
            replay=ReplayShape(layers=codec.vocabulary.layers, from_checkpoint=settings.routed_experts_from_checkpoint),
            with_messages=settings.sample_messages,
        ),
        options=EngineOptions(
            strict_tools=settings.strict_tools,
            lora_path=settings.lora_path,
            routed_experts=settings.routed_experts,
            routed_experts_from_checkpoint=settings.routed_experts_from_checkpoint,
            indexer_topk=settings.indexer_topk,
        ),
    )


async def _sweep(store: Store, idle_seconds: float) -> None:
    """Remove expired sessions now and then; a session also counts as gone the moment it has expired."""
    while True:
        await asyncio.sleep(min(60.0, max(1.0, idle_seconds / 4)))
        removed = store.expire()
        if removed:
            logger().info("sessions expired", removed=removed, alive=len(store))
