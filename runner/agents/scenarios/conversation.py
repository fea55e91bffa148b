"""A session in small steps, the same ones on both wires: what most scripts are written with.

It keeps the history in the form of the wire, sends all of it with every turn, and writes each turn into the transcript
together with the turn that it must hang under. That parent follows from what was said alone (`parent`), never from what
the server answers. It does not decide what to say, and it does not look at tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from runner.agents import script
from runner.agents.records import JsonObject, Reply
from runner.agents.scenarios.scene import Scene
from runner.agents.transcript import TurnLog
from runner.agents.turns import Request, Turns
from runner.base.errors import ModelIncompleteError, VerificationError

STAGE: Final = "reply"
NO_CALL: Final = "no_forced_call"
UNEXPECTED_CALL: Final = "unexpected_call"


class Choice(StrEnum):
    """What a turn may be. As the action of a turn in the transcript, `forced_tool` also tells the oracle that a
    grammar has masked the log-probs."""

    AUTO = "auto"
    TEXT = "text"
    CALL = "forced_tool"


@dataclass(frozen=True)
class Tool:
    """A tool in no wire's form. `strict` None leaves it unsaid."""

    name: str
    description: str
    parameters: JsonObject
    strict: bool | None = None


@dataclass(frozen=True)
class Call:
    """A tool call in no wire's form."""

    id: str
    name: str
    arguments: JsonValue


WEATHER: Final = Tool(script.TOOL_NAME, script.TOOL_DESCRIPTION, script.TOOL_PARAMETERS, strict=False)


class Conversation(ABC):
    """One session on one wire. The steps before a turn only add to the history; `turn` sends it.

    `history` has the system prompt as its first message on either wire.
    """

    retries: int
    """Repeats of one turn from the same parent."""

    def __init__(self, scene: Scene, tools: Sequence[Tool] = (WEATHER,), system: JsonValue = script.SYSTEM) -> None:
        self.scene = scene
        self.tools = [self.tool(tool) for tool in tools]
        self.history: list[JsonObject] = [{"role": "system", "content": system}]
        scene.transcript.tools = self.tools
        self._turns = Turns(scene.settings, scene.transcript, scene.emit, scene.on_attempt, self.retries)

    def user(self, content: JsonValue) -> None:
        """Say something as the user: a text, or a list of `{"type": "text", "text": ...}`."""
        self.history.append({"role": "user", "content": content})

    @abstractmethod
    def results(self, results: Sequence[tuple[str, JsonValue]]) -> None:
        """Answer tool calls, in this order: pairs of a call's id and its result, a text or a list of text parts."""

    @abstractmethod
    def authored(self, text: str, calls: Sequence[Call]) -> None:
        """Say something as the assistant that no engine sampled."""

    @abstractmethod
    def calls_of(self, message: JsonObject) -> list[Call]:
        """The tool calls of an assistant message, in order; arguments as a value.

        Raises VerificationError for arguments that are no JSON.
        """

    def drop_reply(self) -> None:
        """Take the last message back, which must be an assistant's."""
        if self.history[-1].get("role") != "assistant":
            raise ValueError("only an assistant message can be taken back")
        self.history.pop()

    async def turn(
        self,
        choice: Choice,
        *,
        action: str | None = None,
        max_tokens: int | None = None,
        extra: JsonObject | None = None,
    ) -> JsonObject:
        """Ask for the next assistant message, which is in history and transcript then.

        A reply that is cut, empty or not of the kind that `choice` asks for is asked for again from the same parent.
        `extra` are further fields of the request that hold the engine to a pattern. `action` names the turn in the
        transcript; turns that a grammar or a pattern masks have one name, because the oracle reads it.

        Raises ModelIncompleteError when the model does not finish, VerificationError for a reply that is wrong.
        """
        number = self._turns.next
        sent = list(self.history)

        async def ask(retry: int) -> Reply:
            return await self.ask({**self.body(sent, choice, retry, max_tokens), **(extra or {})})

        message = await self._turns.take(
            Request(
                action=Choice.CALL.value if extra or choice is Choice.CALL else action or choice.value,
                parent=parent(sent, self.scene.transcript.turns),
                messages=sent,
                ask=ask,
                seed=self.seed,
                rejects=lambda reply: self.rejects(reply, choice),
                check=self.checked,
                exhausted=lambda cause: self.exhausted(number, cause),
            )
        )
        self.history.append(message)
        return message

    async def refused(self, status: int, saying: str, choice: Choice = Choice.AUTO) -> None:
        """Send the history as a turn that the server must refuse with `status` and a text that holds `saying`.

        Raises VerificationError for any other answer. History and transcript stay as they are.
        """
        scene = self.scene
        body = self.body(list(self.history), choice, 0, None)
        path = self.path
        answer = await scene.client.refused(scene.session, path, body, scene.settings.turn_timeout)
        if answer.status != status or saying not in answer.text:
            raise VerificationError(
                "refusal",
                f"POST {path} after turn {len(scene.transcript.turns)} answered {answer.status}, expected {status} "
                f"with {saying!r} in it: {answer.text}",
            )

    path: str
    """Of a turn, below the session's own."""

    @abstractmethod
    def tool(self, tool: Tool) -> JsonObject:
        """A tool in the form of the wire."""

    @abstractmethod
    def body(self, history: Sequence[JsonObject], choice: Choice, retry: int, max_tokens: int | None) -> JsonObject:
        """A request. `retry` counts from 0; `max_tokens` None is the cell's."""

    @abstractmethod
    async def ask(self, body: JsonObject) -> Reply:
        """Send a request."""

    @abstractmethod
    def seed(self, retry: int) -> int | None:
        """The seed that a request carries, None where the wire has none."""

    @abstractmethod
    def rejects(self, reply: Reply, choice: Choice) -> str | None:
        """Why the reply is to be asked for again, or None."""

    @abstractmethod
    def checked(self, reply: Reply) -> JsonObject:
        """The message as it becomes history. Raises VerificationError for what no repeat can mend."""

    def exhausted(self, number: int, cause: str) -> VerificationError:
        """The error for a turn that was asked for again in vain."""
        message = f"turn {number}: exhausted {self.retries} retries after {cause}"
        return ModelIncompleteError(STAGE, message) if cause in _UNFINISHED else VerificationError(STAGE, message)


_UNFINISHED: Final = frozenset({"length", "max_tokens", "empty"})


def parent(history: Sequence[JsonObject], turns: Sequence[TurnLog]) -> int | None:
    """The turn that a request with this history hangs under: the deepest one whose messages and reply all stand at its
    front, of equally deep ones the latest; None for a new beginning. Marks for caching take no part."""
    plain = [unmarked(message) for message in history]
    found: tuple[int, int] | None = None
    for turn in turns:
        told = [*turn.messages, turn.reply]
        deep = (len(told), turn.turn)
        if plain[: len(told)] == [unmarked(message) for message in told] and (found is None or deep > found):
            found = deep
    return found[1] if found else None


def unmarked(value: JsonValue) -> JsonValue:
    """The value without `cache_control` anywhere."""
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value
