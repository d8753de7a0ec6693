"""Batches and class names of CIFAR that are none, or traps."""

import pickle
import struct

import numpy as np

from bad_images import batch, names, pixels

LETTERS = [letter.encode() for letter in "abcdefghij"]
DOUBLING = b"\x80\x02)" + b"2\x86" * 100  # an empty tuple, and a hundred pairs of what was before
LONG = b"X" + struct.pack("<I", 2**20) + b"a" * 2**20
AGAIN = b"(" + (b"h\x00h\x01R" * 3000) + b"l"
SAME = 2**61 - 1  # multiples of it have one hash
COLLIDING = b"".join(b"\x8a\x0a" + (i * SAME).to_bytes(10, "little") + b"N" for i in range(200_000))
PICKLES = {
    "nested tuples as a key": b"\x80\x02}" + DOUBLING[2:] + b"K\x01s.",
    "nested tuples as keys of DICT": b"\x80\x02(" + DOUBLING[2:] + b"K\x01d.",
    "nested tuples as keys of SETITEMS": b"\x80\x02}(" + DOUBLING[2:] + b"K\x01u.",
    "nested tuples in a frozen set": b"\x80\x04(" + DOUBLING[2:] + b"\x91.",
    "nested tuples in a set": b"\x80\x04\x8f(" + DOUBLING[2:] + b"\x90.",
    "integers that collide as keys": b"\x80\x02}("
    + b"".join(
        b"\x8a\x0a" + (i * (2**61 - 1)).to_bytes(10, "little") + b"N" for i in range(200_000)
    )
    + b"u.",
    "a memo at two thousand million": b"\x80\x02}r\xff\xff\xff\x7f.",
    "a byte array of 3 GB": b"\x80\x05\x96" + struct.pack("<Q", 3 * 2**30) + b".",
    "bytes of 3 GB": b"\x80\x04\x8e" + struct.pack("<Q", 3 * 2**30) + b".",
    "a frame of 2 ** 60": b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b".",
    "a text encoded 3,000 times": b"\x80\x02c_codecs\nencode\nq\x000"
    + LONG
    + b"X\x06\x00\x00\x00latin1\x86q\x010"
    + AGAIN
    + b".",
    "lists in lists, 100,000 deep": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "nothing": b"",
    "no pickle": b"hello",
    "an instruction alone": b".",
    "a list": pickle.dumps([1]),
    "a call of os.system": b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
    "a label of 10 ** 30": batch(labels=[10**30] * 20),
    "a label of 5,000 digits": batch(labels=[10**5000] * 20),
    "a label of -1": batch(labels=[-1] * 20),
    "a label of 10": batch(labels=[10] * 20),
    "labels that are words": batch(labels=["a"] * 20),
    "labels that are lists": batch(labels=[[1]] * 20),
    "fewer labels": batch(labels=[0] * 19),
    "data that are text": batch(data="abc"),
    "data of one axis": batch(data=pixels(3072)),
    "data of doubles": batch(data=np.zeros((20, 3072))),
    "data of objects": batch(data=np.array([None, {}])),
    "a key that is no UTF-8": pickle.dumps({b"\xff": 1}, 2),
}
METAS = {
    "class names not in UTF-8": ("done", names(*LETTERS[:9], b"\xff\xfe")),
    "class names not in UTF-8, as text": (
        "done",
        {"batches_meta_txt": b"\n".join([*LETTERS[:9], b"\xff"])},
    ),
    "class names twice": ("refused", names(*LETTERS[:9], b"a")),
    "class names that are nested tuples": (
        "refused",
        {"batches_meta": b"\x80\x02}X\x0b\x00\x00\x00label_names]" + DOUBLING[2:] + b"as."},
    ),
    "class names that are numbers": ("refused", names(*range(10))),
    "fewer class names": ("refused", names(*LETTERS[:3])),
    "class names that are no list": ("refused", {"batches_meta": pickle.dumps({"label_names": 3})}),
}
