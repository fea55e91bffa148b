"""Micro models: language models of about a million weights that behave like a model family.

A real engine on a CPU needs a model that really thinks, calls a tool, answers and stops, and that no build has to
download. This package generates the dialogues, trains tokenizer and weights from scratch and measures the result. It
deliberately does not teach general language: outside its small world of weather questions a micro model is useless.
"""
