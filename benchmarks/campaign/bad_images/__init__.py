"""Files of images that a hand, a disk or a stranger can make."""

import gzip
import io
import os
import pickle
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

RNG = np.random.default_rng(0)
Make = Callable[[Path], object]  # fills a place


def pixels(*shape: int) -> Any:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def labels(count: int = 40, classes: int = 2) -> Any:
    return (np.arange(count) % classes).astype(np.uint8)


def photo(*shape: int) -> Image.Image:
    return Image.fromarray(pixels(*shape))


def save(path: Path, image: Image.Image, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def good(folder: Path, classes: int = 2, count: int = 5) -> Path:
    """A folder of pictures that can be learned from."""
    for label in range(classes):
        for number in range(count):
            save(folder / f"class{label}" / f"{number}.png", photo(9, 9, 3))
    return folder


def with_picture(put: Callable[[Path], object], name: str = "x.png") -> Make:
    """A good folder with one more file in a class."""
    return lambda folder: put(good(folder) / "class0" / name)


def kind(image: Image.Image, name: str = "x.png", **options: Any) -> Make:
    """A good folder with one more picture in a class."""
    return with_picture(lambda path: save(path, image, **options), name)


def chunk(name: bytes, content: bytes) -> bytes:
    mark = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + mark


def png(width: int, height: int, colour: int, bits: int = 8, rows: bool = True) -> bytes:
    """A picture of one colour, which is small however large it is."""
    row = {0: 1, 2: 3, 3: 1, 6: 4}[colour] * width * bits // 8 + 1
    pack = zlib.compressobj(6)
    packed = (
        b"".join(pack.compress(bytes(row)) for _ in range(height if rows else 0)) + pack.flush()
    )
    head = chunk(b"IHDR", struct.pack(">2I5B", width, height, bits, colour, 0, 0, 0))
    palette = chunk(b"PLTE", bytes(6)) + chunk(b"tRNS", b"\0") if colour == 3 else b""
    return b"\x89PNG\r\n\x1a\n" + head + palette + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def idx(*shape: int, content: bytes | None = None, magic: int | None = None) -> bytes:
    head = struct.pack(">I", 0x0800 + len(shape) if magic is None else magic)
    body = bytes(np.arange(int(np.prod(shape))) % 2) if content is None else content
    return head + struct.pack(f">{len(shape)}I", *shape) + body


def mnist(**files: bytes) -> Make:
    """A good folder of IDX files, but for some: images, labels, or with _gz packed ones."""

    def make(folder: Path) -> None:
        folder.mkdir()
        for part in ("train", "t10k"):
            (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(40, 9, 9))
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(40))
        for name, content in files.items():
            what, packed = name.removesuffix("_gz"), name.endswith("_gz")
            file = folder / f"train-{what}-idx{3 if what == 'images' else 1}-ubyte"
            file.unlink()
            Path(f"{file}.gz" if packed else file).write_bytes(content)

    return make


def gz_bomb(*shape: int, of: int) -> bytes:
    """A few bytes that unpack to `of` MB, after a header."""
    return gzip.compress(idx(*shape, content=b"")) + gzip.compress(bytes(2**24)) * (of // 16)


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def header(shape: str, kind: str = "'|u1'", content: bytes = b"") -> bytes:
    """An .npy file that says so."""
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def members(zeros: int = 0, **content: bytes) -> Make:
    """An .npz file of these members, and x with so many MB of zeros behind it."""

    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, data in content.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    file.write(data)
                    for _ in range(zeros if name == "x" else 0):
                        file.write(bytes(2**20))

    return make


def arrays(**given: Any) -> Make:
    """An .npz file of these arrays."""
    return members(**{name: npy(array) for name, array in given.items()})


def cifar(batch: bytes | None = None, **meta: bytes) -> Make:
    """CIFAR-10 as pickles; `batch` in place of the first, and other files."""

    def make(folder: Path) -> None:
        folder.mkdir()
        content = {b"data": pixels(20, 3072), b"labels": labels(20, 10).tolist()}
        for name in ("data_batch_1", "test_batch"):
            (folder / name).write_bytes(pickle.dumps(content, protocol=2))
        if batch is not None:
            (folder / "data_batch_1").write_bytes(batch)
        for name, data in meta.items():
            (folder / name.replace("_", ".")).write_bytes(data)

    return make


def batch(**content: Any) -> bytes:
    whole = {"data": pixels(20, 3072), "labels": labels(20, 10).tolist(), **content}
    return pickle.dumps(whole, protocol=2)


def names(*given: Any) -> dict[str, bytes]:
    return {"batches_meta": pickle.dumps({b"label_names": list(given)}, protocol=2)}


def tag(image: Image.Image) -> bytes:
    """A photograph whose EXIF record is broken."""
    out = io.BytesIO()
    image.save(out, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12" + bytes(9))
    return out.getvalue()


def put(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def bind(path: Path) -> None:
    """A socket of that name, which may be longer than a socket's may."""
    home = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(home)


def renamed(name: str) -> Make:
    """A good folder with a class of that name."""
    return lambda folder: (good(folder) / "class0").rename(folder / name)


def linked(name: str, target: str) -> Make:
    """A good folder with a link beside the classes."""
    return lambda folder: (good(folder) / name).symlink_to(target)


def picture_link(target: str) -> Make:
    """A good folder with a link for a picture."""
    return with_picture(lambda path: path.symlink_to(target))
