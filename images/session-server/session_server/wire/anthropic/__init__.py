"""The Anthropic Messages dialect on top of the same turns: request, policy, conversion, reply, events, errors.

Records stay OpenAI-shaped: a message request becomes a chat request before it reaches the session, and the engine's
reply becomes a message after it was checked and before it is recorded.
"""
