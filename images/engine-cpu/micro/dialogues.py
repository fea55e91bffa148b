"""Generated dialogues: the verifier's schedules and random walks over the same kinds of messages.

The schedules put the model where the verifier will put it; the walks keep it from learning the order of a schedule
instead of the rule "one kind of reply per kind of last message". A dialogue is a function of its random generator
alone, so that a corpus is reproducible from one seed.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from micro import script, wordings
from micro.turns import Call, Dialogue, JsonObject, Kind, Spacing, Turn
from micro.wordings import Wordings

TAIL_LIMIT = 40
"""Most messages of a dialogue; a walk that long is near the end of the training context."""


@dataclass(frozen=True)
class Report:
    """What a tool result says."""

    condition: str
    temperature: int


@dataclass
class Speaker:
    """Writes one dialogue: keeps what was asked and reported so far, and answers each client message by its kind."""

    rng: random.Random
    verbatim: bool = False
    """Only the verifier's own texts and cities."""
    held: bool = False
    """Only wordings that are not in the corpus."""
    spacings: tuple[Spacing, ...] = (Spacing.TEMPLATE,)
    """How calls may be spaced."""
    messages: list[JsonObject | Turn] = field(default_factory=list)
    city: str | None = None
    report: Report | None = None
    reported: str | None = None
    """The city of the last report."""
    pending: bool = False
    """The last assistant turn is a call that nobody answered yet."""
    identifiers: int = 0

    def _pick(self, words: Wordings, verbatim: str) -> str:
        if self.verbatim or (not self.held and self.rng.random() < 0.3):
            return verbatim
        return self.rng.choice(words.held if self.held else words.taught)

    def _say(self, kind: Kind, thought: str, content: str = "", call: bool = False) -> None:
        values = {
            "city": self.city or "",
            "condition": self.report.condition if self.report else "",
            "temperature": str(self.report.temperature) if self.report else "",
        }
        calls: tuple[Call, ...] = ()
        if call:
            calls = (Call("get_weather", {"location": values["city"]}),)
        self.messages.append(
            Turn(
                kind=kind,
                thought=thought.format(**values),
                content=content.format(**values),
                calls=calls,
                copied=tuple(value for value in values.values() if value),
                spacing=self.rng.choice(self.spacings) if calls else Spacing.TEMPLATE,
            )
        )
        self.pending = call

    def system(self, text: str | None = None) -> None:
        """The leading system message."""
        self.messages.append({"role": "system", "content": text or self._pick(wordings.SYSTEMS, script.SYSTEM)})

    def ask(self, city: str | None = None, text: str | None = None) -> None:
        """A question about a city, and its call."""
        if self.verbatim and text is None:
            text = script.FIRST.replace(script.FIRST_CITY, "{city}") if self.city is None else script.FOLLOWUP
        self.city = city or self.rng.choice([name for name in wordings.CITIES if name != self.city])
        wording = text or self._pick(wordings.QUESTIONS, script.FOLLOWUP)
        self.messages.append({"role": "user", "content": wording.format(city=self.city)})
        self._say(Kind.CALL, self.rng.choice(wordings.CALL_THOUGHTS), call=True)

    def result(self, text: str | None = None) -> None:
        """The tool's result for the pending call, and the report."""
        if text is None:
            text = self.result_text()
        self.report = read_report(text)
        self.reported = self.city
        self._tool(text)
        self._say(Kind.REPORT, self.rng.choice(wordings.REPORT_THOUGHTS), self.rng.choice(wordings.REPORTS))

    def result_text(self) -> str:
        """A tool result: JSON of varied form, or one of the verifier's."""
        if self.verbatim:
            return self.rng.choice(script.RESULTS)
        values: list[tuple[str, str | int]] = [
            ("temperature", self.rng.choice(wordings.TEMPERATURES)),
            ("condition", self.rng.choice(wordings.CONDITIONS)),
            ("humidity", self.rng.choice(wordings.HUMIDITIES)),
        ]
        if self.rng.random() < 0.25:
            self.rng.shuffle(values)
        if self.rng.random() < 0.2:
            values = [item for item in values if item[0] != "humidity"]
        if self.rng.random() < 0.15:
            values.insert(0, ("location", self.city or ""))
        return json.dumps(dict(values))

    def failure(self, text: str | None = None) -> None:
        """An error sentence as the tool's result, and the reply that says so."""
        self._tool(text or self._pick(wordings.FAILURES, script.UNAVAILABLE))
        self.report = None
        self._say(Kind.FAILURE, self.rng.choice(wordings.FAILURE_THOUGHTS), self.rng.choice(wordings.FAILURE_REPLIES))

    def unreported(self) -> None:
        """A tool result that other messages follow before the model speaks."""
        self._tool(self.result_text())
        if self.rng.random() < 0.5:
            self.reminder()
        self.pending = False

    def _tool(self, text: str, identifier: str | None = None) -> None:
        self.identifiers += 1
        self.messages.append(
            {"role": "tool", "tool_call_id": identifier or f"call_{self.identifiers}", "content": text}
        )

    def remind(self) -> None:
        """A system reminder as the last message, and its acknowledgement."""
        self.reminder()
        self._say(Kind.NOTE, self.rng.choice(wordings.NOTE_THOUGHTS), self.rng.choice(wordings.NOTES))

    def reminder(self) -> None:
        """A system reminder that another message follows."""
        self.messages.append({"role": "system", "content": self._pick(wordings.REMINDERS, script.REMINDER)})

    def sentinel(self, role: str) -> None:
        """The note that no tool call was found, as `tool` or `user` message, and the call it asks for."""
        text = self._pick(wordings.SENTINELS, script.SENTINEL)
        if role == "tool":
            self._tool(text, "none")
        else:
            self.messages.append({"role": "user", "content": text})
        self._say(Kind.CALL, self.rng.choice(wordings.SENTINEL_THOUGHTS), call=True)

    def inject(self, count: int = 2) -> None:
        """Assistant messages that no engine sampled."""
        texts = script.INJECTED if self.verbatim or self.held else tuple(self.rng.sample(wordings.INJECTED, count))
        for text in texts[:count]:
            self.messages.append(Turn(Kind.CHAT, content=text, learned=False, thinks=False))
        self.pending = False

    def summarise(self, text: str | None = None) -> None:
        """A request for the final answer, and the summary."""
        self.messages.append({"role": "user", "content": text or self._pick(wordings.SUMMARIES, script.FINAL)})
        if self.report is not None and self.reported == self.city:
            self._say(
                Kind.SUMMARY, self.rng.choice(wordings.SUMMARY_THOUGHTS), self.rng.choice(wordings.SUMMARY_REPLIES)
            )
        else:
            self._say(
                Kind.SUMMARY,
                self.rng.choice(wordings.EMPTY_SUMMARY_THOUGHTS),
                self.rng.choice(wordings.EMPTY_SUMMARIES),
            )

    def chat(self) -> None:
        """Small talk, and a polite reply."""
        self.messages.append({"role": "user", "content": self._pick(wordings.CHATS, wordings.CHATS.taught[0])})
        self._say(Kind.CHAT, self.rng.choice(wordings.CHAT_THOUGHTS), self.rng.choice(wordings.CHAT_REPLIES))

    def pair(self) -> None:
        """Two calls in one turn (history only), two results in one tail, and a report on the last."""
        first, second = self.rng.sample(wordings.CITIES, 2)
        self.messages.append({"role": "user", "content": f"What is the weather in {first} and in {second}?"})
        calls = tuple(Call("get_weather", {"location": name}) for name in (first, second))
        self.messages.append(Turn(Kind.CALL, f"The user asks about {first} and {second}.", calls=calls, learned=False))
        self._tool(self.result_text())
        self.city = second
        self.result()

    def stray(self) -> None:
        """A turn that should have been a call and is text: history that a sentinel follows."""
        self.city = self.rng.choice(wordings.CITIES)
        wording = self._pick(wordings.QUESTIONS, script.FOLLOWUP)
        self.messages.append({"role": "user", "content": wording.format(city=self.city)})
        text = self.rng.choice(("I will look it up.", "It is sunny.", "Understood. I will keep that in mind."))
        self.messages.append(Turn(Kind.CHAT, self.rng.choice(wordings.NOTE_THOUGHTS), content=text, learned=False))
        self.pending = False
        self.sentinel(self.rng.choice(("tool", "tool", "user")))


def read_report(text: str) -> Report:
    """The values of a tool result.

    Raises ValueError where the text is not a JSON object with a temperature and a condition.
    """
    value = json.loads(text)
    if not isinstance(value, dict) or not {"temperature", "condition"} <= set(value):
        raise ValueError(f"not a weather report: {text!r}")
    return Report(condition=str(value["condition"]), temperature=int(value["temperature"]))


def openai_schedule(
    speaker: Speaker, cycles: int, mode: str, results: tuple[str, ...], cities: tuple[str, ...]
) -> None:
    """The OpenAI agent's schedule, as it goes when every turn is right.

    `mode` is the role of the sentinel (`tool` or `user`); `results` and `cities` are used in rotation, the first city
    being the one of the first question. A rollback resends what was sent before, so it adds no message.
    """
    used, asked = 0, 0

    def result() -> None:
        nonlocal used
        if not speaker.pending:
            speaker.sentinel(mode)
            return
        speaker.result(results[used % len(results)])
        used += 1

    def follow() -> None:
        nonlocal asked
        asked += 1
        speaker.ask(cities[asked % len(cities)])

    speaker.system()
    speaker.ask(cities[0])
    for _ in range(cycles):
        result()
        follow()
        result()
        speaker.remind()
    speaker.summarise()
    speaker.inject()
    speaker.summarise(script.SUMMARY if speaker.verbatim else None)


def anthropic_schedule(
    speaker: Speaker, cities: tuple[str, str, str], results: tuple[str, str], error: str | None, note: bool
) -> None:
    """The Anthropic agent's three rounds; `note` says whether the third opens with a system message."""
    speaker.system()
    speaker.ask(cities[0])
    speaker.result(results[0])
    speaker.ask(cities[1])
    speaker.result(results[1])
    if note:
        speaker.reminder()
    speaker.ask(cities[2])
    speaker.failure(error)


def walk(speaker: Speaker, steps: int) -> None:
    """`steps` random client messages, each answered."""
    rng = speaker.rng
    if rng.random() < 0.95:
        speaker.system(script.SYSTEM if rng.random() < 0.6 else None)
    if rng.random() < 0.06:
        speaker.chat()
    speaker.ask()
    for _ in range(steps):
        if len(speaker.messages) >= TAIL_LIMIT:
            return
        if speaker.pending:
            weights = {"result": 66, "unreported": 4, "failure": 15, "ask": 12, "remind": 6, "summarise": 3}
        else:
            weights = {
                "ask": 40, "remind": 18, "tool": 12, "user": 5, "summarise": 8, "inject": 6, "reminded": 6,
                "chat": 2, "pair": 1, "stray": 2,
            }  # fmt: skip
        step = rng.choices(list(weights), list(weights.values()))[0]
        if step == "result":
            speaker.result()
        elif step == "failure":
            speaker.failure()
        elif step == "ask":
            speaker.ask()
        elif step == "remind":
            speaker.remind()
        elif step in ("tool", "user"):
            speaker.sentinel(step)
        elif step == "summarise":
            speaker.summarise()
        elif step == "inject":
            speaker.inject(rng.choice((1, 2, 2)))
            speaker.summarise() if rng.random() < 0.8 else speaker.ask()
        elif step == "reminded":
            speaker.reminder()
            speaker.ask()
        elif step == "chat":
            speaker.chat()
        elif step == "unreported":
            speaker.unreported()
            speaker.ask()
        elif step == "pair":
            speaker.pair()
        else:
            speaker.stray()


def generate(rng: random.Random, steps: int) -> Dialogue:
    """One training dialogue of about `steps` client messages (schedules have their own length, cut to `steps`)."""
    shape = rng.random()
    # One server spaces all calls of a dialogue alike; a few are mixed, so that the history does not decide.
    spacings = rng.choices(
        ((Spacing.TEMPLATE,), (Spacing.FORCED,), (Spacing.STRICT,), tuple(Spacing)), (70, 10, 10, 10)
    )[0]
    speaker = Speaker(rng, verbatim=rng.random() < 0.5, spacings=spacings)
    tools: tuple[JsonObject, ...] = tuple(rng.choices(wordings.tools(), (6, 3, 1, 1, 1, 1)))
    if shape < 0.35:
        cycles = max(1, min(4, round(steps / 5)))
        cities: tuple[str, ...]
        if rng.random() < 0.5:
            cities = (script.FIRST_CITY, *script.FOLLOWUP_CITIES)
        else:
            cities = tuple(rng.sample(wordings.CITIES, 5))
        results = script.RESULTS if rng.random() < 0.5 else tuple(Speaker(rng).result_text() for _ in range(4))
        openai_schedule(speaker, cycles, rng.choice(("tool", "tool", "user")), results, cities)
    elif shape < 0.5:
        speaker.spacings = (rng.choice((Spacing.FORCED, Spacing.FORCED, Spacing.TEMPLATE)),)
        names = rng.sample(wordings.CITIES, 3)
        if speaker.verbatim and rng.random() < 0.5:
            names = [script.FIRST_CITY, *script.FOLLOWUP_CITIES[:2]]
        reports = script.RESULTS if speaker.verbatim else tuple(speaker.result_text() for _ in range(2))
        anthropic_schedule(speaker, (names[0], names[1], names[2]), (reports[0], reports[1]), None, rng.random() < 0.7)
    else:
        speaker.verbatim = False
        walk(speaker, steps)
        if rng.random() < 0.02:
            tools = ()
    return Dialogue(tuple(speaker.messages), tools, fresh=rng.random() < 0.12)
