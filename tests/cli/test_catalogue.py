"""The lists of `ardor list`."""

import inspect

import pytest

from ardor.cli.catalogue import catalogue
from ardor.settings.sections import SECTIONS


@pytest.mark.parametrize("section", SECTIONS)
def test_a_setting_is_listed_with_its_comment(section: str) -> None:
    listed = " ".join(catalogue("settings").values())
    commented = [
        line for line in inspect.getsource(SECTIONS[section]).splitlines() if "  # " in line
    ]
    assert commented
    assert [line for line in commented if line.partition("  # ")[2] not in listed] == []
