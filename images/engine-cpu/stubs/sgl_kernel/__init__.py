"""Stub of sgl_kernel, SGLang's compiled kernels: their CPU build needs AMX, which the machines meant here lack.

On CPU SGLang imports the names that end in `_cpu` and calls them only where it found AMX, which it detects through
an operator that this stub does not register. So every `*_cpu` name imports as something that raises when called, and
every other name is missing. Submodules are missing as well: SGLang has its own fallback where it asks for one.
"""

import sys

from placeholder import Name, Stub

__version__ = "0.0.0+stub"


class Kernels(Stub):
    """The package itself: any `*_cpu` name is there, all else is not."""

    def __getattr__(self, name: str) -> object:
        if name.endswith("_cpu"):
            return Name(f"sgl_kernel.{name}")
        return super().__getattr__(name)


sys.modules[__name__].__class__ = Kernels
