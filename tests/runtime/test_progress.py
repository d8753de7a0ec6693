"""Clocks: of the wall, or of the processor where a bench shares its machine."""

import time

from ardor.runtime.progress import clock_from_now, processor_seconds


def test_a_clock_of_the_processor_does_not_count_waiting() -> None:
    with processor_seconds():
        worked = clock_from_now()
    passed = clock_from_now()
    time.sleep(0.2)
    assert passed() >= 0.2
    assert worked() < 0.1
