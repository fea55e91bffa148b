"""The two dialects on the wire, OpenAI chat completions and Anthropic messages: parsing, conversion, streaming."""
