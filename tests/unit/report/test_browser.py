"""report.html in a real browser: it opens without a network, and shows what it should, light and dark."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from runner.agents.transcript import TRANSCRIPT_ADAPTER, Transcript
from runner.plan.model import Plan
from runner.report.write import write_files
from runner.verdict.model import Verdict

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((found for name in NAMES if (found := shutil.which(name))), None)
WIDTH, HEIGHT = 1280, 3000
LIGHT, DARK = (0xF6, 0xF7, 0xF8), (0x11, 0x14, 0x17)

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser: none of {', '.join(NAMES)} is on PATH (Debian: chromium-headless-shell)"
)
Browse = Callable[..., bytes]


@pytest.fixture
def page(plan: Plan, verdict: Verdict, transcript: Transcript, tmp_path: Path) -> Path:
    """The page of a run with a cell of every kind, and the turns of the one that failed."""
    sessions = tmp_path / "run" / "cells/qwen3/v2-openai/baseline/sessions"
    sessions.mkdir(parents=True)
    body = {"transcript": TRANSCRIPT_ADAPTER.dump_python(transcript, mode="json")}
    (sessions / "0.json").write_bytes(orjson.dumps(body))
    return write_files(plan, verdict, tmp_path / "run").html


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    """Opens a page in a profile of its own, without any network, and returns what the browser prints."""

    def run(page: Path, *options: str) -> bytes:
        done = subprocess.run(
            [
                str(BROWSER),
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
                *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}"),
                *(f"--window-size={WIDTH},{HEIGHT}", *options, page.as_uri()),
            ],
            capture_output=True,
            check=True,
            timeout=120,
        )
        return done.stdout

    return run


def words(dom: str) -> str:
    """The text of the page as one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", dom, flags=re.S)).split())


def first_pixel(png: bytes) -> tuple[int, ...]:
    """The colour of the upper left corner: no filter of PNG changes the first pixel."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (width, height, depth) == (WIDTH, HEIGHT, 8)
    data, at = b"", 8
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        data += png[at + 8 : at + 8 + length] if name == b"IDAT" else b""
        at += length + 12
    assert kind in (2, 6), "true colour"
    return tuple(zlib.decompress(data)[1:4])


def test_the_dom_has_matrix_turns_diff_and_times(page: Path, browse: Browse) -> None:
    dom = browse(page, "--dump-dom").decode()
    text = words(dom)
    assert dom.count('<section class="cell') == 5
    assert text.index("Matrix") < text.index("Where the time went") < text.index("Cells")
    assert "pass (on retry)" in text
    assert "retried sample 1 turn 4: retry 2 after length" in text
    assert "note the session could not be closed" in text
    assert "all 2 lanes 30.0 s (1.33 x the longest, v1-openai)" in text
    failed = dom[dom.index('id="cell-qwen3-v2-openai-baseline"') :]
    failed = failed[: failed.index("</section>")]
    assert '<mark class="want">\\n</mark>' in failed
    assert '<span class="seen">872</span>' in failed
    assert failed.count("<tr class=") >= 3, "its turns are there"
    assert '<tr class="hard">' in failed, "the turn that the finding names stands out"
    assert "get_weather({" in failed
    assert "length (finish reason length, seed 1000001)" in failed
    assert "<details open" in failed, "the turns of a sample that failed are not hidden"
    assert "Clear &lt;b&gt;skies&lt;/b&gt; 3." in failed


@pytest.mark.parametrize(("scheme", "background"), [("1", LIGHT), ("0", DARK)])
def test_a_screenshot_is_light_or_dark_as_the_reader_prefers(
    page: Path, browse: Browse, tmp_path: Path, scheme: str, background: tuple[int, int, int]
) -> None:
    shot = tmp_path / "page.png"
    browse(page, f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}")
    png = shot.read_bytes()
    assert first_pixel(png) == background
    assert len(png) > 100_000, "a page full of text does not compress to nothing"
