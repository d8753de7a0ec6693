"""The command line: each command reads its options and makes one call.

Libraries are imported inside the commands: 'ardor --help' must not wait for torch.
"""

# Commands are listed in the order of these imports.
from ardor.cli import making, after, looking  # isort: skip
from ardor.cli.group import cli

__all__ = ["after", "cli", "looking", "making"]
