"""What the oracle measures with: one family's tokenizer and canonical form, read once per lease."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from runner.oracle.forms import no_form
from runner.oracle.render import Canon
from runner.oracle.tokens import Tokens


@dataclass(frozen=True)
class Measure:
    """The runner's own reading of a model directory.

    `canon` is None for a family without a canonical form, and `reason` says why then.
    """

    tokens: Tokens
    canon: Canon | None
    reason: str = ""

    @classmethod
    def load(cls, directory: Path, tito_model: str) -> Self:
        """Read tokenizer and template. Raises InfrastructureError when one of them is not there.

        All that takes time is loaded here: in the middle of a lane it would hold up every session of the lease.
        """
        tokens = Tokens.load(directory)
        canon = Canon.load(directory, tito_model, tokens)
        if canon is not None:
            canon.prepare()
        return cls(tokens, canon, no_form(tito_model))
