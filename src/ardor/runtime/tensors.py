"""Tensors on disk: safetensors with facts and a checksum; a damaged file is refused."""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save as to_bytes
from torch import Tensor

from ardor.errors import ArdorError, reason
from ardor.runtime.files import opened, parse_json, write

FORMAT = 1
DAMAGED = "put back a whole copy, or delete the file and go on: ardor resume does it again"


def save(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Writes a safetensors file with JSON facts and a checksum, completely or not at all.

    Strides are kept: a momentum laid out differently could round differently, and a resumed run
    would no longer equal an unbroken one.
    """
    strides = {name: t.stride() for name, t in tensors.items() if not t.is_contiguous()}
    text = json.dumps({"facts": facts, "strides": strides}, sort_keys=True)
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"format": FORMAT, "content": text, "sha256": digest(text, flat)}
    # One entry only: safetensors writes several in no fixed order, and the bytes would differ.
    write(path, to_bytes(flat, {"ardor": json.dumps(header)}))


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts that `save` wrote; an ArdorError if the file was cut or changed."""
    try:
        header, tensors = _read(path)
    except (OSError, ValueError, TypeError, safetensors.SafetensorError) as error:
        raise ArdorError(f"cannot read '{path}': {reason(error)}", DAMAGED) from error
    if header.get("format") != FORMAT:
        raise ArdorError(
            f"'{path}' has format {header.get('format')}; this version reads {FORMAT}",
            "use the version of Ardor that wrote it",
        )
    text = header.get("content")
    if not isinstance(text, str) or header.get("sha256") != digest(text, tensors):
        raise ArdorError(
            f"'{path}' does not match its checksum: it was changed after it was written", DAMAGED
        )
    try:  # anyone can compute a checksum
        facts, strides = _content(text)
        tensors |= {name: _laid_out(name, tensors, stride) for name, stride in strides.items()}
    except ValueError as error:
        raise ArdorError(f"'{path}' is not as Ardor writes it: {error}", DAMAGED) from error
    return tensors, facts


def load_any(path: Path) -> dict[str, Tensor]:
    """The tensors of any safetensors file; an ArdorError for a file that is none."""
    try:
        return _read(path)[1]
    except (OSError, ValueError, TypeError, safetensors.SafetensorError) as error:
        raise ArdorError(
            f"cannot read weights from '{path}': {reason(error)}",
            "write them with safetensors.torch.save_file(module.state_dict(), PATH); files that "
            "can run code when they are read are not opened",
        ) from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The header of a safetensors file, and its tensors."""
    with opened(path, most=sys.maxsize), safetensors.safe_open(path, framework="pt") as file:
        header = parse_json((file.metadata() or {}).get("ardor", "{}"))
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
        return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _content(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts and strides; a ValueError where the text has none."""
    content = parse_json(text)
    entries = content if isinstance(content, dict) else {}
    facts, strides = entries.get("facts"), entries.get("strides")
    if not isinstance(facts, dict) or not isinstance(strides, dict):
        raise ValueError("it has no objects 'facts' and 'strides'")
    return facts, strides


def _laid_out(name: str, tensors: Mapping[str, Tensor], stride: Any) -> Tensor:
    """A tensor with that stride in memory; a ValueError if elements overlap or leave gaps."""
    shape = list(tensors[name].shape) if name in tensors else []
    integers = isinstance(stride, list) and all(type(step) is int for step in stride)
    if (
        name not in tensors
        or not integers
        or len(stride) != len(shape)
        or not _dense(shape, stride)
    ):
        raise ValueError(f"strides of '{name}' are {stride!r}, of a tensor of {shape}")
    empty = torch.empty_strided(shape, stride, dtype=tensors[name].dtype)
    return empty.copy_(tensors[name])


def _dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether elements lie side by side in some order, without gaps or overlaps."""
    filled = 1
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size > 1 and step != filled:
            return False
        filled *= max(1, size)
    return all(0 < step <= filled for step in stride)


def digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """A checksum of facts and tensors together."""
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        total.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        total.update(tensors[name].contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
