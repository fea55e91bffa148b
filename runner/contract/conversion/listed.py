"""Every difference between our conversion and SGLang's, with the reason why it is meant.

An entry holds for the cases that its `where` names, and must occur in each of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runner.contract.conversion.differences import ABSENT
from runner.contract.conversion.judge import Listed, among

Json = Mapping[str, Any]


def _converted(name: str, body: Json) -> bool:
    return name not in _REFUSED_BY_US and name not in _REFUSED_BY_BOTH


def _without(key: str) -> Callable[[str, Json], bool]:
    return lambda name, body: _converted(name, body) and not body.get(key)


def _says_nothing_of_tools(name: str, body: Json) -> bool:
    return _converted(name, body) and not body.get("tools") and body.get("tool_choice") is None


def _lets_calls_be_parallel(name: str, body: Json) -> bool:
    choice = body.get("tool_choice")
    return _converted(name, body) and choice is not None and not choice.get("disable_parallel_tool_use")


def _describes_a_tool(name: str, body: Json) -> bool:
    return _converted(name, body) and bool(body.get("tools"))


def _is(ours: Any, theirs: Any) -> Callable[[Any, Any], bool]:
    return lambda one, two: (type(one), one, type(two), two) == (type(ours), ours, type(theirs), theirs)


def _only_we_refuse(words: str) -> Callable[[Any, Any], bool]:
    return lambda ours, theirs: theirs == ABSENT and words in ours


def _only_they_refuse(words: str) -> Callable[[Any, Any], bool]:
    return lambda ours, theirs: ours == ABSENT and words in theirs


@dataclass(frozen=True)
class _Refusal:
    """What only we refuse: why, words of the refusal, and the cases."""

    reason: str
    words: str
    names: tuple[str, ...]

    def listed(self) -> Listed:
        return Listed(self.reason, among(*self.names), "refused", _only_we_refuse(self.words))


def _names(refusals: Iterable[_Refusal]) -> frozenset[str]:
    return frozenset(name for refusal in refusals for name in refusal.names)


_NO_EFFECT = "SGLang ignores it with a line in its log; a client is not told that it gets what it did not ask for"
_NOT_SERVED = "prompts of a session are text: what cannot be kept in its tokens is refused, not dropped or rewritten"
_MISPLACED = "the Messages API has no such block in this role; SGLang drops it or writes it into text of its own making"

_REQUESTS_REFUSED = (
    _Refusal(
        "a conversation without a single message has no prompt", "messages: ", ("blocks-none-at-all", "messages-none")
    ),
    _Refusal(
        "the Messages API requires the field; an empty object is not made up",
        "input: Field required",
        ("said-call-without-input",),
    ),
    _Refusal("a call of no name cannot be rendered", "at least 1 character", ("said-call-with-empty-name",)),
    _Refusal(
        "a result must name its call; SGLang also takes an older spelling, or none",
        "tool_use_id: Field required",
        ("result-of-old-id-field", "result-of-nothing"),
    ),
    _Refusal(_MISPLACED, "only supported in", ("said-tool-result", "user-thinking")),
    _Refusal(
        "templates have no word for a failed call, so it would be rendered as a success",
        "is_error=true is not supported",
        ("result-error",),
    ),
    _Refusal(
        _NOT_SERVED,
        "content blocks are not enabled",
        ("image", "search-result", "result-image", "result-tool-reference", "result-search-result"),
    ),
    _Refusal("SGLang drops tools that only Anthropic runs", "tools are not enabled", ("tool-web-search", "tool-bash")),
    _Refusal(_NO_EFFECT, "betas is not enabled", ("betas",)),
    _Refusal(
        "reasoning is not mapped onto arguments of templates here, and a client is told so",
        "is not supported by this endpoint",
        ("thinking-enabled", "output-config"),
    ),
    _Refusal("the Messages API takes a number, not its spelling", "valid integer", ("max-tokens-text",)),
)
_REFUSED_BY_US = _names(_REQUESTS_REFUSED)
_REFUSED_BY_BOTH = frozenset(
    {
        *("unknown-role", "content-null", "block-unknown", "block-without-text", "said-redacted-thinking"),
        *("said-call-without-id", "user-tool-use", "tool-without-schema", "tool-of-unknown-type"),
        *("choice-unknown-tool", "choice-tool-without-name", "choice-unknown-type", "choice-any-without-tools"),
        *("max-tokens-zero", "max-tokens-missing", "model-empty"),
    }
)

REQUESTS = (
    *(refusal.listed() for refusal in _REQUESTS_REFUSED),
    Listed(
        "what is the default anyway is left unsaid",
        _without("stream"),
        "stream",
        _is(ABSENT, False),
    ),
    Listed(
        "SGLang's request model fills in the choice that an engine without tools makes by itself",
        _says_nothing_of_tools,
        "tool_choice",
        _is(ABSENT, "none"),
    ),
    Listed(
        "several calls in a turn are the engine's default, so only their refusal is said",
        _lets_calls_be_parallel,
        "parallel_tool_calls",
        _is(ABSENT, True),
    ),
    Listed(
        "templates print a tool's keys in their order; this is the order of SGLang's own tool model, description first",
        _describes_a_tool,
        r"tools\[\d+\]\.function\(order\)",
        lambda ours, theirs: ours[:2] == ["description", "name"] and theirs[:2] == ["name", "description"],
    ),
    Listed(
        "a tool silent on strictness stays so in the prompt; the engine is told to be strict where the request is sent",
        among("tool-silent-on-strict"),
        r"tools\[0\]\.function\.strict",
        _is(ABSENT, False),
    ),
    Listed(
        "loading tools later is an extension that only some templates of SGLang know",
        among("tool-deferred"),
        r"tools\[1\](\.function)?\.defer_loading",
        _is(ABSENT, True),
    ),
    Listed(
        "the engine's parsers write arguments unescaped; so a call that comes back is spelled as it was stored",
        among("said-call-unicode"),
        r"messages\[1\]\.tool_calls\[0\]\.function\.arguments",
        lambda ours, theirs: ours != theirs and theirs.isascii() and json.loads(ours) == json.loads(theirs),
    ),
    Listed(
        "the engine never streams to the session server; the client's stream is made from the recorded reply",
        among("stream"),
        "stream_options",
        lambda ours, theirs: ours == ABSENT and theirs["include_usage"] is True,
    ),
    Listed(
        "system text of nothing but whitespace is no system message, as a string or as blocks",
        among("system-block-whitespace"),
        "messages",
        lambda ours, theirs: theirs == [{"role": "system", "content": "  "}, *ours],
    ),
    Listed(
        "system text is joined in the same way wherever it stands, so templates need not take a message of parts",
        among("middle-blocks"),
        r"messages\[2\]\.content",
        lambda ours, theirs: ours == "\n".join(part["text"] for part in theirs),
    ),
    Listed(
        "a system message is folded as it is; SGLang trims it here, and only here",
        among("middle-padded-folded"),
        r"messages\[0\]\.content",
        lambda ours, theirs: ours != theirs and ours.strip() == theirs,
    ),
)

_REPLIES_REFUSED_BY_US = (
    _Refusal(
        "the message is stored as it came and rendered again, so its content must be there",
        "content is not a string",
        ("text-null", "call-without-content"),
    ),
    _Refusal(
        "what is recorded is trained on: a call that is not a JSON object is the engine's error, not an empty call",
        "is not valid JSON",
        ("call-broken-json", "call-broken-second", "call-plain-words", "call-not-a-number"),
    ),
    _Refusal("a generation that was given up is no finished turn", "engine aborted", ("end-abort",)),
    _Refusal("a reply without a choice has no tokens to record", "choices[0] is missing", ("no-choices",)),
)
_REPLIES_REFUSED_BY_THEM = frozenset({"call-object-arguments", "end-unknown", "usage-missing", "usage-null"})
_REPLIES_REFUSED_BY_BOTH = frozenset({"call-list", "call-string", "call-null", "call-without-id", "call-without-name"})
_REPLIES_REFUSED = _names(_REPLIES_REFUSED_BY_US) | _REPLIES_REFUSED_BY_THEM | _REPLIES_REFUSED_BY_BOTH

REPLIES = (
    *(refusal.listed() for refusal in _REPLIES_REFUSED_BY_US),
    Listed(
        "arguments that are an object already are taken; SGLang fails while it logs them",
        among("call-object-arguments"),
        "refused",
        _only_they_refuse("unhashable"),
    ),
    Listed(
        "a reason that has no counterpart ends the turn, also one that this SGLang does not know",
        among("end-unknown"),
        "refused",
        _only_they_refuse("finish_reason"),
    ),
    Listed(
        "without `usage` the checked counts of tokens in `meta_info` are given",
        among("usage-missing", "usage-null"),
        "refused",
        _only_they_refuse("usage"),
    ),
    Listed(
        "counts missing in `usage` are taken from the checked counts of tokens in `meta_info`",
        among("usage-empty"),
        r"usage\.input_tokens",
        _is(11, 0),
    ),
    Listed(
        "counts missing in `usage` are taken from the checked counts of tokens in `meta_info`",
        among("usage-empty", "usage-null-completion"),
        r"usage\.output_tokens",
        _is(3, 0),
    ),
    Listed(
        "no more tokens can come from the cache than the prompt has",
        among("usage-cached-more-than-all"),
        r"usage\.cache_read_input_tokens",
        _is(11, 12),
    ),
    Listed(
        "a message keeps the engine's id, by which it is found in the records; SGLang makes one up",
        lambda name, body: name not in _REPLIES_REFUSED,
        "id",
        lambda ours, theirs: ours == "chatcmpl-1" and theirs.startswith("msg_"),
    ),
    Listed(
        "the official SDK's thinking block has a signature; there is none, so it is empty",
        lambda name, body: name not in _REPLIES_REFUSED and bool(body["choices"][0]["message"]["reasoning_content"]),
        r"content\[0\]\.signature",
        _is("", ABSENT),
    ),
    Listed(
        "a stop sequence of the client's own is named; SGLang does not tell it from an end",
        among("end-stop-sequence"),
        "stop_reason",
        _is("stop_sequence", "end_turn"),
    ),
    Listed(
        "a stop sequence of the client's own is named; SGLang does not tell it from an end",
        among("end-stop-sequence"),
        "stop_sequence",
        _is("END", ABSENT),
    ),
)
