"""Images with labels: read, split, augmented and normalised."""

from ardor.data.augment import augment, mixed, mixing
from ardor.data.images import UNLABELLED, Dataset, Images, Taught, joined
from ardor.data.normalise import Normalise
from ardor.data.pictures import read_pictures
from ardor.data.sources import Missing, describe, load, names, of_pictures, place_of
from ardor.data.split import stratified
from ardor.data.unlabelled import with_unlabelled

__all__ = [
    "UNLABELLED",
    "Dataset",
    "Images",
    "Missing",
    "Normalise",
    "Taught",
    "augment",
    "describe",
    "joined",
    "load",
    "mixed",
    "mixing",
    "names",
    "of_pictures",
    "place_of",
    "read_pictures",
    "stratified",
    "with_unlabelled",
]
