"""Starts real SGLang on CPU from typed settings, and answers whether it is healthy.

What it deliberately does not do: change SGLang. The engine is the published package; this side only chooses flags,
environment and how its processes are started, checks them first, and then becomes the engine process.
"""
