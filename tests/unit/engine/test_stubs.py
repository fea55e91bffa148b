"""The three stub packages: what they carry, what they refuse, and how a missing name is reported.

Stubs are imported in a process of their own: on the path of this one, transformers would take them for the real thing.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from serve import check

ENGINE = Path(__file__).resolve().parents[3] / "images" / "engine-cpu"


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ENGINE / 'stubs'}:{ENGINE}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def said(code: str) -> str:
    done = python(code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_kernel_can_be_defined_with_every_decorator_and_refuses_to_run() -> None:
    code = """
import triton, triton.language as tl
from placeholder import AbsentError

@triton.autotune(configs=[triton.Config({"BLOCK": 16}, num_warps=4)], key=["n"])
@triton.heuristics({"EVEN": lambda args: True})
@triton.jit(do_not_specialize=["n"])
def add_one(pointer, n, BLOCK: tl.constexpr, like: tl.tensor):
    pass

try:
    add_one[(1,)](None, 1)
except AbsentError as error:
    print(error)
"""
    assert "add_one was launched" in said(code)


def test_the_arithmetic_that_runs_outside_kernels_is_right() -> None:
    code = (
        "import triton; print(triton.cdiv(7, 2), triton.cdiv(8, 2), [triton.next_power_of_2(n) for n in (1, 3, 8, 9)])"
    )
    assert said(code) == "4 4 [1, 4, 8, 16]"


def test_every_cpu_kernel_of_sgl_kernel_imports_and_refuses_to_run() -> None:
    code = """
from placeholder import AbsentError
from sgl_kernel import anything_cpu
try:
    anything_cpu(1)
except AbsentError as error:
    print(error)
"""
    assert "sgl_kernel.anything_cpu was called" in said(code)


def test_a_gpu_kernel_of_sgl_kernel_is_missing() -> None:
    done = python("from sgl_kernel import rmsnorm")
    assert done.returncode == 1
    assert "ImportError: cannot import name 'rmsnorm' from 'sgl_kernel'" in done.stderr


def test_torchvision_carries_the_interpolation_modes_as_real_values() -> None:
    code = """
from torchvision.transforms import InterpolationMode
from torchvision.transforms.functional import InterpolationMode as same
import torchvision.transforms.v2.functional
print(InterpolationMode is same, InterpolationMode.NEAREST_EXACT.value, len(InterpolationMode))
"""
    assert said(code) == "True nearest-exact 7"


@pytest.mark.parametrize("package", ["triton", "torchvision", "sgl_kernel", "triton.language"])
def test_a_name_beyond_the_surface_is_an_attribute_error_that_says_what_to_do(package: str) -> None:
    done = python(f"import {package}\n{package}.brand_new_thing")
    assert done.returncode == 1
    assert f"the stub of {package} has no 'brand_new_thing'" in done.stderr
    assert f"images/engine-cpu/stubs/{package.partition('.')[0]}" in done.stderr


def test_a_probe_for_a_name_beyond_the_surface_is_answered_with_no() -> None:
    assert said("import triton.language as tl; print(hasattr(tl, 'gather'))") == "False"


def test_a_submodule_beyond_the_surface_does_not_exist() -> None:
    done = python("import triton.tools.tensor_descriptor")
    assert done.returncode == 1
    assert "No module named 'triton.tools'" in done.stderr


@pytest.mark.parametrize(
    ("line", "stub", "wanted"),
    [
        ("from triton import brand_new_thing", "triton", "brand_new_thing"),
        ("import torchvision.ops", "torchvision", "torchvision.ops"),
        ("import triton.language as tl; tl.brand_new_thing", "triton", "brand_new_thing"),
        ("from sgl_kernel import rmsnorm", "sgl_kernel", "rmsnorm"),
    ],
)
def test_the_check_names_stub_name_and_asker(tmp_path: Path, line: str, stub: str, wanted: str) -> None:
    (tmp_path / "newer_sglang.py").write_text(f"import json\n{line}\n", encoding="utf-8")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from serve import check
check.version = lambda package: "9.9.9"
try:
    check.full(("json", "newer_sglang"))
except check.StubMismatchError as error:
    print(error)
"""
    message = said(code)
    assert f"the stub {stub!r} is too small for SGLang 9.9.9" in message
    assert wanted in message
    assert f"{tmp_path}/newer_sglang.py:2" in message
    assert f"images/engine-cpu/stubs/{stub}" in message


def test_an_import_that_fails_for_another_reason_is_not_blamed_on_a_stub(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import a_package_nobody_has\n", encoding="utf-8")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from serve import check
try:
    check.full(("broken",))
except check.StubMismatchError as error:
    print(error)
"""
    message = said(code)
    assert "broken can not be imported: No module named 'a_package_nobody_has'" in message
    assert "requirements.in" in message


@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A seal that fits, and the versions it is made from, to be changed by a test."""
    versions = {"sglang": "0.5.23", "torch": "2.13.0+cpu"}
    monkeypatch.setattr(check, "SEAL", tmp_path / "stubs.seal")
    monkeypatch.setattr(check, "version", versions.__getitem__)
    check.seal()
    return versions


def test_an_image_as_it_was_checked_passes(sealed: dict[str, str]) -> None:
    check.quick()


def test_another_sglang_than_the_checked_one_is_refused(sealed: dict[str, str]) -> None:
    sealed["sglang"] = "0.6.0"
    with pytest.raises(check.StubMismatchError, match=r"sglang was 0\.5\.23, is 0\.6\.0"):
        check.quick()


def test_stubs_that_changed_after_the_check_are_refused(
    sealed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "triton.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(check, "STUBS", tmp_path / "other")
    with pytest.raises(check.StubMismatchError, match="stubs was"):
        check.quick()


def test_an_image_that_was_never_checked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SEAL", tmp_path / "none")
    with pytest.raises(check.StubMismatchError, match="never checked"):
        check.quick()
