"""The command line: each command reads its options and makes one call.

Libraries are imported inside the commands: 'ardor --help' must not wait for torch.
"""

# Commands are listed in the order of these imports.
from ardor.cli import create, stages, compress, inspect  # isort: skip
from ardor.cli.options import cli

__all__ = ["cli", "compress", "create", "inspect", "stages"]
