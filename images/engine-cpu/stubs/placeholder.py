"""How the three stub packages are made: a table of names, and a clear error for every name beyond it.

SGLang imports `triton`, `torchvision` and `sgl_kernel` at module level even where nothing of them runs on a CPU.
Installing the real ones costs about a gigabyte (triton, torchvision) or is impossible (sgl_kernel has no build for a
CPU without AMX). The stubs carry exactly the names that this SGLang version asks for while it is imported, and
nothing more: a stub that answers to every name would hide an SGLang upgrade that really needs one of them.

Deliberately absent: any computation. What is called here raises `AbsentError`, so a wrong code path is an error with a
name in it and never a wrong number.
"""

import sys
from collections.abc import Mapping
from types import ModuleType

STUBS = ("sgl_kernel", "torchvision", "triton")


class AbsentError(RuntimeError):
    """Something that only a real package can do was asked of a stub."""


class Name:
    """Stands for a function, type or constant of a stub: may be imported, compared and annotated with, never called."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, *_args: object, **_kwargs: object) -> object:
        """Raise `AbsentError`: nothing here computes."""
        raise AbsentError(
            f"{self.path} was called, but it is a stub: this image serves on CPU without it. "
            "SGLang took a code path that the CPU engine's flags should have excluded."
        )

    def __repr__(self) -> str:
        return f"<stub of {self.path}>"


class Stub(ModuleType):
    """A module that knows its names, and says which one is missing when another is asked for."""

    def __getattr__(self, name: str) -> object:
        if not (name.startswith("__") and name.endswith("__")):
            # AttributeError, not ImportError: `hasattr` and `try: from x import y` must keep working as probes
            raise AttributeError(missing(self.__name__, name), name=name, obj=self)
        raise AttributeError(name)


def missing(module: str, name: str) -> str:
    """The message for a name that a stub does not have."""
    package = module.partition(".")[0]
    return (
        f"the stub of {module} has no {name!r}: this SGLang version needs more of {package} than "
        f"images/engine-cpu/stubs/{package} offers. Add the name there, or install the real package."
    )


def furnish(package: str, surface: Mapping[str, Mapping[str, object] | tuple[str, ...]]) -> None:
    """Turn an imported package into a stub and register its submodules.

    Args:
        package: Name of the package that calls, already in `sys.modules`.
        surface: Module path relative to the package ("" is the package itself) -> its names, either as a tuple of
            names (each becomes a `Name`) or as a mapping from name to value. Parents come before their children.

    Raises:
        KeyError: A submodule's parent is not in the table before it.
    """
    for path, names in surface.items():
        full = f"{package}.{path}" if path else package
        if path:
            module: ModuleType = Stub(full)
            module.__path__ = []  # a package, so that `import a.b.c` may go on below it
            parent, _, leaf = full.rpartition(".")
            setattr(sys.modules[parent], leaf, module)
            sys.modules[full] = module
        else:
            module = sys.modules[full]
            module.__class__ = Stub
        values = names if isinstance(names, Mapping) else {name: Name(f"{full}.{name}") for name in names}
        for name, value in values.items():
            setattr(module, name, value)
