"""Our conversion of the corpus, by the functions that the route calls, in its order."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "images" / "session-server"))

from session_server.core.errors import SessionError
from session_server.engine.reply import read_generation
from session_server.wire.anthropic import events
from session_server.wire.anthropic.convert import to_chat
from session_server.wire.anthropic.policy import refuse_unserved
from session_server.wire.anthropic.reply import to_message
from session_server.wire.anthropic.request import parse_messages
from session_server.wire.openai import check_chat

from tests.container.conversion import replies, requests

Json = dict[str, Any]


def convert_request(case: requests.Case) -> Json:
    """`{"made": chat request}` or `{"refused": why}`."""
    try:
        body = parse_messages(case.body)
        refuse_unserved(body)
        return {"made": check_chat(to_chat(body, inline_system=case.inline)).body}
    except SessionError as error:
        return {"refused": str(error)}


def convert_reply(case: replies.Case) -> Json:
    """`{"made": message}` or `{"refused": why}`."""
    raw = json.dumps(case.body).encode()
    try:
        generation = read_generation(raw, prompt_length=11, budget=None, end_ids=frozenset())
        return {"made": json.loads(events.dump(to_message(generation, stop_sequences=case.stops)))}
    except SessionError as error:
        return {"refused": str(error)}
