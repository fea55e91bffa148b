"""A 200 from the engine, checked before anything is recorded.

What is recorded is trained on. So the sampled ids must be there, be as many as the engine says, follow the prompt that
was sent, and the message parsed from them must be one that the template can render again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from session_server.core.errors import EngineError
from session_server.core.tokens import TokenIds, pack
from session_server.core.turn import Message
from session_server.tito.arguments import NotAnObjectError, parse_arguments


@dataclass(frozen=True, slots=True)
class Generation:
    """One checked generation. `output_ids` `[n_completion]`; `body` is the parsed reply, `raw` its bytes."""

    body: dict[str, Any]
    raw: bytes
    message: Message
    output_ids: TokenIds
    finish_reason: str | None
    response_id: str | None


def read_generation(raw: bytes, *, prompt_length: int, budget: int | None, end_ids: frozenset[int]) -> Generation:
    """Check the engine's reply to a prompt of `prompt_length` ids.

    `budget` is the number of tokens that the request allowed; a completion that used all of it was cut, whatever the
    engine calls it, unless it ends in one of `end_ids` or the engine names the stop that it matched.

    Raises:
        EngineError: naming the field that is missing or wrong.
    """
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise EngineError(f"upstream answered 200 with a body that is not JSON: {error}") from error
    choice = _first_choice(body)
    meta = choice.get("meta_info")
    if not isinstance(meta, dict):
        _refuse("choices[0].meta_info is missing; does the engine support return_meta_info?")
    output_ids = _output_ids(meta)
    counted = meta.get("prompt_tokens")
    if isinstance(counted, int) and counted != prompt_length:
        _refuse(f"the engine counted {counted} prompt tokens where {prompt_length} were sent; it did not use input_ids")
    message = _message(choice)
    finish_reason = choice.get("finish_reason")
    if finish_reason is not None and not isinstance(finish_reason, str):
        _refuse("choices[0].finish_reason is not a string")
    response_id = body.get("id")
    cut = (
        budget is not None
        and len(output_ids) >= budget
        and finish_reason not in ("length", "abort")
        and (not output_ids or output_ids[-1] not in end_ids)
        and not _matched_stop(choice, output_ids)
    )
    if cut:
        choice["finish_reason"] = finish_reason = "length"
        try:
            raw = orjson.dumps(body)
        except orjson.JSONEncodeError as error:
            _refuse(f"it is nested too deeply: {error}")
    return Generation(
        body=body,
        raw=raw,
        message=message,
        output_ids=output_ids,
        finish_reason=finish_reason,
        response_id=response_id if isinstance(response_id, str) else None,
    )


def _matched_stop(choice: Mapping[str, Any], output_ids: TokenIds) -> bool:
    """Whether the engine says which stop it met: a text, or a token, which must then be the last one."""
    matched = choice.get("matched_stop")
    if isinstance(matched, int):
        return bool(output_ids) and output_ids[-1] == matched
    return isinstance(matched, str) and matched != ""


def _refuse(reason: str) -> NoReturn:
    raise EngineError(f"upstream response cannot be recorded: {reason}")


def _first_choice(body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        _refuse("the body is not a JSON object")
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        _refuse("choices[0] is missing")
    choice: dict[str, Any] = choices[0]
    return choice


def _output_ids(meta: Mapping[str, Any]) -> TokenIds:
    logprobs = meta.get("output_token_logprobs")
    if not isinstance(logprobs, list):
        _refuse("choices[0].meta_info.output_token_logprobs is missing; does the engine support logprobs?")
    try:
        # a bool is an int to Python, and a log-prob that is not there would spoil the whole session's samples
        usable = all(type(entry[1]) is int and type(entry[0]) in (float, int) for entry in logprobs)
        ids = pack([entry[1] for entry in logprobs]) if usable else pack()
    except (TypeError, LookupError, OverflowError):
        usable, ids = False, pack()
    if not usable:
        _refuse("choices[0].meta_info.output_token_logprobs is not a list of [logprob, token id, ...]")
    completion = meta.get("completion_tokens")
    if not isinstance(completion, int):
        _refuse("choices[0].meta_info.completion_tokens is missing")
    if completion != len(ids):
        _refuse(f"completion_tokens is {completion} but output_token_logprobs has {len(ids)} entries")
    if ids and min(ids) < 0:
        _refuse("output_token_logprobs has a negative token id")
    return ids


def _message(choice: Mapping[str, Any]) -> Message:
    message = choice.get("message")
    if not isinstance(message, dict):
        _refuse("choices[0].message is missing")
    if message.get("role") != "assistant":
        _refuse("choices[0].message.role is not 'assistant'")
    if not isinstance(message.get("content"), str):
        _refuse('choices[0].message.content is not a string; a turn of tool calls alone needs ""')
    reasoning = message.get("reasoning_content")
    if reasoning is not None and not isinstance(reasoning, str):
        _refuse("choices[0].message.reasoning_content is not a string")
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        _refuse("choices[0].message.tool_calls is not a list")
    for index, call in enumerate(calls or ()):
        _check_call(call, f"choices[0].message.tool_calls[{index}]")
    return message


def _check_call(call: object, where: str) -> None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        _refuse(f"{where} is not a function call")
    if not isinstance(call.get("id"), str) or not isinstance(function.get("name"), str):
        _refuse(f"{where} has no id or no function name")
    try:
        parse_arguments(function.get("arguments"))
    except NotAnObjectError as error:
        _refuse(f"{where}.function.arguments is {error}")
