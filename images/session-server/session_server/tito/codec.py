"""Token in, token out for one family: full prompts, continuations, joints and the comparison.

A continuation renders only what the client appended, once and whole, behind a short invented history that carries the
stored tool calls; what comes before the tail in that text is cut off, the rest is encoded and joined to the stored ids.
Stored ids are never rendered again: what was sampled stays what was sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson

from session_server.core.errors import InvalidError, TokenizationError
from session_server.core.tokens import Snapshot, TokenIds, pack
from session_server.core.turn import Message, Position
from session_server.tito.families import Encoder, Family
from session_server.tito.jinja import RenderError
from session_server.tito.package import Comparison
from session_server.tito.vocabulary import Vocabulary

Tools = Sequence[Mapping[str, Any]]

_INVENTED_SYSTEM: Message = {"role": "system", "content": "dummy system"}
_SENTINEL = "inline-system-sentinel"
_PROBE_TOOLS: Tools = (
    {"type": "function", "function": {"name": "probe", "description": "probe", "parameters": {"type": "object"}}},
)
_PROBE_CALLS: list[Message] = [
    {"id": "call00000", "type": "function", "function": {"name": "probe", "arguments": {}}},
]
_REMEMBERED = 256
"""Rendered invented histories that are kept; each takes a few hundred bytes."""


class Renderer(Protocol):
    """Messages to text, as a chat template does it."""

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Tools | None,
        add_generation_prompt: bool,
        kwargs: Mapping[str, Any],
    ) -> str:
        """Text of the conversation; raises RenderError."""
        ...


class Codec:
    """The family's rules bound to one checkpoint's vocabulary."""

    def __init__(
        self, family: Family, vocabulary: Vocabulary, renderer: Renderer, *, default_kwargs: Mapping[str, Any]
    ) -> None:
        self.family = family
        self.vocabulary = vocabulary
        self._renderer = renderer
        self._default_kwargs = dict(default_kwargs)
        self._check_fixed(default_kwargs)
        self._newline = vocabulary.token_id("\n") if family.newline_after is not None else None
        self._newline_after = None if family.newline_after is None else vocabulary.token_id(family.newline_after)
        self._drop_last = frozenset(vocabulary.token_id(token) for token in family.drop_last)
        self._inline_system = family.encoder is Encoder.JINJA and self._shows_inline_system()
        self._rendered_before: dict[bytes, str] = {}
        self._tail_shows_tools = self._probe_tools()
        self._comparison = Comparison(
            vocabulary,
            assistant_start=family.assistant_start,
            boundary_ids=self._boundary_ids(),
            trailing_ids=[vocabulary.token_id(token) for token in family.trailing],
        )

    def _shows_inline_system(self) -> bool:
        messages: list[Message] = [
            {"role": "system", "content": "first"},
            {"role": "user", "content": "question"},
            {"role": "system", "content": _SENTINEL},
            {"role": "user", "content": "question"},
        ]
        try:
            text = self._renderer.render(messages, tools=None, add_generation_prompt=True, kwargs=self.kwargs({}))
        except RenderError:
            return False
        return _SENTINEL in text

    def _boundary_ids(self) -> frozenset[int]:
        if self.family.boundaries is not None:
            return frozenset(self.vocabulary.token_id(token) for token in self.family.boundaries)
        inner = {self.vocabulary.token_id(token) for token in self.family.not_boundaries}
        return self.vocabulary.special_ids - inner

    def _check_fixed(self, kwargs: Mapping[str, Any]) -> None:
        for key, value in kwargs.items():
            if key in self.family.fixed_kwargs and value != self.family.fixed_kwargs[key]:
                raise InvalidError(
                    f"chat template kwarg {key}={value!r} conflicts with the value registered for "
                    f"{self.family.class_name}: {self.family.fixed_kwargs[key]!r}"
                )

    @property
    def inline_system(self) -> bool:
        """Whether a system message in the middle of a conversation appears in the prompt."""
        return self._inline_system

    def kwargs(self, requested: Mapping[str, Any]) -> dict[str, Any]:
        """Template arguments in effect: the request's over the server's, the family's fixed ones in any case.

        Raises:
            InvalidError: a requested value conflicts with a fixed one.
        """
        self._check_fixed(requested)
        defaults = self._default_kwargs
        if any(name in requested for name in self.family.alternatives):
            defaults = {key: value for key, value in defaults.items() if key not in self.family.alternatives}
        return {**defaults, **requested, **self.family.fixed_kwargs}

    def prompt(self, position: Position, *, tools: Tools | None, kwargs: Mapping[str, Any]) -> Snapshot:
        """Ids to send for a request that attaches at `position`, `[n_prompt]`.

        Raises:
            InvalidError: the template refuses the messages, or their text holds a token outside the model's vocabulary.
            TokenizationError: the template is not append-only, so that no continuation exists.
        """
        try:
            if position.parent is None:
                text = self._renderer.render(position.tail, tools=tools, add_generation_prompt=True, kwargs=kwargs)
                return Snapshot(self._checked(self.vocabulary.encode(text)))
            text = self._tail_text(position, tools=tools, kwargs=kwargs)
        except RenderError as error:
            raise InvalidError(str(error)) from error
        joined = self.join(position.parent.tokens)
        return joined.extended(self._checked(self.vocabulary.encode_behind(joined.last, text)))

    def join(self, stored: Snapshot) -> Snapshot:
        """`stored` as the family's template would leave it before the next message."""
        last = stored.last
        if last in self._drop_last:
            return stored.continued(pack(), dropped=1)
        joint = pack()
        if self._newline is not None and last is not None and last == self._newline_after:
            joint.append(self._newline)
        return stored.continued(joint)

    def _tail_text(self, position: Position, *, tools: Tools | None, kwargs: Mapping[str, Any]) -> str:
        stored = position.parent.assistant if position.parent is not None else {}
        invented = self._history(position, stored)
        shown = tools if self._tail_shows_tools else None
        before = self._before(invented, tools=shown, kwargs=kwargs)
        whole = self._renderer.render(
            [*invented, *position.tail], tools=shown, add_generation_prompt=True, kwargs=kwargs
        )
        if not whole.startswith(before):
            # a template may print today's date: what is remembered can be yesterday's
            before = self._before(invented, tools=shown, kwargs=kwargs, anew=True)
        if not whole.startswith(before):
            roles = [message["role"] for message in position.tail]
            raise TokenizationError(
                f"the chat template of {self.family.name} is not append-only for a tail of {roles}: "
                "it changes what comes before"
            )
        return whole[len(before) :]

    def _history(self, position: Position, stored: Message) -> Sequence[Message]:
        """What the tail is rendered behind. V4 sorts tool results by calls further back, so it needs the real one."""
        if self.family.encoder is Encoder.DEEPSEEK_V4 and position.parent is not None:
            return position.parent.messages()
        return (_INVENTED_SYSTEM, _invented_assistant(stored))

    def _before(
        self, invented: Sequence[Message], *, tools: Tools | None, kwargs: Mapping[str, Any], anew: bool = False
    ) -> str:
        """Render of the history before the tail; an invented one is remembered by what it depends on."""
        if self.family.encoder is Encoder.DEEPSEEK_V4:
            return self._renderer.render(invented, tools=tools, add_generation_prompt=False, kwargs=kwargs)
        try:
            key = orjson.dumps([invented[-1].get("tool_calls"), tools, kwargs])
        except orjson.JSONEncodeError as error:
            raise InvalidError(f"template arguments or tools cannot be rendered: {error}") from error
        text = None if anew else self._rendered_before.get(key)
        if text is None:
            text = self._renderer.render(invented, tools=tools, add_generation_prompt=False, kwargs=kwargs)
            if len(self._rendered_before) >= _REMEMBERED:
                self._rendered_before.clear()
            self._rendered_before[key] = text
        return text

    def _probe_tools(self) -> bool:
        """Whether what the template writes behind a generation depends on the tools.

        It never did in a template seen so far; where a probe shows that it does, the tools are rendered every time.
        """
        invented = (_INVENTED_SYSTEM, _invented_assistant({"tool_calls": _PROBE_CALLS}))
        for role in sorted(self.family.append_roles):
            tail: list[Message] = [{"role": role, "content": "probe"}]
            if role == "tool":
                tail[0] |= {"tool_call_id": _PROBE_CALLS[0]["id"], "name": "probe"}
            texts = []
            for tools in (None, _PROBE_TOOLS):
                try:
                    before = self._renderer.render(
                        invented, tools=tools, add_generation_prompt=False, kwargs=self.kwargs({})
                    )
                    whole = self._renderer.render(
                        [*invented, *tail], tools=tools, add_generation_prompt=True, kwargs=self.kwargs({})
                    )
                except RenderError as error:
                    texts.append(str(error))
                    continue
                texts.append(whole.removeprefix(before))
            if texts[0] != texts[1]:
                return True
        return False

    def _checked(self, ids: TokenIds) -> TokenIds:
        outside = None if self.vocabulary.closed else self.vocabulary.first_outside(ids)
        if outside is not None:
            text = self.vocabulary.decode([outside])
            raise InvalidError(
                f"the messages contain the token {text!r} (id {outside}), which the model has no row for "
                f"(vocabulary of {self.vocabulary.size})"
            )
        return ids

    def mismatches(self, messages: Sequence[Message], actual: TokenIds, *, tools: Tools | None) -> list[dict[str, Any]]:
        """Differences between the canonical render of `messages` and the ids in hand.

        The render uses the server's template arguments, not a single request's.

        Raises:
            RenderError: the template refuses the conversation as a whole.
        """
        return self._comparison.mismatches(self.vocabulary.encode(self.render(messages, tools=tools)), actual)

    def render(self, messages: Sequence[Message], *, tools: Tools | None) -> str:
        """Canonical text of a whole conversation, without generation prompt, with the server's template arguments.

        Raises:
            RenderError: the template refuses the conversation.
        """
        return self._renderer.render(messages, tools=tools, add_generation_prompt=False, kwargs=self.kwargs({}))


def _invented_assistant(stored: Message) -> Message:
    message: Message = {"role": "assistant", "content": "", "reasoning_content": " "}
    if stored.get("tool_calls"):
        message["tool_calls"] = stored["tool_calls"]
    return message
