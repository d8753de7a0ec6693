"""A teacher: what it takes, what it gives, and which of its outputs are our classes."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from standins.teachers import teacher

from ardor.errors import ArdorError
from ardor.models.outputs import LEAST, are_probabilities, outputs_of
from ardor.models.teacher import Teacher

GREY = torch.randint(0, 256, (7, 1, 8, 8), dtype=torch.uint8)
MEANS = GREY.float().mean((1, 2, 3))


def said(path: Path, scaling: str = "unit", pixels: torch.Tensor = GREY) -> torch.Tensor:
    one = Teacher(path)
    return torch.cat([one.outputs(part, scaling) for part in one.parts(pixels)])


def test_it_answers_as_the_file_computes(tmp_path: Path) -> None:
    found = said(teacher(tmp_path / "t.onnx"))
    assert torch.allclose(found, torch.stack([60 - MEANS, MEANS - 60], 1), atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        (("n", 1, 8, 8), TensorProto.FLOAT),
        (("n", "c", "h", "w"), TensorProto.FLOAT),  # three channels, as nearly all have
        (("n", 3, "h", "w"), TensorProto.FLOAT),
        (("n", "h", "w", 3), TensorProto.FLOAT),
        (("n", 16, 16, 1), TensorProto.FLOAT),
        ((1, 3, 8, 8), TensorProto.FLOAT),
        ((4, 1, 8, 8), TensorProto.FLOAT),
        (("n", 3, 8, 8), TensorProto.FLOAT16),
    ],
)
def test_pixels_are_brought_to_what_it_takes(shape: tuple[object, ...], kind: int, tmp_path: Path):
    flat = torch.arange(7, dtype=torch.uint8)[:, None, None, None].expand(7, 1, 8, 8) * 30
    found = said(teacher(tmp_path / "t.onnx", shape=shape, kind=kind), pixels=flat)
    assert torch.allclose(found[:, 1], torch.arange(7) * 30 - 60.0, atol=0.2)


def test_ranges_of_pixels_are_those_they_are_called_by(tmp_path: Path) -> None:
    one = teacher(tmp_path / "t.onnx", rows=[(1.0, 0.0)], scale=1.0, shape=("n", 3, 8, 8))
    x = MEANS / 255
    middle, spread = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    twins = {
        "pixels": MEANS,
        "unit": x,
        "centred": 2 * x - 1,
        "imagenet": ((x[:, None] - torch.tensor(middle)) / torch.tensor(spread)).mean(1).float(),
    }
    for scaling, twin in twins.items():
        assert torch.allclose(said(one, scaling)[:, 0], twin, rtol=1e-4, atol=1e-4), scaling


def test_pixels_of_eight_bits_are_given_as_they_are(tmp_path: Path) -> None:
    one = Teacher(teacher(tmp_path / "t.onnx", kind=TensorProto.UINT8, scale=1.0))
    assert one.scalings("auto") == ("pixels",)
    assert torch.allclose(one.outputs(GREY, "pixels")[:, 1], MEANS - 60, atol=1e-3)


def test_files_that_are_no_teacher_are_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "t.onnx"

    def refused(match: str, file: Path = path) -> None:
        with pytest.raises(ArdorError, match=match) as caught:
            said(file)
        assert "\n" not in str(caught.value)
        assert caught.value.hint

    refused("cannot read the teacher .*No such file")
    refused("cannot read the teacher .*directory", tmp_path)
    path.write_bytes(b"")
    refused("cannot be used: it has no graph")
    path.write_bytes(b"no protobuf at all" * 9)
    refused("cannot be used")
    teacher(path)
    path.write_bytes(path.read_bytes()[:-100])
    refused("cannot be used")
    refused("takes .*must be images", teacher(path, shape=("n", 5, 8, 8)))
    refused("takes .*must be images", teacher(path, kind=TensorProto.INT64))
    refused("images of 8x16 pixels; must be square", teacher(path, shape=("n", 3, 8, 16)))
    other = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])
    refused("2 inputs: x, z; must be 1", teacher(path, inputs=[other]))
    refused("not finite", teacher(path, rows=[(float("inf"), 0.0), (0.0, 0.0)]))
    custom = helper.make_node("Run", ["y"], ["z"], domain="some.where")
    refused("operator 'Run' of 'some.where'", teacher(path, extra=[custom]))
    (hidden,) = [
        helper.make_node("Constant", [], ["z"], value=helper.make_tensor("t", 1, [1], [1]))
    ]
    hidden.attribute[0].t.data_location = TensorProto.EXTERNAL
    refused("weights in other files", teacher(path, extra=[hidden]))


def test_what_fails_while_it_runs_is_told_in_the_one_line_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [7, 11])
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    graph = helper.make_graph(nodes, "made-up", [x], [y], [shape])
    opsets = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "t.onnx")
    with pytest.raises(ArdorError, match="cannot be used: .*Reshape"):
        said(tmp_path / "t.onnx")
    assert capfd.readouterr().err == ""


def test_weights_in_other_files_are_not_read(tmp_path: Path) -> None:
    model = onnx.load(teacher(tmp_path / "t.onnx"))
    onnx.save(model, tmp_path / "t.onnx", save_as_external_data=True, size_threshold=0)
    with pytest.raises(ArdorError, match="weights in other files"):
        Teacher(tmp_path / "t.onnx")


def test_settings_that_do_not_suit_its_input_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArdorError, match="'imagenet' does not suit"):
        Teacher(teacher(tmp_path / "t.onnx")).scalings("imagenet")
    whole = Teacher(teacher(tmp_path / "t.onnx", kind=TensorProto.UINT8))
    with pytest.raises(ArdorError, match="'unit' does not suit .* channels of uint8"):
        whole.scalings("unit")


def test_logits_and_probabilities_are_told_apart() -> None:
    logits = torch.randn(50, 4)
    assert are_probabilities(logits.softmax(1))
    assert not are_probabilities(logits)
    assert not are_probabilities(logits.relu())
    assert not are_probabilities(logits.log_softmax(1))


@pytest.mark.parametrize("shares", [True, False])
def test_probabilities_of_outputs_that_are_one_class_add_up(shares: bool, tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    file.write_text('0 = "dog"\n3 = "cat"\nlynx = "cat"\n')
    names = ("hound", "lynx", "car", "tabby")
    found = outputs_of(Path("t"), 4, names, ("cat", "dog"), file)
    p = torch.randn(5, 4).softmax(1)
    wanted = torch.stack([p[:, 1] + p[:, 3], p[:, 0]], 1)
    wanted /= wanted.sum(1, keepdim=True)
    rows = p if shares else p.log() + 7.0
    assert torch.allclose(found.log_probabilities(rows, shares=shares).exp(), wanted, atol=1e-5)


def test_a_probability_of_nothing_stays_finite() -> None:
    outputs = outputs_of(Path("t"), 2, (), ("a", "b"), None)
    found = outputs.log_probabilities(torch.tensor([[0.0, 1.0]]), shares=True)
    assert found[0, 0].exp().item() == pytest.approx(LEAST, rel=1e-3)


def test_outputs_are_taken_by_name_where_there_are_names() -> None:
    assert outputs_of(Path("t"), 3, ("c", "a", "b"), ("a", "b", "c"), None).of == ((1,), (2,), (0,))
    assert outputs_of(Path("t"), 3, ("c", "a", "b"), ("a", "b"), None).of == ((1,), (2,))
    assert outputs_of(Path("t"), 2, ("stale",), ("a", "b"), None).of == ((0,), (1,))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('0 = "cat"', "no output is mapped to class 'dog'"),
        ('0 = "cat"\n1 = "dgo"', "unknown class .*'dgo'"),
        ('0 = "cat"\n9 = "dog"', "names an output '9'; must be 0 to 2"),
        ('0 = "cat"\nhound = "dog"', "names an output 'hound'"),
        ('0 = 1\n1 = "dog"', "0 in .* is 1; must be a class"),
        ("0 = ", "cannot read"),
    ],
)
def test_files_that_map_wrongly_are_refused(text: str, match: str, tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    file.write_text(text)
    with pytest.raises(ArdorError, match=match) as caught:
        outputs_of(Path("t"), 3, (), ("cat", "dog"), file)
    assert caught.value.hint


def test_a_teacher_of_other_classes_is_refused() -> None:
    with pytest.raises(ArdorError, match="has 1,000 outputs; must be 2: cat, dog") as caught:
        outputs_of(Path("t"), 1000, (), ("cat", "dog"), None)
    assert "--teacher-classes FILE" in caught.value.hint
    with pytest.raises(ArdorError, match="does not know class 'dog', but cat, eel"):
        outputs_of(Path("t"), 2, ("cat", "eel"), ("cat", "dog"), None)
    file = Path("nowhere.json")
    with pytest.raises(ArdorError, match="cannot read 'nowhere.json'"):
        outputs_of(Path("t"), 2, (), ("cat", "dog"), file)
