"""Token-exact end-to-end verification of session servers in front of SGLang.

One package, two places: on the host it is the command line that brings the stack up and decides; in the runner
container it is the verifier that drives the lanes. ARCHITECTURE.md has the layers and who may import whom.
"""

__version__ = "0.1.0"
