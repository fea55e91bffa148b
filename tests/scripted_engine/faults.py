"""Faults that are put in on purpose, as data: which, at which turn of which session, how often.

A fault is told by the environment (`SCRIPTED_ENGINE_FAULTS`, a JSON list) or by `POST /control/faults`. It fires for
exactly the requests that it describes and counts them, so that a test can also show that it did happen.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

VARIABLE = "SCRIPTED_ENGINE_FAULTS"


class Kind(StrEnum):
    """What goes wrong. `value` of the fault means what stands here, if anything."""

    TRUNCATE = "truncate"
    """The reply ends after half of its tokens with finish_reason `length`."""
    ABORT = "abort"
    """As `truncate`, with finish_reason `abort`."""
    EMPTY = "empty"
    """Nothing after the thinking."""
    STOPPED = "stopped"
    """A stop string is found inside the thinking: the reply ends there, unclosed, with finish_reason `stop`."""
    WRONG_REASON = "wrong_reason"
    """finish_reason is `stop` where there is a call, and `tool_calls` where there is none."""
    NO_CALL = "no_call"
    """Prose where a call is due, a forced one as well."""
    WRONG_NAME = "wrong_name"
    """The call in the message names a tool that nobody declared."""
    DROP_TOKEN = "drop_token"
    """One sampled id is missing, and all counts fit the ids."""
    SWAP_TOKEN = "swap_token"
    """One sampled id is another one than the text says."""
    LOGPROBS = "logprobs"
    """The log-prob of one sampled id is null."""
    COMPLETION_TOKENS = "completion_tokens"
    """meta_info.completion_tokens is off by `value` (default 1)."""
    USAGE = "usage"
    """usage.completion_tokens alone is off by `value` (default 1)."""
    BROKEN_JSON = "broken_json"
    """200 with half a JSON body."""
    STATUS = "status"
    """An error with status `value` (default 500)."""
    DELAY = "delay"
    """The reply comes `value` seconds later (default 1)."""
    HANG = "hang"
    """The reply never comes."""
    DIE = "die"
    """The process ends without a word."""
    HOARD = "hoard"
    """The process takes memory until the kernel ends it: `value` MiB at most (1024), then it dies as in `die`."""
    NO_META_INFO = "no_meta_info"
    """The engine does not know `return_meta_info`: no meta_info in the reply."""
    NO_TOKEN_IDS = "no_token_ids"
    """meta_info comes without output_token_logprobs."""
    OWN_PROMPT = "own_prompt"
    """The engine renders the messages itself and ignores `input_ids`: it counts another prompt."""
    NO_SCORING = "no_scoring"
    """`/generate` refuses to score without generating. Engine-wide: `turn` and `session` mean nothing."""
    SEEDED = "seeded"
    """No fault but a mode: the seed, and nothing else, picks the wording of a sampled text.

    `value`, where given, is how improbable each of its tokens is said to be, as a negated log-prob.
    """
    RESTLESS = "restless"
    """Temperature 0 is sampled like any other temperature."""
    PADDED = "padded"
    """No fault but a mode: the thinking is sampled with two spaces at each of its edges."""
    SPELLED = "spelled"
    """No fault but a mode: where a turn says the name of a control token, it is sampled in ordinary tokens."""
    EATEN = "eaten"
    """The reasoning parser eats the white space at the edges of the thinking."""


@dataclass
class Fault:
    """One fault. `turn` counts the turns of one session from 1 (None: each), `session` counts sessions from 1.

    Asking again for a turn that a fault has spoilt is still that turn, so `times: null` spoils every repeat as well.

    `times` is how often it fires in all, None for no limit. A session is what sends one `X-SMG-Routing-Key`. `family`
    says whose engine has it, where the same faults are told to the engines of several families (None: all of them).
    """

    kind: Kind
    turn: int | None = None
    session: int | None = None
    times: int | None = 1
    value: float | None = None
    family: str | None = None
    fired: int = 0

    def hits(self, session: int, turn: int) -> bool:
        """Is this request meant?"""
        return (
            self.turn in (None, turn)
            and self.session in (None, session)
            and (self.times is None or self.fired < self.times)
        )


def read_faults(text: str) -> list[Fault]:
    """Faults from a JSON list of objects, `[{"kind": "truncate", "turn": 2}]`. Raises ValueError for anything else."""
    value = json.loads(text)
    if not isinstance(value, list):
        raise ValueError(f"faults are a JSON list, not {type(value).__name__}")
    faults: list[Fault] = []
    for entry in value:
        if not isinstance(entry, dict):
            raise ValueError(f"a fault is an object, not {entry!r}")
        unknown = set(entry) - {"kind", "turn", "session", "times", "value", "family"}
        if unknown:
            raise ValueError(f"unknown fields of a fault: {', '.join(sorted(unknown))}")
        faults.append(Fault(**{**entry, "kind": Kind(str(entry.get("kind")))}))
    return faults


def shown(faults: list[Fault]) -> list[dict[str, Any]]:
    """Faults as JSON, with how often each has fired."""
    return [asdict(fault) for fault in faults]
