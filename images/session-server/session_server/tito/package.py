"""The only module that touches `miles-tito-tokenizers`: its fixed templates, DeepSeek encoders and comparator.

Not used of it: its renderer (it rewrites tool schemas on the way into the prompt) and its continuation (it splits a
tail of several messages and renders each part behind an invented history). Ours are in `tito.jinja` and `tito.codec`.

Importing the package imports its renderer and with it `transformers`, which takes seconds. Templates and comparator
need neither, so they are read from the package's directory; only the DeepSeek encoders import the package as such, when
one is made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from session_server.core.tokens import TokenIds

_PACKAGE = "miles_tito_tokenizers"


def _directory() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the package {_PACKAGE} is not installed", name=_PACKAGE)
    return Path(spec.origin).parent


def _alone(name: str) -> ModuleType:
    """The package's module `name` without the package: it must import nothing of it."""
    path = _directory() / f"{name}.py"
    known = f"{__name__}.{name}"
    spec = spec_from_file_location(known, path)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"{path} is no module", name=known)
    module = module_from_spec(spec)
    # dataclasses look their module up by name
    sys.modules[known] = module
    spec.loader.exec_module(module)
    return module


class Decoder(Protocol):
    """What the comparator needs of a tokenizer."""

    def decode(self, token_ids: list[int], skip_special_tokens: bool = False) -> str:
        """The exact text of `token_ids`."""
        ...


def template_text(name: str) -> str:
    """Text of a fixed chat template that the package bundles.

    Raises:
        FileNotFoundError: the package has no such template.
    """
    return (_directory() / "templates" / name).read_text(encoding="utf-8")


class Comparison:
    """Compares accumulated ids with the canonical render, segment by segment."""

    def __init__(
        self,
        decoder: Decoder,
        *,
        assistant_start: str | None,
        boundary_ids: Iterable[int],
        trailing_ids: Iterable[int],
    ) -> None:
        self._comparator = _alone("comparator").TokenSeqComparator(
            decoder,
            assistant_start_str=assistant_start,
            special_token_ids=set(boundary_ids),
            trim_trailing_ids=set(trailing_ids) or None,
        )

    def mismatches(self, expected: TokenIds, actual: TokenIds) -> list[dict[str, Any]]:
        """Differences as `{type, segment_index, expected_text, actual_text, detail}`; empty when there is none."""
        found = self._comparator.compare_sequences(expected.tolist(), actual.tolist())
        return [mismatch.to_dict() for mismatch in found]


class DeepSeekEncoder(Protocol):
    """What the DeepSeek renderer needs of an encoder version."""

    start: str
    options: frozenset[str]
    errors: tuple[type[Exception], ...]

    def prepare(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages as this version encodes them."""
        ...

    def message(self, index: int, messages: Sequence[dict[str, Any]], mode: str, options: Mapping[str, Any]) -> str:
        """Text of message `index` of `messages`."""
        ...


_ENCODER_ERRORS: tuple[type[Exception], ...] = (
    AssertionError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    NotImplementedError,
)


class EncoderV32:
    """DeepSeek V3.2: tool results are messages of their own."""

    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        from miles_tito_tokenizers.encoders import deepseek_v32

        self._encoder = deepseek_v32
        self.start: str = deepseek_v32.bos_token
        self.errors: tuple[type[Exception], ...] = (deepseek_v32.DS32EncodingError, *_ENCODER_ERRORS)

    def prepare(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages themselves."""
        return messages

    def message(self, index: int, messages: Sequence[dict[str, Any]], mode: str, options: Mapping[str, Any]) -> str:
        """Text of a message, as if nothing followed it.

        When thinking, the encoder refuses an assistant message with neither reasoning nor calls; here it thought
        nothing.
        """
        last = messages[index]
        thinks = bool(last.get("reasoning_content") or last.get("tool_calls"))
        if last["role"] == "assistant" and mode == "thinking" and not thinks:
            return f"{self._encoder.thinking_end_token}{self._render(index, messages, 'chat')}"
        return self._render(index, messages, mode)

    def _render(self, index: int, messages: Sequence[dict[str, Any]], mode: str) -> str:
        text: str = self._encoder.render_message(index, list(messages[: index + 1]), thinking_mode=mode)
        return text


class EncoderV4:
    """DeepSeek V4: tool results become blocks of a user message, in the order of the calls."""

    options: frozenset[str] = frozenset({"reasoning_effort"})
    errors = _ENCODER_ERRORS

    def __init__(self) -> None:
        from miles_tito_tokenizers.encoders import deepseek_v4

        self._encoder = deepseek_v4
        self.start: str = deepseek_v4.bos_token

    def prepare(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Tool results merged into user messages and sorted by call."""
        merged = self._encoder.merge_tool_messages(messages)
        prepared: list[dict[str, Any]] = self._encoder.sort_tool_results_by_call_order(merged)
        return prepared

    def message(self, index: int, messages: Sequence[dict[str, Any]], mode: str, options: Mapping[str, Any]) -> str:
        """Text of a message; only the opening behind a user message depends on what follows."""
        text: str = self._encoder.render_message(
            index,
            list(messages),
            thinking_mode=mode,
            drop_thinking=False,
            reasoning_effort=options.get("reasoning_effort"),
        )
        return text
