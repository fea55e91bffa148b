"""Our conversion between the Anthropic and the OpenAI dialect, held against SGLang's own.

`requests` and `replies` are the corpus, `ours` and `theirs` convert it, `differences` finds where the results part, and
`listed` says which of these are meant and why. Nothing here generates text: SGLang is only imported, no engine is run.
"""
