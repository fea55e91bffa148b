"""A checkpoint for every family: a tokenizer of its shape and, where it has no fixed template, one like its own.

The templates here are short stand-ins for GLM-4.7's, Nemotron 3's and Kimi K2.6's: same markers, same joints.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from session_server.tito.package import template_text
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from session_testing.tokenizers import QWEN_PLAIN, QWEN_SPECIALS, byte_level, save

GLM = """[gMASK]<sop>
{%- if tools %}<|system|>
# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}<|user|>
{{ message.content }}
{%- elif message.role == 'system' %}<|system|>
{{ message.content }}
{%- elif message.role == 'assistant' %}<|assistant|>
{{- '<think>' + (message.reasoning_content or '') + '</think>' if not clear_thinking else '</think>' }}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>' + call.function.name }}
{%- for key, value in call.function.arguments.items() %}
{{- '<arg_key>' + key + '</arg_key><arg_value>' + (value if value is string else value | tojson) + '</arg_value>' }}
{%- endfor %}</tool_call>
{%- endfor %}
{%- elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|observation|>{% endif %}
{{- '<tool_response>' + message.content + '</tool_response>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>{{ '<think>' }}{% endif %}"""

NEMOTRON = """{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}<|im_start|>assistant
<think>{{ message.reasoning_content or '' }}</think>{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>{{ call.function.name }}{{ call.function.arguments | tojson }}</tool_call>
{%- endfor %}<|im_end|>
{% elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user
{% endif %}<tool_response>{{ message.content }}</tool_response>
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>
{% endif %}
{%- else %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
<think>{% endif %}"""

KIMI_SPECIALS = (
    "[EOS]",
    "<|im_end|>",
    "<|im_user|>",
    "<|im_assistant|>",
    "<|im_system|>",
    "<|im_middle|>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
GLM_SPECIALS = ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
MINIMAX_SPECIALS = ("]~!b[", "]~b]", "[e~[")
DEEPSEEK_SPECIALS = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>")
INKLING_SPECIALS = (
    "<|message_user|>",
    "<|message_model|>",
    "<|message_system|>",
    "<|message_tool|>",
    "<|content_text|>",
    "<|content_thinking|>",
    "<|content_xml|>",
    "<|content_invoke_tool_json|>",
    "<|end_message|>",
    "<|content_model_end_sampling|>",
)
THINK = ("<think>", "</think>")

END = {
    "default": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "qwen35": "<|im_end|>",
    "qwen36": "<|im_end|>",
    "qwennext": "<|im_end|>",
    "glm47": "<|user|>",
    "nemotron3": "<|im_end|>",
    "kimi25": "<|im_end|>",
    "kimi26": "<|im_end|>",
    "minimax_m25": "[e~[",
    "minimax_m27": "[e~[",
    "deepseekv32": "<｜end▁of▁sentence｜>",
    "deepseekv4": "<｜end▁of▁sentence｜>",
    "inkling": "<|content_model_end_sampling|>",
}
"""The token with which a family's model ends a turn."""


Maker = Callable[[tuple[str, ...], tuple[str, ...]], Tokenizer]


_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BEHIND = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_BEHIND}"
_QWEN35 = _QWEN.replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(r"\s\p{L}\p{N}]+", r"\s\p{L}\p{M}\p{N}]+")
_GLM = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_BEHIND}"
_CASES = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    rf"\p{{N}}{{1,3}}|{_BEHIND}"
)
_DEEPSEEK = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    rf"[!-/:-~]?[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+|{_BEHIND}",
)
_SHAPES: dict[str, tuple[str, ...]] = {
    "qwen3": (_QWEN,),
    "qwennext": (_QWEN,),
    "qwen35": (_QWEN35,),
    "qwen36": (_QWEN35,),
    "glm47": (_GLM,),
    "nemotron3": (_CASES,),
    "inkling": (_CASES,),
    "minimax_m25": (_CASES,),
    "minimax_m27": (_CASES,),
    "kimi25": (r"[\p{Han}]+", _CASES),
    "kimi26": (r"[\p{Han}]+", _CASES),
    "default": (r"[\p{Han}]+", _CASES),
    "deepseekv32": _DEEPSEEK,
    "deepseekv4": _DEEPSEEK,
}
"""What the families' tokenizers cut with, one after the other: digits alone or by three, cases, ideographs apart."""


def shaped(family: str) -> Maker:
    """Makes tokenizers that cut text as the family's does; Qwen's also compose it."""

    def make(specials: tuple[str, ...], plain: tuple[str, ...]) -> Tokenizer:
        tokenizer = byte_level(specials, plain)
        if family.startswith("qwen"):
            tokenizer.normalizer = normalizers.NFC()
        cuts = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in _SHAPES[family]]
        bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cuts, bytes_only])
        return tokenizer

    return make


def checkpoint(family: str, directory: Path, make: Maker = byte_level) -> Path:
    """Write a checkpoint directory for `family`, its tokenizer made by `make`."""
    specials: tuple[str, ...] = QWEN_SPECIALS
    plain: tuple[str, ...] = QWEN_PLAIN
    template = None
    if family == "glm47":
        specials, plain, template = GLM_SPECIALS, THINK, GLM
    elif family == "nemotron3":
        template = NEMOTRON
    elif family in ("kimi25", "kimi26", "default"):
        specials, plain, template = KIMI_SPECIALS, THINK, template_text("kimi_k25_fixed.jinja")
    elif family.startswith("minimax"):
        specials, plain = MINIMAX_SPECIALS, THINK
    elif family.startswith("deepseek"):
        specials, plain = DEEPSEEK_SPECIALS, THINK
    elif family == "inkling":
        specials, plain = INKLING_SPECIALS, ()
    eos = "<|endoftext|>" if family == "glm47" else "[EOS]" if specials is KIMI_SPECIALS else END[family]
    return save(make(specials, plain), directory, eos=eos, chat_template=template)
