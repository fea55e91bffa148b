"""The state of sessions: what is stored, where a request attaches, what a commit changes. No HTTP, no tokenizer."""
