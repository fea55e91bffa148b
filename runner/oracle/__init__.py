"""The oracle: what must be true of a driven session, computed here and not taken from the server.

Every part is a pure function over the server's records, the agent's transcript and the runner's own tokenizer. It talks
to nothing, so that saved evidence is judged exactly as fresh evidence is.
"""
