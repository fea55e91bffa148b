"""SGLang's own launcher, started so that its three processes pay for their imports once.

An SGLang server is a front process, a scheduler and a detokenizer. The launcher spawns the two children, and each of
them imports some five thousand modules again: about 10 s of CPU time per process, the largest part of a start on two
cores. Spawning is right beside a GPU, whose driver does not survive a fork; on CPU the children can be forked from the
front process, which has imported everything. That takes a third of the time and shares the memory of the code.

A fork copies only the calling thread, so it is done only while the process has a single one; otherwise, or with
START_METHOD=spawn, the children are spawned as SGLang asks. Nothing else is touched: the launcher runs as `__main__`
with the arguments it was given.
"""

import gc
import importlib
import multiprocessing
import os
import runpy
import signal
from pathlib import Path

MODULE = "sglang.launch_server"

# imported ahead of the launcher, which would import it itself a moment later; brings in all three processes' code
CODE = "sglang.srt.entrypoints.http_server"


def threads() -> int:
    """How many threads this process has, those of native libraries included."""
    return len(list(Path("/proc/self/task").iterdir()))


def method(asked: str | None, thread_count: int) -> str | None:
    """How children are started, when SGLang asked for `asked` and this process has `thread_count` threads."""
    return "fork" if asked == "spawn" and thread_count == 1 else asked


def fork_children() -> None:
    """Fork where SGLang asks for spawning, for as long as that is safe."""
    set_start_method = multiprocessing.set_start_method

    def choose(asked: str | None, force: bool = False) -> None:
        count = threads()
        chosen = method(asked, count)
        print(f"engine: child processes are started by {chosen} ({count} thread(s) in the front process)", flush=True)
        if chosen == "fork":
            # what was imported stays for good: kept out of collections, its pages stay shared
            gc.freeze()
        set_start_method(chosen, force=force)

    multiprocessing.set_start_method = choose  # type: ignore[assignment]
    # SGLang handles SIGQUIT in the front process only: there it means that a child died. A spawned child starts
    # without that handler; so does a forked one.
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGQUIT, signal.SIG_DFL))


def main() -> None:
    """Run SGLang's launcher in this process."""
    if os.environ.get("START_METHOD", "fork") == "fork":
        fork_children()
    # the collector finds nothing while modules are imported, and takes a fifth of the time
    gc.disable()
    importlib.import_module(CODE)
    gc.enable()
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
