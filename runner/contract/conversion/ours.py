"""Our conversion of the corpus, by the functions that the route calls, in its order.

This file is a script: it runs inside the session-server image, its input is on stdin, its answer the last line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from session_server import __version__
from session_server.core.errors import SessionError
from session_server.engine.reply import read_generation
from session_server.wire.anthropic import events
from session_server.wire.anthropic.convert import to_chat
from session_server.wire.anthropic.policy import refuse_unserved
from session_server.wire.anthropic.reply import to_message
from session_server.wire.anthropic.request import parse_messages
from session_server.wire.openai import check_chat


def _request(case: dict[str, Any]) -> Any:
    body = parse_messages(case["body"])
    refuse_unserved(body)
    chat = check_chat(to_chat(body, inline_system=case["inline"]))
    return {**chat.fields, "messages": [*chat.unwritten]}


def _reply(case: dict[str, Any]) -> Any:
    raw = json.dumps(case["body"]).encode()
    generation = read_generation(raw, prompt_length=11, budget=None, end_ids=frozenset())
    return json.loads(events.dump(to_message(generation, stop_sequences=case["stops"])))


def _outcome(convert: Callable[[dict[str, Any]], Any], case: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"made": convert(case)}
    except SessionError as error:
        return {"refused": str(error)}


def main() -> None:
    """Convert what stdin has."""
    corpus = json.load(sys.stdin)
    answer = {
        "version": __version__,
        "requests": {name: _outcome(_request, case) for name, case in corpus["requests"].items()},
        "replies": {name: _outcome(_reply, case) for name, case in corpus["replies"].items()},
    }
    sys.stdout.write("\n" + json.dumps(answer))


if __name__ == "__main__":
    main()
