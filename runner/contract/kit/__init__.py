"""SGLang's own test kit of its Anthropic endpoint, run live against the engine that the image has installed."""
