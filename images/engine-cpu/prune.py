"""Build step: take out of a virtual environment what a running engine never opens, and compile the rest.

Removes test suites, C++ headers, static libraries and command-line tools of torch (about 200 MB), then compiles
modules to bytecode that is trusted without looking at its source: an engine imports five thousand of them at start, on
a root file system that is read-only, so that nothing could be compiled later. Large trees of which an engine imports a
few files or none are left out; what it does import of them is compiled when the image build imports it to check the
stubs.
"""

import compileall
import re
import shutil
import sys
from pathlib import Path
from py_compile import PycInvalidationMode

# `torch/testing` and the like stay: they are imported outside tests
DIRECTORIES = ("torch/include", "torch/share", "torch/test")

# a third of all bytecode: models that transformers knows, image generation, torch's graph compiler
UNCOMPILED = re.compile(r"/(transformers/models|sglang/multimodal_gen|sglang/test|torch/_inductor|torch/testing)/")


def prune(packages: Path) -> int:
    """Delete what is never opened; return the number of bytes that went."""
    doomed = [packages / name for name in DIRECTORIES]
    doomed += [path for path in packages.rglob("tests") if path.is_dir()]
    # torch looks for its shared-memory manager when it is imported; its neighbours are compilers and test programs
    doomed += [path for path in packages.glob("torch/bin/*") if path.name != "torch_shm_manager"]
    doomed += [path for path in packages.rglob("*.a") if path.is_file()]
    doomed += [path for path in packages.rglob("__pycache__") if path.is_dir()]
    freed = 0
    for path in doomed:
        if path.is_dir():
            freed += sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            shutil.rmtree(path)
        elif path.exists():
            freed += path.stat().st_size
            path.unlink()
    return freed


def main() -> int:
    """`prune.py SITE_PACKAGES`."""
    packages = Path(sys.argv[1])
    print(f"prune: {prune(packages) / 1e6:.0f} MB removed", flush=True)
    # some packages ship templates and examples that are not valid Python: compiling them may fail, importing them too
    compileall.compile_dir(
        packages, quiet=2, workers=0, rx=UNCOMPILED, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
    )
    size = sum(path.stat().st_size for path in packages.rglob("*.pyc"))
    print(f"prune: {size / 1e6:.0f} MB of bytecode", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
