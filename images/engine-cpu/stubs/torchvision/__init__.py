"""Stub of torchvision: SGLang's model configurations import it for image models, which this image never serves.

transformers looks for the package by name and then reads the interpolation modes, so these are real values; the
functions that would touch an image raise when they are called.
"""

from enum import Enum

from placeholder import Name, furnish

__version__ = "0.0.0+stub"


class InterpolationMode(Enum):
    """How an image would be resampled; the names and values of torchvision's own enum."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


furnish(
    "torchvision",
    {
        "": {},
        "io": ("ImageReadMode", "decode_image"),
        "transforms": {"InterpolationMode": InterpolationMode},
        "transforms.functional": {
            "InterpolationMode": InterpolationMode,
            "pil_to_tensor": Name("torchvision.transforms.functional.pil_to_tensor"),
        },
        "transforms.v2": (),
        "transforms.v2.functional": (),
    },
)
