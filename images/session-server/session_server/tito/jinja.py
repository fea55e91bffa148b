"""Chat templates in Jinja: compiled once, rendered with what the client sent.

The environment is the one that `transformers` renders chat templates with (sandboxed, trimmed blocks, loop controls,
its `tojson`); a test renders every bundled template through both. Tools reach the template unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.nodes
import jinja2.parser
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from session_server.core.turn import Message
from session_server.tito.arguments import with_object_arguments


class RenderError(Exception):
    """The template refused the messages or could not handle their shape."""


class _Generation(Extension):
    """`{% generation %}` marks what was sampled; for rendering its body counts, the mark does not."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it as a plain set

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        """The body in a scope of its own."""
        line = next(parser.stream).lineno
        return jinja2.nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox with a shorter way to the keys of messages, which templates read as `message.role`."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """As the sandbox: a dict has no attribute of that name, so it is a key."""
        if type(obj) is dict and attribute not in _DICT_ATTRIBUTES:
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


_DICT_ATTRIBUTES = frozenset(dir(dict))


def environment() -> ImmutableSandboxedEnvironment:
    """The environment that chat templates are written for."""
    env = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = _strftime_now
    return env


class JinjaRenderer:
    """One compiled chat template. `special_tokens` are the names that templates may print, such as `bos_token`."""

    def __init__(self, template: str, special_tokens: Mapping[str, str]) -> None:
        self._template = environment().from_string(template)
        self._special_tokens = dict(special_tokens)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        kwargs: Mapping[str, Any],
    ) -> str:
        """Text of the conversation.

        Raises:
            RenderError: with the template's own words where it has some.
        """
        messages = with_object_arguments(messages)
        try:
            return self._render(messages, tools, add_generation_prompt, kwargs)
        except jinja2.TemplateError as error:
            if not tools:
                raise RenderError(f"chat template refused the messages: {error}") from error
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise RenderError(f"chat template failed: {type(error).__name__}: {error}") from error
        # some templates take functions without their {"type": "function"} wrapping
        functions = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in tools]
        try:
            return self._render(messages, functions, add_generation_prompt, kwargs)
        except (
            jinja2.TemplateError,
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise RenderError(f"chat template refused the messages: {error}") from error

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        kwargs: Mapping[str, Any],
    ) -> str:
        return self._template.render(
            {
                **self._special_tokens,
                **kwargs,
                "messages": messages,
                "tools": tools or None,
                "documents": None,
                "add_generation_prompt": add_generation_prompt,
            }
        )
