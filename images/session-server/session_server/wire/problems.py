"""What is wrong with a request, in words: the framework's findings as one line that names the fields."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import ErrorDetails


def explain(problems: Sequence[ErrorDetails]) -> str:
    """Validation errors as one line: `messages[2].content: ...`; at most five of them."""
    relevant = [item for item in problems if not _other_variant(item)] or list(problems)
    lines = [shortened(f"{_path(item['loc'])}: {item['msg']}") for item in relevant[:5]]
    if len(relevant) > 5:
        lines.append(f"and {len(relevant) - 5} more")
    return "; ".join(lines)


def shortened(text: str, most: int = 500) -> str:
    """`text`, which may quote what a client sent, in at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


_VARIANTS = frozenset({"str", "text", "thinking", "tool_use", "tool_result", "refused"})
"""Names that pydantic puts into locations for variants of a union."""

_FIELDS = frozenset({"text", "thinking"})
"""Those of them that are fields, too, where they are the last step."""


def _other_variant(item: ErrorDetails) -> bool:
    """Whether the problem is that the input is not of a variant which it does not try to be."""
    last = item["loc"][-1] if item["loc"] else None
    if last == "str":
        return isinstance(item.get("input"), list)
    return isinstance(last, str) and last.startswith(("list[", "dict[")) and not isinstance(item.get("input"), list)


def _path(location: Sequence[int | str]) -> str:
    text = ""
    for index, step in enumerate(location):
        if isinstance(step, int):
            text += f"[{step}]"
        elif (
            step != "str"
            and step.isidentifier()
            and (step not in _VARIANTS or (step in _FIELDS and index == len(location) - 1))
        ):
            text += f".{step}" if text else step
    return text or "body"
