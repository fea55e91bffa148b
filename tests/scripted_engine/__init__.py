"""The scripted engine: SGLang's HTTP surface over a real tokenizer, without a model.

It exists for tests of faults and of speed: every token, stop, delay and broken reply is exact and repeatable. It
answers the verifier's sentences as a perfect model of the family would, and says in `/model_info` and `/server_info`
that it is scripted, so that nobody takes its results for those of an engine. It imports nothing of the code under test.
"""
