"""Some of the training images of a source, every class alike, and all of its test images, in a file.

    python benchmarks/few.py SOURCE IMAGES FILE.npz
"""

import io
import sys
from pathlib import Path

import numpy as np

from ardor.bench.rivals.sets import Cut, cut
from ardor.runtime.files import write


def main(source: Path, images: int, to: Path) -> None:
    """Writes the file."""
    found = cut(Cut(source.name, images, mirrored=False), 0, source.parent)
    content = io.BytesIO()
    np.savez(
        content,
        x_train=found.train.pixels.numpy(),
        y_train=found.train.labels.numpy(),
        x_test=found.test.pixels.numpy(),
        y_test=found.test.labels.numpy(),
    )
    write(to, content.getvalue())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
