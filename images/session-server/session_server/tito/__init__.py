"""Messages to token ids: full prompts for fresh sessions, continuations for stored ones, and the comparison of both."""
