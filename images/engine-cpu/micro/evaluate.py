"""Closed-loop evaluation: does the model say what is due, turn by turn, in the verifier's dialogues?

The figures are counts per class of turn, so that one weak class does not vanish in a mean. The bar is checked on three
of them: well-formed calls, ended non-empty texts, right cities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tokenizers import Tokenizer

from micro import agents, prompt, wordings
from micro.agents import Ask, Iteration
from micro.backend import Backend, Request, Sample
from micro.families import Family
from micro.turns import JsonObject, Kind, Turn

Clock: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Bar:
    """Shares that a model must reach."""

    calls: float = 0.97
    texts: float = 0.97
    cities: float = 0.90
    spelled: float = 0.97


TARGET = Bar(calls=0.99, texts=0.99, cities=0.95, spelled=0.99)
"""What a training must reach to end; above the bar, because quality differs from run to run."""


@dataclass
class Count:
    """`good` of `total` turns were right."""

    good: int = 0
    total: int = 0

    def add(self, good: bool) -> None:
        """Count one turn."""
        self.good += good
        self.total += 1

    @property
    def share(self) -> float:
        """Right turns out of all; 0 where there is none, so that an empty class never passes."""
        return self.good / self.total if self.total else 0.0

    def __str__(self) -> str:
        return f"{self.good}/{self.total} ({self.share:.1%})"


@dataclass
class Figures:
    """The outcome of an evaluation."""

    calls: Count = field(default_factory=Count)
    """Well-formed calls where one is due."""
    texts: Count = field(default_factory=Count)
    """Naturally ended, non-empty texts of the right kind elsewhere."""
    cities: Count = field(default_factory=Count)
    """Right city, out of the well-formed calls."""
    named: Count = field(default_factory=Count)
    """Reports that name the right city."""
    spelled: Count = field(default_factory=Count)
    """Turns without a grammar whose text is the one that the template writes for the same reply: others re-render
    differently, which a verifier counts as a soft mismatch."""
    turns: dict[str, Count] = field(default_factory=dict)
    """Right turns per class (a call counts as right with the right city)."""
    failures: list[str] = field(default_factory=list)
    """The first wrong turns, for people."""

    def shortfalls(self, bar: Bar) -> list[str]:
        """What is below the bar, one sentence each."""
        wanted = (
            ("well-formed calls", self.calls, bar.calls),
            ("ended non-empty texts", self.texts, bar.texts),
            ("right cities", self.cities, bar.cities),
            ("turns spelled as the template does", self.spelled, bar.spelled),
        )
        return [f"{name}: {count} is below {least:.0%}" for name, count, least in wanted if count.share < least]

    def table(self) -> str:
        """The figures as lines for a terminal."""
        rows = [
            ("well-formed calls", self.calls),
            ("ended texts", self.texts),
            ("right city in calls", self.cities),
            ("right city in reports", self.named),
            ("spelled as the template", self.spelled),
            *sorted((f"  {name}", count) for name, count in self.turns.items()),
        ]
        return "\n".join(f"{name:<24} {count}" for name, count in rows)

    def record(self) -> JsonObject:
        """The counts as `[good, total]` pairs."""
        return {
            "calls": [self.calls.good, self.calls.total],
            "texts": [self.texts.good, self.texts.total],
            "cities": [self.cities.good, self.cities.total],
            "named": [self.named.good, self.named.total],
            "spelled": [self.spelled.good, self.spelled.total],
            "turns": {name: [count.good, count.total] for name, count in sorted(self.turns.items())},
        }


@dataclass
class _Seat:
    """One running dialogue: its script, the request it waits for, the ids of its turns so far."""

    script: Iteration
    ask: Ask
    sampled: list[list[int]] = field(default_factory=list)


def judge(ask: Ask, sample: Sample, figures: Figures) -> None:
    """Count one turn."""
    reply, wrong = sample.reply, list(sample.reply.problems)
    if not sample.ended:
        wrong.append("did not end")
    if ask.due is Kind.CALL:
        call = reply.calls[0] if len(reply.calls) == 1 else None
        if call is None:
            wrong.append(f"{len(reply.calls)} calls instead of one")
        elif call.name != "get_weather" or set(call.arguments) != {"location"}:
            wrong.append(f"call {call.name}({call.arguments})")
        figures.calls.add(not wrong)
        if not wrong and call is not None:
            right = call.arguments["location"] == ask.city
            figures.cities.add(right)
            if not right:
                wrong.append(f"city {call.arguments['location']} instead of {ask.city}")
    else:
        if reply.calls:
            wrong.append("a call where text is due")
        if not reply.content:
            wrong.append("no text")
        if ask.due is Kind.SUMMARY and not (
            reply.content.startswith("<final_answer>") and reply.content.endswith("</final_answer>")
        ):
            wrong.append("no <final_answer> tags")
        figures.texts.add(not wrong)
        if not wrong and ask.due in (Kind.REPORT, Kind.FAILURE):
            named = ask.city in reply.content
            figures.named.add(named)
            if not named:
                wrong.append(f"{ask.city} is not named")
    figures.turns.setdefault(ask.turn, Count()).add(not wrong)
    if wrong and len(figures.failures) < 40:
        figures.failures.append(f"{ask.turn}: {'; '.join(wrong)} | {reply.thought!r} {reply.content!r} {reply.calls!r}")


def run(
    backend: Backend, family: Family, text: str, tokenizer: Tokenizer, seed: int, count: int, say: Clock
) -> Figures:
    """Drive `count` dialogues of each of the four kinds; `text` is the chat template. `say` gets progress lines."""
    figures = Figures()
    seats = [_Seat(script, next(script)) for script in agents.cast(seed, count)]
    rounds = 0
    while seats:
        requests = []
        for seat in seats:
            # A rollback drops the last turn, and with it the ids of that turn.
            owned = sum(1 for message in seat.ask.dialogue.messages if _owned(message))
            del seat.sampled[owned:]
            ids = prompt.build(seat.ask.dialogue, seat.sampled, family, text, tokenizer)
            requests.append(Request(ids, seat.ask.dialogue, seat.ask.choice))
        going = []
        for seat, sample in zip(seats, backend.sample(requests), strict=True):
            judge(seat.ask, sample, figures)
            if not sample.ended:
                continue  # a turn that was cut off cannot be extended
            if not _constrained(seat.ask):
                spelling = tokenizer.decode(sample.ids, skip_special_tokens=False)
                canonical = Turn(seat.ask.due, sample.reply.thought, sample.reply.content, sample.reply.calls)
                figures.spelled.add(spelling == family.write(canonical) + family.end)
            seat.sampled.append(sample.ids)
            try:
                seat.ask = seat.script.send(sample.reply)
            except StopIteration:
                continue
            going.append(seat)
        seats = going
        rounds += 1
        say(f"round {rounds}: {len(seats)} dialogues go on, calls {figures.calls}, texts {figures.texts}")
    return figures


def _constrained(ask: Ask) -> bool:
    """Whether a grammar writes the call: for a named tool choice, and for a strict tool under any choice."""
    return ask.choice == "named" or any(wordings.is_strict(tool) for tool in ask.dialogue.tools)


def _owned(message: JsonObject | Turn) -> bool:
    return isinstance(message, Turn) and message.thinks
