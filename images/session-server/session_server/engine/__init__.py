"""The engine behind the server: one HTTP client, and the validation of what it answers."""
