"""A tokenizer read without `transformers` is the one that `transformers` reads, or is left to it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from session_server.tito import plain
from session_server.tito.families import FAMILIES
from session_server.tito.vocabulary import TokenizerError, Vocabulary
from session_testing.families import checkpoint
from session_testing.tokenizers import QWEN_SPECIALS, byte_level, qwen_checkpoint, sentencepiece_like
from transformers import AutoTokenizer, PreTrainedTokenizerFast

PACKAGE = Path(__file__).parents[3] / "images" / "session-server"
KINDS = {"byte level": byte_level, "sentencepiece like": sentencepiece_like}
TEXTS = (
    *("", "\n", "Hello, world!", " two  spaces\n\n", "naïve 東京 🙂", '{"a": [1, 2.5, null]}'),
    *("".join(QWEN_SPECIALS), "a<think>b</think> <|im_end|>\n<|im_start|>user\n", "e\u0301 \u00a0\u2028"),
)


def edit(directory: Path, name: str, **entries: Any) -> None:
    """Replace entries of a JSON file; None removes one."""
    path = directory / name
    value = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({key: entry for key, entry in value.items() if entry is not None}))


def declared(directory: Path) -> dict[str, Any]:
    """The added tokens as tokenizer_config.json lists them."""
    shape = json.loads((directory / "tokenizer.json").read_text())
    return {str(token.pop("id")): token for token in shape["added_tokens"]}


def thorough(directory: Path) -> None:
    """Everything that may be said beside the file without changing anything."""
    edit(
        directory,
        "tokenizer_config.json",
        add_bos_token=True,
        add_eos_token=False,
        add_prefix_space=False,
        added_tokens_decoder=declared(directory),
        backend="tokenizers",
        chat_template="{{ messages }}",
        errors="replace",
        model_input_names=["input_ids"],
        model_max_length=8,
        pad_token=next(iter(declared(directory).values()))["content"],
        padding_side="left",
        split_special_tokens=False,
    )


def assert_the_same(directory: Path, texts: Iterable[str] = TEXTS) -> None:
    ours = plain.read(directory)
    assert ours is not None
    theirs = AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    backend = theirs.backend_tokenizer
    # what is put around a text is never asked for; transformers writes an empty one where there is none
    backend.post_processor = ours.backend_tokenizer.post_processor
    assert json.loads(ours.backend_tokenizer.to_str()) == json.loads(backend.to_str())
    assert ours.special_tokens_map == theirs.special_tokens_map
    assert (ours.all_special_ids, ours.all_special_tokens) == (theirs.all_special_ids, theirs.all_special_tokens)
    assert (ours.eos_token_id, ours.chat_template, len(ours)) == (
        theirs.eos_token_id,
        theirs.chat_template,
        len(theirs),
    )
    assert ours.get_vocab() == theirs.get_vocab()
    assert {key: repr(token) for key, token in ours.added_tokens_decoder.items()} == {
        key: repr(token) for key, token in theirs.added_tokens_decoder.items()
    }
    for text in texts:
        ids = theirs.encode(text, add_special_tokens=False)
        assert ours.encode(text, add_special_tokens=False) == ids
        for skip in (True, False):
            asked = {"skip_special_tokens": skip, "clean_up_tokenization_spaces": False}
            assert ours.decode(ids, **asked) == theirs.decode(ids, **asked)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_is_read_as_transformers_reads_it(family: str, kind: str, tmp_path: Path) -> None:
    assert_the_same(checkpoint(family, tmp_path, KINDS[kind]))
    thorough(tmp_path)
    assert_the_same(tmp_path)


@pytest.mark.parametrize("name", sorted(plain._CLASSES))
@pytest.mark.parametrize("model_type", sorted(plain._MODEL_TYPES))
def test_transformers_takes_the_file_for_every_listed_class_and_model(
    model_type: str, name: str, tmp_path: Path
) -> None:
    qwen_checkpoint(tmp_path)
    edit(tmp_path, "config.json", model_type=model_type)
    edit(tmp_path, "tokenizer_config.json", tokenizer_class=name)
    loaded = AutoTokenizer.from_pretrained(str(tmp_path), local_files_only=True)
    assert type(loaded).__name__ == PreTrainedTokenizerFast.__name__
    assert_the_same(tmp_path)


def entry(**entries: Any) -> Callable[[Path], None]:
    return lambda directory: edit(directory, "tokenizer_config.json", **entries)


def model(**entries: Any) -> Callable[[Path], None]:
    return lambda directory: edit(directory, "config.json", **entries)


def shape(**entries: Any) -> Callable[[Path], None]:
    return lambda directory: edit(directory, "tokenizer.json", **entries)


def beside(name: str, text: str) -> Callable[[Path], None]:
    def write(directory: Path) -> None:
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)

    return write


def without(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).unlink()


def other_flag(directory: Path) -> None:
    tokens = declared(directory)
    tokens[min(tokens)]["lstrip"] = True
    edit(directory, "tokenizer_config.json", added_tokens_decoder=tokens)


def one_more(directory: Path) -> None:
    tokens = declared(directory)
    tokens["999"] = {**tokens[min(tokens)], "content": "<more>"}
    edit(directory, "tokenizer_config.json", added_tokens_decoder=tokens)


SHORTENED = {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
PADDED = {
    "strategy": {"Fixed": 8},
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 0,
    "pad_type_id": 0,
    "pad_token": "a",
}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(entry(tokenizer_class="Qwen2Tokenizer"), id="a class that builds its own"),
        pytest.param(entry(tokenizer_class=None), id="no class"),
        pytest.param(model(model_type="qwen3_5"), id="a type whose class is not believed"),
        pytest.param(model(model_type="scripted"), id="an unknown type"),
        pytest.param(model(model_name="phi3"), id="a name that is not believed"),
        pytest.param(entry(auto_map={"AutoTokenizer": ["a.B", None]}), id="code of its own"),
        pytest.param(entry(pad_token="<pad>"), id="a special token that the file lacks"),
        pytest.param(entry(pad_token="<think>"), id="a special token that is a plain one in the file"),
        pytest.param(entry(image_token="<|im_end|>"), id="a name of its own for a token"),
        pytest.param(entry(extra_special_tokens=["<x>"]), id="more special tokens"),
        pytest.param(entry(split_special_tokens=True), id="special tokens are split"),
        pytest.param(entry(fix_mistral_regex=True), id="another expression"),
        pytest.param(entry(chat_template=[{"name": "default", "template": ""}]), id="several templates in one entry"),
        pytest.param(beside("additional_chat_templates/rag.jinja", ""), id="several templates in files"),
        pytest.param(beside("added_tokens.json", "{}"), id="added tokens in a file"),
        pytest.param(beside("special_tokens_map.json", "{}"), id="special tokens in a file"),
        pytest.param(other_flag, id="an added token with another flag"),
        pytest.param(one_more, id="an added token that the file lacks"),
        pytest.param(entry(added_tokens_decoder=[]), id="added tokens in another form"),
        pytest.param(shape(truncation=SHORTENED), id="ids are cut off"),
        pytest.param(shape(padding=PADDED), id="ids are filled up"),
        pytest.param(shape(added_tokens={}), id="a file of another form"),
        pytest.param(beside("tokenizer.json", "{"), id="a file that ends early"),
        pytest.param(shape(model={"type": "BPE"}), id="a file without its model"),
        pytest.param(without("tokenizer.json"), id="no file"),
        pytest.param(without("tokenizer_config.json"), id="no config of the tokenizer"),
        pytest.param(without("config.json"), id="no config of the model"),
    ],
)
def test_what_may_be_more_than_its_file_is_left_to_transformers(change: Callable[[Path], None], tmp_path: Path) -> None:
    qwen_checkpoint(tmp_path)
    thorough(tmp_path)
    assert plain.read(tmp_path) is not None
    change(tmp_path)
    assert plain.read(tmp_path) is None


def test_a_checkpoint_may_run_its_own_code_only_through_transformers(
    monkeypatch: pytest.MonkeyPatch, qwen_path: Path
) -> None:
    asked = []
    monkeypatch.setattr(plain, "read", asked.append)
    assert isinstance(Vocabulary.load(qwen_path, trust_remote_code=True)._tokenizer, PreTrainedTokenizerFast)
    assert asked == []
    assert isinstance(Vocabulary.load(qwen_path, trust_remote_code=False)._tokenizer, PreTrainedTokenizerFast)
    assert asked == [qwen_path]


@pytest.mark.parametrize("text", ["{", "[]", '{"added_tokens": []}'])
def test_a_tokenizer_that_cannot_be_read_is_refused_with_its_directory(text: str, tmp_path: Path) -> None:
    qwen_checkpoint(tmp_path)
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(TokenizerError, match=f"cannot load a tokenizer from {tmp_path}: "):
        Vocabulary.load(tmp_path, trust_remote_code=False)


def imported(family: str, directory: Path) -> set[str]:
    """Which of the packages that take seconds a codec brings in, in a process of its own."""
    code = f"""
import sys
from session_server.settings import Settings
from session_server.tito.loading import load_codec
load_codec(Settings(engine_url="http://e", core_version="v2", tokenizer_path={str(directory)!r}, tito_model={family!r}))
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE, capture_output=True, text=True, check=True)
    return {"transformers", "miles_tito_tokenizers", "numpy"} & set(done.stdout.split())


def test_only_what_a_family_needs_is_imported(tmp_path: Path) -> None:
    assert imported("qwen3", checkpoint("qwen3", tmp_path / "qwen3")) == set()
    assert "miles_tito_tokenizers" in imported("deepseekv4", checkpoint("deepseekv4", tmp_path / "deepseekv4"))
