"""SGLang's conversion of the corpus.

This file is a script: it runs inside an engine image, its input is on stdin, its answer the last line.

The handler of SGLang's Messages endpoint is made around a stand-in for its chat endpoint. The stand-in answers the two
questions that the conversion asks of it: whether the template can render a system message in the middle, and whether it
takes reasoning of earlier turns as a field, which is how the session server sends it to every template. It ignores that
reasoning is to be switched: the session server refuses such requests. An id that SGLang makes up is another one each
time, so only its form is told.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from serve.command import ENVIRONMENT  # type: ignore[import-not-found]

os.environ.update(ENVIRONMENT)

from sglang.srt.entrypoints.anthropic.protocol import AnthropicMessagesRequest  # type: ignore[import-not-found]
from sglang.srt.entrypoints.anthropic.serving import AnthropicServing  # type: ignore[import-not-found]
from sglang.srt.entrypoints.openai.protocol import ChatCompletionResponse  # type: ignore[import-not-found]


def _handler(inline: bool) -> Any:
    chat = SimpleNamespace(
        supports_inline_system=inline,
        supports_native_reasoning_history=lambda: True,
        apply_reasoning_enabled=lambda request, enabled: None,
    )
    return AnthropicServing(chat)


def _request(case: dict[str, Any]) -> Any:
    request = AnthropicMessagesRequest.model_validate(case["body"])
    return _handler(case["inline"])._convert_to_chat_completion_request(request)


def _reply(case: dict[str, Any]) -> Any:
    message = _handler(True)._convert_response(ChatCompletionResponse.model_validate(case["body"]))
    message.id = re.sub(r"\A(msg_)[0-9a-f]+\Z", r"\1*", message.id)
    return message


def _outcome(convert: Callable[[dict[str, Any]], Any], case: dict[str, Any], unset: bool) -> dict[str, Any]:
    try:
        made = convert(case)
    except (ValueError, TypeError) as error:
        return {"refused": str(error)}
    return {"made": made.model_dump(mode="json", exclude_unset=not unset, exclude_none=True)}


def main() -> None:
    """Convert what stdin has."""
    corpus = json.load(sys.stdin)
    answer = {
        "version": importlib.metadata.version("sglang"),
        "requests": {name: _outcome(_request, case, False) for name, case in corpus["requests"].items()},
        "replies": {name: _outcome(_reply, case, True) for name, case in corpus["replies"].items()},
    }
    sys.stdout.write("\n" + json.dumps(answer))


if __name__ == "__main__":
    main()
