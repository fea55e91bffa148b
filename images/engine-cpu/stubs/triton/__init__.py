"""Stub of triton: enough for SGLang, compressed-tensors and torch to be imported, nothing that runs a kernel.

Hundreds of SGLang modules define Triton kernels at import time, whether or not a GPU is there. Here a decorated kernel
becomes an object that can be defined and passed around; launching it raises. Real triton would work as well and costs
about a gigabyte in the image.
"""

from collections.abc import Callable

from placeholder import AbsentError, Name, furnish

__version__ = "0.0.0+stub"


class Kernel:
    """A kernel that was defined but can not be launched."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.fn = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __getitem__(self, grid: object) -> "Kernel":
        """`kernel[grid]`, the first half of a launch."""
        return self

    def __call__(self, *_args: object, **_kwargs: object) -> object:
        """Raise `AbsentError`: kernels need a GPU."""
        raise AbsentError(
            f"the Triton kernel {self.__name__} was launched, but this image serves on CPU without Triton."
        )


def jit(function: Callable[..., object] | None = None, **_options: object) -> object:
    """`@triton.jit` and `@triton.jit(...)`."""
    return Kernel if function is None else Kernel(function)


def autotune(configs: object = None, key: object = None, **_options: object) -> Callable[[object], object]:
    """`@triton.autotune(...)`: passes the kernel through."""
    return lambda kernel: kernel


def heuristics(values: object = None) -> Callable[[object], object]:
    """`@triton.heuristics(...)`: passes the kernel through."""
    return lambda kernel: kernel


def cdiv(x: int, y: int) -> int:
    """Division, rounded up."""
    return -(x // -y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below n (n >= 1)."""
    return 1 << (n - 1).bit_length()


class Config:
    """A tuning choice; kept, never tried."""

    def __init__(self, kwargs: object = None, **options: object) -> None:
        self.kwargs = kwargs
        self.options = options


class Constexpr:
    """`tl.constexpr`, used as annotation and to wrap module constants."""

    def __init__(self, value: object) -> None:
        self.value = value


class Dtype:
    """`tl.dtype`: torch keeps the type in a set of constant types."""


furnish(
    "triton",
    {
        "": {},
        "backends": (),
        "backends.compiler": (),
        "compiler": (),
        "compiler.compiler": (),
        "knobs": (),
        "language": {
            "constexpr": Constexpr,
            "dtype": Dtype,
            **{name: Name(f"triton.language.{name}") for name in ("int32", "tensor", "uint32")},
        },
        "language.extra": (),
        "language.extra.libdevice": (),
        "runtime": (),
    },
)
