"""From settings to a codec: family, tokenizer and template, with every problem found at start."""

from __future__ import annotations

from importlib import resources

from session_server.core.errors import InvalidError
from session_server.settings import Settings
from session_server.tito.codec import Codec, Renderer
from session_server.tito.deepseek import DeepSeekRenderer
from session_server.tito.families import Encoder, Family, find
from session_server.tito.jinja import JinjaRenderer
from session_server.tito.package import EncoderV4, EncoderV32, template_text
from session_server.tito.vocabulary import TokenizerError, Vocabulary


def load_codec(settings: Settings) -> Codec:
    """The codec that `settings` describe.

    Raises:
        ValueError: the family is unknown, or its fixed template arguments conflict with the configured ones.
        TokenizerError: tokenizer or template cannot be used.
    """
    family = find(settings.tito_model)
    vocabulary = Vocabulary.load(settings.tokenizer_path, trust_remote_code=settings.trust_remote_code)
    return bind(family, vocabulary, settings)


def bind(family: Family, vocabulary: Vocabulary, settings: Settings) -> Codec:
    """`family` on `vocabulary`.

    Raises:
        ValueError, TokenizerError: as `load_codec`.
    """
    try:
        return Codec(
            family,
            vocabulary,
            _renderer(family, vocabulary, settings),
            default_kwargs=settings.chat_template_kwargs,
        )
    except InvalidError as error:
        raise ValueError(str(error)) from error


def _renderer(family: Family, vocabulary: Vocabulary, settings: Settings) -> Renderer:
    if family.encoder is Encoder.DEEPSEEK_V32:
        return DeepSeekRenderer(EncoderV32())
    if family.encoder is Encoder.DEEPSEEK_V4:
        return DeepSeekRenderer(EncoderV4())
    if family.template is not None:
        template = _own_template(family.template) if family.own_template else template_text(family.template)
    elif settings.chat_template_path is not None:
        try:
            template = settings.chat_template_path.read_text(encoding="utf-8")
        except OSError as error:
            raise TokenizerError(f"cannot read the chat template: {error}") from error
    elif vocabulary.chat_template is not None:
        template = vocabulary.chat_template
    else:
        raise TokenizerError(
            f"the checkpoint in {settings.tokenizer_path} has no chat template and family {family.name} brings none"
        )
    return JinjaRenderer(template, vocabulary.special_tokens)


def _own_template(name: str) -> str:
    return (resources.files("session_server.tito") / "templates" / name).read_text(encoding="utf-8")
