"""The sidecar ledger: an append-only JSONL file per writer, in which everything that happened is written."""
