"""Messages that spell a control token: `<|im_start|>` said in a text, where no turn begins.

A template is text, so its render makes a control token of every such spelling. What a client sends is written so by the
family's form, by engine and server alike: it is told, because text has become structure. A reply is another matter: its
tokens are known, whichever they are, and the spelling in it is text. So replies are rendered with a mark inside each
spelling, control tokens that were sampled for one split nothing, and the texts are compared without the mark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from runner.agents.records import JsonObject, Record
from runner.oracle.finding import Finding, Severity

TYPE: Final = "control_text"
_FIELDS: Final = ("content", "reasoning_content", "tool_calls")
_MARKS: Final = "\ue000\ue001\ue002\ue003"
"""Characters without a meaning; the first that a conversation does not have is the mark."""


@dataclass(frozen=True)
class Spellings:
    """What a conversation spells. `sampled` are the indices of its messages that are replies of the engine.

    `controls` are the tokens that split segments, by their texts; `mark` is put into their spellings, empty where no
    reply has one.
    """

    messages: Sequence[JsonObject]
    sampled: Sequence[int]
    controls: Mapping[str, int]
    mark: str

    @classmethod
    def of(cls, records: Sequence[Record], controls: Mapping[str, int]) -> Spellings:
        """Those of the conversation that ends in the last of `records`, which are one path."""
        last = records[-1]
        messages = [*last.request.messages, last.message]
        sampled = [len(record.request.messages) for record in records if len(record.request.messages) < len(messages)]
        whole = _text({str(index): message for index, message in enumerate(messages)})
        spelled = any(text in _text(messages[index]) for index in sampled for text in controls)
        mark = next((mark for mark in _MARKS if mark not in whole), "") if spelled else ""
        return cls(messages, sampled, controls, mark)

    @property
    def to_render(self) -> list[JsonObject]:
        """The conversation with the mark inside the spellings of its replies."""
        if not self.mark:
            return list(self.messages)
        return [
            {key: self._marked(value) if key in _FIELDS else value for key, value in message.items()}
            if index in self.sampled
            else message
            for index, message in enumerate(self.messages)
        ]

    def inside(self, records: Sequence[Record]) -> Collection[int]:
        """Indices into the path's ids of control tokens that a reply says as text; the one that ends it is none.

        Where more of them were sampled than are said, they are what they are.
        """
        found: set[int] = set()
        for index, record in zip(self.sampled, records, strict=False) if self.mark else ():
            said, start = _text(self.messages[index]), len(record.input_ids)
            for text, token_id in self.controls.items():
                places = [start + at for at, other in enumerate(record.output_ids[:-1]) if other == token_id]
                found.update(places if len(places) <= said.count(text) else ())
        return found

    def notes(self, records: Sequence[Record], turns: Sequence[int]) -> list[Finding]:
        """One note for each message that spells a control token. `turns[i]` is the agent's number of `records[i]`."""
        return [note for index in range(len(self.messages)) if (note := self._note(index, records, turns)) is not None]

    def _note(self, index: int, records: Sequence[Record], turns: Sequence[int]) -> Finding | None:
        message = self.messages[index]
        said = [text for text in self.controls if text in _text(message)]
        if not said:
            return None
        named, role = ", ".join(repr(text) for text in said), str(message.get("role"))
        if index in self.sampled:
            at = self.sampled.index(index)
            ids = {self.controls[text] for text in said}
            sampled = sum(token_id in ids for token_id in records[at].output_ids[:-1])
            told = (
                f"the reply of turn {turns[at]} says {named} as text and is compared as text; "
                f"{sampled} of it sampled as control tokens"
            )
            return Finding("render", TYPE, Severity.NOTE, told, turn=turns[at], role=role)
        turn = next((turn for at, turn in zip(self.sampled, turns, strict=False) if at > index), turns[-1])
        told = (
            f"message {index} ({role}) says {named}: the family's template makes control tokens of it, so that text "
            f"of a client is structure of the prompt from turn {turn} on"
        )
        return Finding("render", TYPE, Severity.NOTE, told, turn=turn, role=role)

    def _marked(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            for text in self.controls:
                value = value.replace(text, text[:1] + self.mark + text[1:])
            return value
        if isinstance(value, list):
            return [self._marked(item) for item in value]
        if isinstance(value, dict):
            return {key: self._marked(item) for key, item in value.items()}
        return value


def _text(value: JsonValue) -> str:
    """All strings of a value, one after the other; of a message all that a template may print."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    if isinstance(value, dict):
        return "\n".join(map(_text, value.values()))
    return ""
