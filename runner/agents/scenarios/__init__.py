"""The scripts of the scenarios: one module per script or pair of close ones, found by name in `drives`.

A script drives one session over the wire of its lane, with what `Scene` gives it, and fills the transcript. It judges
nothing that the oracle can judge from the transcript; what only the driver can see (a refusal that must come, a reply
that must be different) it checks itself and raises VerificationError.
"""
