"""What a session server says about a session: the models of `GET /sessions/{id}` and `GET /health`.

Only what the oracle reads is typed; the rest is kept in the raw snapshot. Reading is strict (no string becomes a
number, NaN is no JSON), because a server that answers something else has broken its contract.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from runner.base.errors import VerificationError

JsonObject = dict[str, JsonValue]


class _Reading(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, strict=True, frozen=True)


class OutputToken(NamedTuple):
    """One sampled token: `[logprob, token id, text]`; the text may be left out."""

    logprob: float | None
    token_id: int
    text: str | None = None


def _token(entry: object) -> object:
    """Engines may append further fields; only the first three are read."""
    return OutputToken(*entry[:3]) if isinstance(entry, list) and len(entry) >= 2 else entry


class MetaInfo(_Reading):
    """The engine's own account of one generation."""

    output_token_logprobs: list[Annotated[OutputToken, BeforeValidator(_token)]]
    completion_tokens: int
    prompt_tokens: int | None = None


class Usage(_Reading):
    """Token counts as a client sees them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Reply:
    """One completion as an agent gets it. `output_ids` (`[n_output]`) is None where the wire carries no ids."""

    id: str
    message: JsonObject
    finish_reason: str
    usage: Usage | None
    output_ids: list[int] | None


class Choice(_Reading):
    """The one choice of a recorded reply. `message` is kept as it is: it is compared, not interpreted."""

    message: JsonObject
    finish_reason: str
    meta_info: MetaInfo


class RecordedRequest(_Reading):
    """The request as it went to the engine. `input_ids` is the prompt, `[n_prompt]`."""

    messages: list[JsonObject]
    input_ids: list[int]
    tools: list[JsonObject] | None = None
    max_tokens: int | None = None


class RecordedReply(_Reading):
    """The engine's reply."""

    id: str
    choices: Annotated[list[Choice], Field(min_length=1)]
    usage: Usage | None = None


class Record(_Reading):
    """One turn that the server stored."""

    path: str
    status_code: int
    request: RecordedRequest
    response: RecordedReply

    @property
    def input_ids(self) -> list[int]:
        """The prompt, `[n_prompt]`."""
        return self.request.input_ids

    @property
    def tokens(self) -> list[OutputToken]:
        """The sampled tokens with their log-probs, `[n_output]`."""
        return self.response.choices[0].meta_info.output_token_logprobs

    @property
    def output_ids(self) -> list[int]:
        """The sampled ids, `[n_output]`."""
        return [token.token_id for token in self.tokens]

    @property
    def message(self) -> JsonObject:
        """The assistant message."""
        return self.response.choices[0].message

    @property
    def finish_reason(self) -> str:
        """Why the engine stopped."""
        return self.response.choices[0].finish_reason


class Mismatch(_Reading):
    """One difference that the server itself found between its tokens and a canonical render."""

    type: str
    segment_index: int
    expected_text: str | None = None
    actual_text: str | None = None
    detail: str | None = None


class TreeNode(_Reading):
    """One generation in the tree of a v2 session."""

    id: int
    parent: int | None
    truncated: bool
    num_tokens: int
    response_id: str | None


class TreeLeaf(_Reading):
    """One end of the tree, with its way from the root."""

    node_id: int
    path_node_ids: list[int]


class Tree(_Reading):
    """The whole tree of a v2 session."""

    nodes: list[TreeNode]
    leaves: list[TreeLeaf]


class Metadata(_Reading):
    """What the server says about the session as a whole.

    `tito_session_mismatch` is None when the field is absent: the server's own comparison did not happen.
    """

    accumulated_token_ids: list[int]
    max_trim_tokens: int
    tito_session_mismatch: list[Mismatch] | None = None
    tree: Tree | None = None


class SessionView(_Reading):
    """`GET /sessions/{id}`: the records of the surviving (v1) or active (v2) path, in order."""

    session_id: str
    records: list[Record]
    metadata: Metadata


class Health(_Reading):
    """`GET /health` of a session server."""

    status: str
    session_server_instance_id: str | None = None
    anthropic_intermediate_system_supported: bool | None = None


Reading = TypeVar("Reading", bound=_Reading)


def read(model: type[Reading], body: bytes, stage: str, what: str) -> Reading:
    """Read one reply. Raises VerificationError(stage) that names the fields which are missing or of another type."""
    try:
        orjson.loads(body)  # refuses NaN, infinities and invalid UTF-8, which pydantic's own reader lets through
        return model.model_validate_json(body)
    except orjson.JSONDecodeError as error:
        raise VerificationError(stage, f"{what} is not JSON ({error}): {excerpt(body)}") from error
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'body'}: {item['msg']}" for item in error.errors()[:5]
        )
        more = f" (and {error.error_count() - 5} more)" if error.error_count() > 5 else ""
        raise VerificationError(stage, f"{what} is not what the contract says: {wrong}{more}") from error


def excerpt(body: bytes, limit: int = 300) -> str:
    """The start of a body, readable in an error message."""
    text = body.decode("utf-8", "replace")
    return text if len(text) <= limit else f"{text[:limit]}... ({len(body)} bytes)"
