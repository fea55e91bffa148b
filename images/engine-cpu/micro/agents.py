"""The verifier's two agents in small: they drive a model in closed loop and say what each turn had to be.

They follow the verifier's schedules message by message, reacting to what the model really said (no call found, so the
sentinel is sent). What they leave out belongs to the verifier: sessions, retries, token checks.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from micro import script, wordings
from micro.dialogues import Speaker
from micro.dice import seeded
from micro.turns import Dialogue, JsonObject, Kind, Reply, Turn

Choice: TypeAlias = Literal["auto", "named", "none"]


@dataclass(frozen=True)
class Ask:
    """One request: the history so far, and what the reply has to be."""

    dialogue: Dialogue
    choice: Choice
    due: Kind
    city: str
    """The city that a call has to carry, or that a report has to name."""
    turn: str
    """The class of the turn, for the figures: the kind of its last message."""


@dataclass
class Agent:
    """The state of one closed-loop dialogue. `held` uses held-out wordings and random cities."""

    rng: random.Random
    held: bool
    messages: list[JsonObject | Turn] = field(default_factory=list)
    tools: tuple[JsonObject, ...] = (script.TOOL,)
    city: str = script.FIRST_CITY
    asked: int = 0
    used: int = 0
    reply: Reply = field(default_factory=lambda: Reply("", ""))

    def words(self, held: wordings.Wordings, verbatim: str) -> str:
        """A wording of this dialogue's sort."""
        return self.rng.choice(held.held) if self.held else verbatim

    def add(self, role: str, text: str, **fields: str) -> None:
        """Append a client message."""
        self.messages.append({"role": role, "content": text, **fields})

    def system(self) -> None:
        """Open the dialogue."""
        if self.held:
            self.tools = (self.rng.choice(wordings.tools()),)
        self.add("system", self.words(wordings.SYSTEMS, script.SYSTEM))

    def question(self, verbatim_city: str) -> None:
        """Append a question about the next city."""
        first = self.asked == 0
        self.asked += 1
        self.city = self.rng.choice(wordings.CITIES) if self.held else verbatim_city
        verbatim = script.FIRST if first else script.FOLLOWUP
        self.add("user", self.words(wordings.QUESTIONS, verbatim).format(city=self.city))

    def result(self) -> str:
        """The next tool result."""
        self.used += 1
        if self.held:
            return Speaker(self.rng).result_text()
        return script.RESULTS[(self.used - 1) % len(script.RESULTS)]

    def complete(self, turn: str, due: Kind, choice: Choice = "auto") -> Iteration:
        """Ask for one reply and append it to the history."""
        ask = Ask(Dialogue(tuple(self.messages), self.tools), choice, due, self.city, turn)
        self.reply = yield ask
        self.messages.append(Turn(due, self.reply.thought, self.reply.content, calls=self.reply.calls))


Iteration: TypeAlias = Generator[Ask, Reply, None]


def openai(agent: Agent, cycles: int, mode: Literal["tool", "user"] = "tool") -> Iteration:
    """The OpenAI agent for a family that may append every role; `mode` is the role of the sentinel."""
    due: tuple[str, Kind] = ("question", Kind.CALL)

    def act(action: str) -> Iteration:
        nonlocal due
        if action == "rollback":
            agent.messages.pop()
        elif action == "tool":
            if agent.reply.calls:
                for index, _ in enumerate(agent.reply.calls):
                    agent.add("tool", agent.result(), tool_call_id=f"call_{len(agent.messages)}_{index}")
                due = ("result", Kind.REPORT)
            else:
                text = agent.words(wordings.SENTINELS, script.SENTINEL)
                if mode == "tool":
                    agent.add("tool", text, tool_call_id="none")
                else:
                    agent.add("user", text)
                due = (f"sentinel ({mode})", Kind.CALL)
        elif action == "user":
            agent.question(script.FOLLOWUP_CITIES[(agent.asked - 1) % len(script.FOLLOWUP_CITIES)])
            due = ("question", Kind.CALL)
        elif action == "system":
            agent.add("system", agent.words(wordings.REMINDERS, script.REMINDER))
            due = ("reminder", Kind.NOTE)
        else:
            if action == "assistant":
                for text in script.INJECTED:
                    agent.messages.append(Turn(Kind.CHAT, content=text, learned=False, thinks=False))
            verbatim = script.SUMMARY if action == "assistant" else script.FINAL
            agent.add("user", agent.words(wordings.SUMMARIES, verbatim))
            due = ("summary", Kind.SUMMARY)
        yield from agent.complete(*due)

    cycle = ["tool", "user", "tool", "system", "rollback"]
    agent.system()
    agent.question(script.FIRST_CITY)
    yield from agent.complete(*due)
    for action in [*cycle, "rollback", *cycle * (cycles - 1), "final", "assistant"]:
        yield from act(action)


def anthropic(agent: Agent) -> Iteration:
    """The Anthropic agent: three rounds of a forced call and a text turn, the third with reminder and error."""
    agent.system()
    for index, city in enumerate((script.FIRST_CITY, *script.FOLLOWUP_CITIES[:2])):
        if index == 2:
            agent.add("system", agent.words(wordings.REMINDERS, script.REMINDER))
        agent.question(city)
        yield from agent.complete("forced question", Kind.CALL, "named")
        text = agent.words(wordings.FAILURES, script.UNAVAILABLE) if index == 2 else agent.result()
        agent.add("tool", text, tool_call_id=f"call_{index}")
        due = Kind.FAILURE if index == 2 else Kind.REPORT
        yield from agent.complete("error result" if index == 2 else "text after result", due, "none")


def cast(seed: int, count: int) -> Iterator[Iteration]:
    """`count` dialogues of each kind: verifier's texts and held-out wordings, both agents, both sentinel roles."""
    for index in range(count):
        for held in (False, True):
            rng = seeded(seed, index, held)
            agent = Agent(rng, held)
            mode: Literal["tool", "user"] = "user" if index % 4 == 3 else "tool"
            yield openai(agent, cycles=3 if index % 4 == 2 else 2, mode=mode)
            yield anthropic(
                replace(agent, rng=seeded(seed, index, held, "anthropic"), messages=[], tools=(script.CONVERTED,))
            )
