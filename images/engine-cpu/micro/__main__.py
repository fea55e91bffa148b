"""Command line: `python -m micro corpus|tokenizer|train|evaluate|template --family qwen3 ...`."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from micro import corpus, template, vocabulary
from micro.corpus import Recipe
from micro.families import FAMILIES, Family

MODELS = Path(__file__).resolve().parent.parent / "models"
EPILOG = """\
examples:
  python -m micro corpus --family qwen3 --count 2          look at two training dialogues
  python -m micro train --family qwen3                     train models/qwen3 again (minutes on 2 cores)
  python -m micro evaluate --family qwen3                  measure the committed model with torch
  python -m micro evaluate --family qwen3 --url http://127.0.0.1:30000   measure it behind a real engine
  python -m micro template --family qwen3 --out /models/qwen3            write the chat template into a model directory
"""


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = argparse.ArgumentParser(
        prog="python -m micro",
        description="Make and measure the micro models that the CPU engine serves.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--family", required=True, choices=sorted(FAMILIES), help="model family")

    sub = commands.add_parser("corpus", parents=[common], help="print generated training dialogues")
    sub.add_argument("--count", type=_positive, default=3, help="dialogues to print (default 3)")
    sub.add_argument("--seed", type=int, default=Recipe().seed, help="seed of the corpus")

    sub = commands.add_parser("tokenizer", parents=[common], help="train the tokenizer alone")
    sub.add_argument("--out", type=Path, required=True, help="directory for tokenizer.json and tokenizer_config.json")
    sub.add_argument("--seed", type=int, default=Recipe().seed, help="seed of the corpus")

    sub = commands.add_parser("train", parents=[common], help="train tokenizer and weights, evaluate, write the model")
    sub.add_argument("--out", type=Path, help="model directory (default: models/FAMILY beside this package)")
    sub.add_argument(
        "--seed", type=int, default=Recipe().seed, help="first seed; the next ones follow if quality is low"
    )
    sub.add_argument("--attempts", type=_positive, default=4, help="seeds to try at most (default 4)")
    sub.add_argument("--dialogues", type=_positive, default=12, help="evaluation size, as in evaluate (default 12)")

    sub = commands.add_parser("evaluate", parents=[common], help="measure a model in closed loop; 1 if below the bar")
    sub.add_argument("--model", type=Path, help="model directory (default: models/FAMILY beside this package)")
    sub.add_argument("--url", help="ask this engine over HTTP instead of running the weights with torch")
    sub.add_argument("--served-name", help="the engine's model name (default: the family)")
    sub.add_argument("--temperature", type=float, default=0.7, help="sampling temperature (default 0.7)")
    sub.add_argument("--dialogues", type=_positive, default=12, help="dialogues of each of the four kinds (default 12)")
    sub.add_argument("--seed", type=int, default=7, help="seed of the dialogues, and of torch's sampling")
    sub.add_argument("--json", type=Path, help="write the counts to this file as well")

    sub = commands.add_parser("template", parents=[common], help="write the family's chat template into a directory")
    sub.add_argument("--out", type=Path, required=True, help="model directory")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 1 where a model is below the bar or a needed file is not there."""
    options = parser().parse_args(arguments)
    family = FAMILIES[options.family]
    # Read when torch is first imported. Waiting threads that spin make a training many times slower beside other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        if options.command == "corpus":
            return _corpus(family, options)
        if options.command == "tokenizer":
            return _tokenizer(family, options)
        if options.command == "train":
            return _train(family, options)
        if options.command == "evaluate":
            return _evaluate(family, options)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / template.FILE).write_text(template.read(family), encoding="utf-8")
    except (template.TemplateMissingError, FileNotFoundError) as error:
        print(f"micro: {error}", file=sys.stderr)
        return 1
    return 0


def _corpus(family: Family, options: argparse.Namespace) -> int:
    text = template.read(family)
    recipe = Recipe(seed=options.seed)
    for dialogue in itertools.islice(corpus.dialogues(recipe.seed, recipe.stages[-1]), options.count):
        pieces = template.render(family, text, dialogue)
        print("".join(piece if isinstance(piece, str) else family.write(piece) for piece in pieces))
        print("=" * 80)
    print(f"corpus sha256 {corpus.fingerprint(recipe)}")
    return 0


def _tokenizer(family: Family, options: argparse.Namespace) -> int:
    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary.train(corpus.texts(Recipe(seed=options.seed), family, template.read(family)), family)
    vocabulary.save(tokenizer, family, options.out)
    print(f"{tokenizer.get_vocab_size()} tokens in {options.out / 'tokenizer.json'}")
    return 0


def _train(family: Family, options: argparse.Namespace) -> int:
    from micro import evaluate, export, manifest, train
    from micro.local import Local

    text = template.read(family)
    out = options.out or MODELS / family.name
    best: tuple[float, int] | None = None
    for attempt in range(options.attempts):
        recipe = Recipe(seed=options.seed + attempt)
        say = _clock(f"{family.name} seed {recipe.seed}")
        tokenizer = vocabulary.train(corpus.texts(recipe, family, text), family)
        say(f"tokenizer of {tokenizer.get_vocab_size()} tokens; training {recipe.steps} steps")
        model = train.fit(recipe, family, text, tokenizer, say)
        measured = {"temperature": 0.7, "seed": 7, "dialogues": options.dialogues}
        backend = Local(model, tokenizer, family, temperature=0.7, seed=7)
        figures = evaluate.run(backend, family, text, tokenizer, 7, options.dialogues, say)
        print(figures.table(), flush=True)
        score = min(figures.calls.share, figures.texts.share, figures.cities.share)
        if best is None or score > best[0]:
            best = (score, recipe.seed)
            weights = export.write(model, tokenizer, family, out)
            manifest.write(out, manifest.compose(out, family, recipe, weights, figures, measured))
            say(f"written to {out}: the best so far")
        if not figures.shortfalls(evaluate.TARGET):
            return 0
        say(f"below the target for a trained model: {'; '.join(figures.shortfalls(evaluate.TARGET))}")
    print(f"micro: no seed reached the target; the best, seed {best[1] if best else '-'}, is in {out}", file=sys.stderr)
    return 1


def _evaluate(family: Family, options: argparse.Namespace) -> int:
    from micro import evaluate
    from micro.backend import Backend
    from micro.engine import Engine

    directory = options.model or MODELS / family.name
    text = template.read(family)
    tokenizer = vocabulary.load(directory)
    backend: Backend
    if options.url:
        backend = Engine(options.url, options.served_name or family.name, options.temperature)
    else:
        from micro.local import Local

        backend = Local.load(directory, family, options.temperature, options.seed)
    figures = evaluate.run(backend, family, text, tokenizer, options.seed, options.dialogues, _clock(family.name))
    print(figures.table())
    for failure in figures.failures:
        print(f"wrong: {failure}")
    if options.json:
        options.json.write_text(json.dumps(figures.record(), indent=2) + "\n", encoding="utf-8")
    short = figures.shortfalls(evaluate.Bar())
    for line in short:
        print(f"micro: {line}", file=sys.stderr)
    return 1 if short else 0


def _clock(name: str) -> Callable[[str], None]:
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - begun:6.1f} s] {name}: {line}", flush=True)

    return say


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


if __name__ == "__main__":
    sys.exit(main())
