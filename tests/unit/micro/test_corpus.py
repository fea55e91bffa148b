"""The generated corpus: reproducible, complete, and with loss on sampled assistant tokens only."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from micro import corpus, script, template
from micro.corpus import Recipe
from micro.dice import seeded
from micro.families import Family
from micro.turns import Call, Dialogue, Kind, Spacing, Turn
from tokenizers import Tokenizer

STAGE = Recipe().stages[-1]


@pytest.fixture(scope="module")
def taught() -> set[str]:
    """The contents of all messages of 400 dialogues."""
    messages = [message for dialogue in islice(corpus.dialogues(1, STAGE), 400) for message in dialogue.messages]
    return {message.content if isinstance(message, Turn) else str(message["content"]) for message in messages}


def test_one_seed_gives_the_same_dialogues_every_time() -> None:
    assert list(islice(corpus.dialogues(3, STAGE), 30)) == list(islice(corpus.dialogues(3, STAGE), 30))


def test_another_seed_gives_other_dialogues() -> None:
    assert list(islice(corpus.dialogues(3, STAGE), 5)) != list(islice(corpus.dialogues(4, STAGE), 5))


def test_the_fingerprint_changes_with_the_seed_a_wording_and_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    before = corpus.fingerprint(Recipe(seed=1))
    assert corpus.fingerprint(Recipe(seed=2)) != before
    with monkeypatch.context() as patch:
        patch.setattr("micro.wordings.NOTES", ("Fine.", "Understood."))
        assert corpus.fingerprint(Recipe(seed=1)) != before
    with monkeypatch.context() as patch:
        patch.setattr("micro.corpus.SEAM", 0.5)
        assert corpus.fingerprint(Recipe(seed=1)) != before
    assert corpus.fingerprint(Recipe(seed=1)) == before


@pytest.mark.parametrize(
    "sentence",
    [
        script.SYSTEM,
        script.FIRST,
        *(script.FOLLOWUP.format(city=city) for city in script.FOLLOWUP_CITIES),
        *script.RESULTS,
        script.REMINDER,
        script.SENTINEL,
        script.FINAL,
        script.SUMMARY,
        *script.INJECTED,
        script.UNAVAILABLE,
    ],
)
def test_every_text_of_the_verifier_is_in_the_corpus_word_for_word(sentence: str, taught: set[str]) -> None:
    assert sentence in taught


def test_every_kind_of_reply_and_every_sentinel_role_is_in_the_corpus() -> None:
    kinds, sentinels = set(), set()
    for dialogue in islice(corpus.dialogues(1, STAGE), 400):
        for message in dialogue.messages:
            if isinstance(message, Turn):
                kinds.add(message.kind)
            elif message["content"] == script.SENTINEL:
                sentinels.add((message["role"], message.get("tool_call_id")))
    assert kinds == set(Kind)
    assert sentinels == {("tool", "none"), ("user", None)}


def test_loss_covers_exactly_the_sampled_turns_and_their_end_token(
    family: Family, chat_template: str, tokenizer: Tokenizer
) -> None:
    learned = Turn(Kind.REPORT, "I answer.", "It is sunny in Oslo, 3 degrees.", copied=("Oslo",))
    injected = Turn(Kind.CHAT, content="One moment, please.", learned=False, thinks=False)
    dialogue = Dialogue(({"role": "user", "content": "Hello"}, learned, injected, {"role": "user", "content": "Hi"}))
    example = corpus.encode(dialogue, family, chat_template, tokenizer, seeded(0))
    assert len(example.ids) == len(example.weights)
    covered = [index for index, weight in zip(example.ids, example.weights, strict=True) if weight > 0]
    assert tokenizer.decode(covered, skip_special_tokens=False) == family.write(learned) + family.end
    heavy = [index for index, weight in zip(example.ids, example.weights, strict=True) if weight == 2.0]
    assert tokenizer.decode(heavy, skip_special_tokens=False) == "Oslo"


def test_what_a_grammar_forces_carries_no_loss(family: Family) -> None:
    turn = Turn(
        Kind.CALL,
        "The user asks.",
        calls=(Call("get_weather", {"location": "Rome"}),),
        copied=("Rome",),
        spacing=Spacing.FORCED,
    )
    written = family.write(turn)
    weights = corpus.character_weights(written, turn, family)
    free = "".join(character for character, weight in zip(written, weights, strict=True) if weight == 0)
    assert free == family.forced
    assert weights[written.index("Rome")] == corpus.COPIED_WEIGHT
    plain = Turn(turn.kind, turn.thought, calls=turn.calls)
    assert 0.0 not in corpus.character_weights(family.write(plain), plain, family)


def test_forced_calls_are_encoded_in_several_token_splits_of_one_text(
    family: Family, chat_template: str, tokenizer: Tokenizer
) -> None:
    turn = Turn(Kind.CALL, "The user asks.", calls=(Call("get_weather", {"location": "Rome"}),), spacing=Spacing.FORCED)
    dialogue = Dialogue(({"role": "user", "content": "Rome?"}, turn))
    rng = seeded(0)
    splits = {tuple(corpus.encode(dialogue, family, chat_template, tokenizer, rng).ids) for _ in range(40)}
    assert len(splits) > 5
    assert len({tokenizer.decode(list(ids), skip_special_tokens=False) for ids in splits}) == 1


def test_no_dialogue_of_the_last_stage_but_a_few_is_too_long_to_train_on(
    family: Family, chat_template: str, tokenizer: Tokenizer
) -> None:
    rng = seeded(0)
    lengths = [
        len(corpus.encode(dialogue, family, chat_template, tokenizer, rng).ids)
        for dialogue in islice(corpus.dialogues(1, STAGE), 100)
    ]
    assert max(lengths) > 1000, "long histories are part of the corpus"
    assert sum(length > STAGE.tokens for length in lengths) <= 5


def test_held_out_wordings_are_not_taught() -> None:
    from micro import wordings

    groups = [value for value in vars(wordings).values() if isinstance(value, wordings.Wordings)]
    assert groups
    for group in groups:
        assert group.held
        assert not set(group.held) & set(group.taught)


def test_a_dialogue_renders_to_the_text_that_the_template_gives_for_plain_messages(
    family: Family, chat_template: str
) -> None:
    """The placeholder rendering of the corpus and the template's own rendering of the same conversation are equal."""
    from micro.backend import Request
    from micro.engine import messages
    from transformers.utils.chat_template_utils import render_jinja_template

    compared = 0
    for dialogue in islice(corpus.dialogues(5, STAGE), 60):
        if any(isinstance(message, Turn) and message.spacing is not Spacing.TEMPLATE for message in dialogue.messages):
            continue
        pieces = template.render(family, chat_template, dialogue)
        ours = "".join(piece if isinstance(piece, str) else family.write(piece) for piece in pieces)
        plain = messages(Request([], dialogue, "auto"))
        for message in plain:
            for call in message.get("tool_calls", []):
                # Servers hand arguments to a template as an object.
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        options = {} if dialogue.fresh else family.template_options
        theirs, _ = render_jinja_template(
            conversations=[plain], chat_template=chat_template, tools=list(dialogue.tools) or None, **options
        )
        assert ours == theirs[0]
        compared += 1
    assert compared > 20
