"""The architectures that this image's micro models have, one module each.

SGLang imports a package named in SGLANG_EXTERNAL_MODEL_PACKAGE first and its own two hundred model modules only when
an architecture is not found there. Naming the few that are served saves that import in each engine process. The
classes are SGLang's own, and any other architecture still works, only slower to start.
"""
