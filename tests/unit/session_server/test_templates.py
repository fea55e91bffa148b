"""The environment of chat templates: a shorter way to the keys of messages, and the sandbox as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError
from session_server.tito.jinja import environment

KEYS = ("role", "content", "tool_calls", "items", "keys", "get", "pop", "update", "__class__", "__dict__", "format", "")
OBJECTS = st.one_of(
    st.dictionaries(st.sampled_from(KEYS), st.integers()),
    st.sampled_from([None, "text", 1, [], ()]),
)


def seen(value: Any) -> object:
    """What a template could tell of a value."""
    if isinstance(value, Undefined):
        return (type(value), value._undefined_message, value._undefined_name)
    return getattr(value, "__name__", value)


@given(obj=OBJECTS, key=st.sampled_from(KEYS))
def test_every_look_up_gives_what_the_sandbox_gives(obj: object, key: str) -> None:
    assert seen(environment().getattr(obj, key)) == seen(ImmutableSandboxedEnvironment().getattr(obj, key))


@pytest.mark.parametrize(
    "template",
    [
        "{{ m.__class__.__mro__ }}",
        "{{ m.update({'a': 1}) }}",
        "{{ m.pop('role') }}",
    ],
)
def test_what_the_sandbox_forbids_stays_forbidden(template: str) -> None:
    message = {"role": "user", "content": "{0.__class__}"}
    with pytest.raises(SecurityError):
        environment().from_string(template).render(m=message)
    assert message == {"role": "user", "content": "{0.__class__}"}
