"""Images with labels: read, split, augmented and normalised."""

from ardor.data.augment import augment, mixed, mixing
from ardor.data.images import Dataset, Images
from ardor.data.normalise import Normalise
from ardor.data.pictures import read_pictures
from ardor.data.sources import Missing, describe, load, names, place_of
from ardor.data.split import stratified

__all__ = [
    "Dataset",
    "Images",
    "Missing",
    "Normalise",
    "augment",
    "describe",
    "load",
    "mixed",
    "mixing",
    "names",
    "place_of",
    "read_pictures",
    "stratified",
]
