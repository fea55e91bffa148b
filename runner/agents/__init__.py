"""The agents: they drive one session each, over HTTP, and write down what they sent and what came back.

An agent decides nothing about right or wrong beyond what makes going on impossible (a broken stream, a refused request,
a model that does not finish). Judging is the oracle's work, on the records and on the transcript.
"""
