"""Qwen3: ChatML turns, `<think>` blocks, tool calls as JSON between `<tool_call>` tags.

Tool and thinking tags are added tokens that are not special, as in the published tokenizer, so that they survive
decoding with special tokens skipped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from micro.turns import Call, JsonObject, Reply, Spacing, Turn


@dataclass(frozen=True)
class Qwen3:
    """The Qwen3 family. See `micro.families.shape.Family` for the meaning of each member."""

    name: str = "qwen3"
    template: str = "qwen3_fixed.jinja"
    special_tokens: tuple[str, ...] = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    plain_tokens: tuple[str, ...] = (
        "<tool_call>",
        "</tool_call>",
        "<tool_response>",
        "</tool_response>",
        "<think>",
        "</think>",
    )
    end: str = "<|im_end|>"
    pad: str = "<|endoftext|>"
    opening: str = "<think>\n\n</think>\n\n"
    reasoning_end: str = "</think>"
    forced: str = '<tool_call>\n{"name":"get_weather", "arguments":'

    seams: tuple[str, ...] = ('"name":', '"arguments":')

    @property
    def template_options(self) -> dict[str, bool]:
        """Earlier reasoning stays in the prompt."""
        return {"clear_thinking": False}

    def write(self, turn: Turn) -> str:
        """`<think>` block, then content and calls; a forced call has no blank line after the block."""
        gap = "" if turn.spacing is Spacing.FORCED else "\n\n"
        return f"<think>\n{turn.thought}\n</think>{gap}{self.visible(turn)}"

    def visible(self, turn: Turn) -> str:
        """Content and calls, a line break between them."""
        colon = ": " if turn.spacing is Spacing.TEMPLATE else ":"
        calls = (
            f'<tool_call>\n{{"name"{colon}"{call.name}", "arguments"{colon}'
            f"{json.dumps(call.arguments, ensure_ascii=False)}}}\n</tool_call>"
            for call in turn.calls
        )
        return "\n".join(part for part in (turn.content, *calls) if part)

    def parse(self, text: str) -> Reply:
        """Split at the first `</think>`, then at the call tags."""
        problems: list[str] = []
        thought, separator, rest = text.partition("</think>")
        if not separator:
            return Reply(thought=text, content="", problems=("the thinking is never closed",))
        if not thought.startswith("<think>"):
            problems.append("the turn does not open with <think>")
        if "<think>" in rest or "</think>" in rest:
            problems.append("a second thinking block")
        content, *parts = rest.split("<tool_call>")
        calls: list[Call] = []
        for part in parts:
            body, closed, after = part.partition("</tool_call>")
            if not closed:
                problems.append("a tool call is never closed")
            if after.strip():
                problems.append("text after a tool call")
            # SGLang's qwen25 parser looks for the tags together with their line breaks.
            if not body.startswith("\n") or not body.endswith("\n"):
                problems.append("no line break inside the call tags")
            call = _call(body)
            if call is None:
                problems.append(f"not a call: {body.strip()[:80]}")
            else:
                calls.append(call)
        if "</tool_call>" in content or "tool_response>" in rest:
            problems.append("a stray tag")
        return Reply(
            thought=thought.removeprefix("<think>").strip(),
            content=content.strip(),
            calls=tuple(calls),
            problems=tuple(problems),
        )

    def configuration(self, vocabulary: int, end_id: int, pad_id: int) -> JsonObject:
        """A Qwen3ForCausalLM of about a million weights."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": pad_id,
            "dtype": "float32",
            "eos_token_id": end_id,
            "head_dim": 32,
            "hidden_act": "silu",
            "hidden_size": 128,
            "initializer_range": 0.02,
            "intermediate_size": 448,
            "max_position_embeddings": 8192,
            "max_window_layers": 3,
            "model_type": "qwen3",
            "num_attention_heads": 4,
            "num_hidden_layers": 3,
            "num_key_value_heads": 2,
            "pad_token_id": pad_id,
            "rms_norm_eps": 1e-06,
            "rope_scaling": None,
            "rope_theta": 1000000.0,
            "sliding_window": None,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": vocabulary,
        }


def _call(body: str) -> Call | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    if not isinstance(value, dict) or set(value) != {"name", "arguments"}:
        return None
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return Call(name=name, arguments=arguments)


QWEN3 = Qwen3()
