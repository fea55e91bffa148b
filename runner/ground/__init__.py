"""The ground a stack stands on: a Docker engine, Compose, a base image, the project's images - and the doctor.

Each module finds one of them, or sets it up where that needs nobody's consent, or says in one message which line
mends it. Nothing here knows what a stack, a lane or a verdict is.

The way in is `prepare`; `doctor` only looks.
"""
