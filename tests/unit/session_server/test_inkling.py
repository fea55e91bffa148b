"""Inkling's template beside the renderer that serves the model: the texts of SGLang's `render_inkling_messages`.

The golden texts were written by tml-renderers 0.2.1 through SGLang 0.5.23. Where our template goes on, it opens the
model's message; the engine leaves that to the model, and the text of a whole conversation is the same.
"""

from __future__ import annotations

from typing import Any

import pytest
from session_server.settings import Settings
from session_server.tito.codec import Codec
from session_server.tito.families import find
from session_server.tito.loading import bind
from session_server.tito.vocabulary import Vocabulary
from session_testing.families import checkpoint

SYSTEM = {"role": "system", "content": "Be a weather bot."}
USER = {"role": "user", "content": "Weather in Beijing?"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "d",
            "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
        },
    }
]
CALLS = [
    {
        "id": "c1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"z": 1.50, "a": [1, null, "Zürich\\n</think>"]}'},
    }
]
LOOKS = {"role": "assistant", "reasoning_content": "think", "content": "I look.", "tool_calls": CALLS}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
NOTE = {"role": "system", "content": "Reminder"}

BOT = "<|message_system|><|content_text|>Be a weather bot.<|end_message|>"
DECLARED = (
    "<|message_system|>tool_declare<|content_xml|>"
    '[{"description":"d","name":"get_weather","parameters":{"properties":{"location":{"type":"string"}},'
    '"type":"object"},"type":"function"}]<|end_message|>'
)
EFFORT = "<|message_system|><|content_text|>Thinking effort level: 0.9<|end_message|>"
ASKED = "<|message_user|><|content_text|>Weather in Beijing?<|end_message|>"
LOOKED = (
    "<|message_model|><|content_thinking|>think<|end_message|><|message_model|><|content_text|>I look.<|end_message|>"
    '<|message_model|>get_weather<|content_invoke_tool_json|>{"name":"get_weather","args":'
    '{"a":[1,null,"Zürich\\n</think>"],"z":1.5}}<|end_message|><|content_model_end_sampling|>'
)
TOLD = "<|message_tool|>get_weather<|content_text|>sunny<|end_message|>"
SAID = "<|message_model|><|content_text|>A<|end_message|><|content_model_end_sampling|>"
REMINDED = "<|message_system|><|content_text|>Reminder<|end_message|>"


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Codec:
    path = checkpoint("inkling", tmp_path_factory.mktemp("inkling"))
    settings = Settings(engine_url="http://engine", core_version="v2", tokenizer_path=path, tito_model="inkling")
    return bind(find("inkling"), Vocabulary.load(path, trust_remote_code=False), settings)


@pytest.mark.parametrize(
    ("messages", "tools", "text"),
    [
        ([SYSTEM, USER], TOOLS, BOT + DECLARED + EFFORT + ASKED),
        ([USER], None, EFFORT + ASKED),
        ([SYSTEM, USER, LOOKS, RESULT, NOTE], TOOLS, BOT + DECLARED + EFFORT + ASKED + LOOKED + TOLD + REMINDED),
        (
            [USER, {"role": "assistant", "content": "A"}, {"role": "assistant", "content": "A"}, USER],
            None,
            EFFORT + ASKED + SAID + SAID + ASKED,
        ),
        ([USER, {"role": "assistant", "content": ""}], None, EFFORT + ASKED + SAID.replace(">A<", "><")),
        (
            [USER, {"role": "user", "content": ""}],
            None,
            EFFORT + ASKED + "<|message_user|><|content_text|><|end_message|>",
        ),
    ],
    ids=["tools behind the system prompt", "bare", "whole", "injected assistants", "empty assistant", "empty user"],
)
def test_a_conversation_is_written_as_the_engine_writes_it(
    codec: Codec, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, text: str
) -> None:
    assert codec.render(messages, tools=tools) == text
