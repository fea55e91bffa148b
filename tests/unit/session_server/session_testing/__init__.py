"""Support of the session server's tests: tokenizers made on the spot and an engine that says what it is told."""
