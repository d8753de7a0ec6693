"""Threads that wait for each other sleep, and do not spin.

Spinning, they take the time of whatever else runs, and on a busy machine that of one another: there
the same steps were measured to need seven times the core-seconds, and ten times as long. On an idle
machine it makes no difference. What a person has set themselves stays.
"""

import os
import sys
import threading
from collections.abc import Callable

ASKED = "OMP_WAIT_POLICY"
_late = False  # whether torch was there before it could be asked, and does not know yet


def ask() -> None:
    """Asks torch, which listens only while it is loaded."""
    global _late
    _late = "torch" in sys.modules and os.environ.keys().isdisjoint({ASKED, "GOMP_SPINCOUNT"})
    os.environ.setdefault(ASKED, "PASSIVE")


def ask_late(threads: int, together: Callable[[], object]) -> None:
    """Has a torch that was not asked in time do the same; `together` computes by several threads.

    Where there are more threads than cores, GNU's OpenMP hardly spins. So this starts as many once
    more, by computing something in a thread that then sleeps for good. No result changes by it.
    """
    global _late
    if not _late or threads < 2:
        return
    _late, begun = False, threading.Event()

    def sleep() -> None:
        together()
        begun.set()
        threading.Event().wait()

    threading.Thread(target=sleep, name="ardor-waiting", daemon=True).start()
    begun.wait()
