"""Some training images of a source, every class alike, and all of its test images, in a file.

python benchmarks/few.py SOURCE IMAGES FILE.npz
"""

import sys
from pathlib import Path

from ardor.bench.rivals.sets import Cut, cut, keep

if __name__ == "__main__":
    source, images, to = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    keep(cut(Cut(source.name, images, mirrored=False), 0, source.parent), to)
