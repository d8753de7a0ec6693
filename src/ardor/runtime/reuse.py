"""Memory that one step gives back is there for the next one.

glibc gives large blocks back to the system as soon as they are free, and the same step asks for
them again: a fifth to a third of a step of a small network went into new pages. What a person has
set themselves stays, and other allocators are left alone.
"""

import ctypes
import os
from contextlib import suppress

TRIM, OWN_MAPPING = -1, -3  # mallopt's M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
NEVER = 2**31 - 1
LARGEST = 32 * 2**20  # bytes of a block that glibc lets come from its heap


def keep_pages() -> None:
    """Has glibc keep what is freed for as long as the process lives."""
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    with suppress(OSError, AttributeError):  # no glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(OWN_MAPPING, LARGEST)
        mallopt(TRIM, NEVER)
