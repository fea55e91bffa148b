"""Our conversion between the Anthropic and the OpenAI dialect, held against SGLang's own.

`requests` and `replies` are the corpus; `ours` and `theirs` are scripts that convert it inside the session-server image
and inside an engine image; `recording` is what one side made of it. `differences` finds where two recordings part, and
`listed` says which differences between the sides are meant and why. Nothing here generates text: SGLang is only
imported, no engine is run.
"""
