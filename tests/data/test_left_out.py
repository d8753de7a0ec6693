"""What a folder holds that is not used: each file with the reason, none in silence."""

import json
from pathlib import Path

import pytest
from standins.user import TINY, done, pictures, png, refused

from ardor.data import load
from ardor.data.left_out import LeftOut, grouped


def why(folder: Path, **settings: bool) -> dict[str, str]:
    found = load(str(folder), **settings).left_out
    reasons = {one.path: one.why for one in found}
    assert len(reasons) == len(found)
    return reasons


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def test_nothing_is_left_out_of_a_folder_of_images_by_class(tmp_path: Path) -> None:
    assert why(pictures(tmp_path / "plain", "cat", "dog")) == {}
    for part in ("train", "test"):
        pictures(tmp_path / "split" / part, "cat", "dog")
    assert why(tmp_path / "split") == {}
    assert load("digits").left_out == ()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("cat/1.HEIC", ".heic is not read"),
        ("photo.avif", ".avif is not read"),
        ("stray.png", "of no class"),
        ("cat/more/1.png", "inside that of a class"),
        ("cat/more/still/1.png", "inside that of a class"),
        ("cat/.1.png", "hidden"),
        (".DS_Store", "hidden"),
        ("cat/Thumbs.db", "not named as an image"),
        ("labels.csv", "not named as an image"),
    ],
)
def test_each_file_is_named_with_its_reason(tmp_path: Path, path: str, reason: str) -> None:
    pictures(tmp_path, "cat", "dog")
    put(tmp_path / path)
    (found,) = why(tmp_path).items()
    assert found[0] == path
    assert reason in found[1]


def test_folders_without_images_are_named_and_what_is_in_them(tmp_path: Path) -> None:
    pictures(tmp_path, "cat", "dog")
    (tmp_path / "eel").mkdir()
    put(tmp_path / "fox" / "1.heic")
    put(tmp_path / "gnu" / "old" / "1.png")
    put(tmp_path / ".git" / "index")
    (tmp_path / "cat" / "odd.png").symlink_to("nowhere.png")
    found = why(tmp_path)
    assert list(found) == [
        *(".git/", "cat/odd.png", "eel/", "fox/", "fox/1.heic", "gnu/", "gnu/old/1.png")
    ]
    assert all("no class" in found[name] for name in ("eel/", "fox/", "gnu/"))
    assert found["cat/odd.png"] == "no regular file"


def test_what_is_beside_training_and_test_images_is_named(tmp_path: Path) -> None:
    for part in ("train", "test", "val"):
        pictures(tmp_path / part, "cat", "dog", count=2)
    png(tmp_path / "train" / "stray.png")
    found = why(tmp_path)
    assert found["val/cat/1.png"] == "outside train/ and test/"
    assert "of no class" in found["train/stray.png"]
    assert "val/" in found
    assert len(found) == 4 + 1 + 1


def test_classes_behind_links_are_searched_and_loops_end(tmp_path: Path) -> None:
    away = pictures(tmp_path / "away", "cat", "dog")
    put(away / "cat" / "1.heic")
    (away / "cat" / "again").symlink_to(tmp_path / "set")
    (tmp_path / "set").mkdir()
    for name in ("cat", "dog"):
        (tmp_path / "set" / name).symlink_to(away / name)
    assert "cat/1.heic" in why(tmp_path / "set")


def test_broken_files_that_are_skipped_are_named(tmp_path: Path) -> None:
    put(pictures(tmp_path, "cat", "dog") / "cat" / "bad.png")
    assert "cannot be read" in why(tmp_path, skip_broken=True)["cat/bad.png"]


def test_a_folder_of_images_of_other_kinds_only_is_refused_with_their_names(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        put(tmp_path / name / "1.HEIC")
    refused("check", tmp_path, error="no images found in", hint=".heic files are not read")


def test_long_lists_name_the_first_and_count_the_rest() -> None:
    many = [LeftOut(f"{number}.heic", "old") for number in range(1200)]
    (line,) = grouped(many)
    assert line == "1,200 (old): 0.heic, 1.heic, 2.heic, 3.heic, 4.heic and 1,195 more"
    assert list(grouped([*many[:1], LeftOut("a/", "empty")])) == [
        "1 (old): 0.heic",
        "1 (empty): a/",
    ]


def test_check_names_them_and_json_has_all(tmp_path: Path) -> None:
    photos = pictures(tmp_path / "photos", "cat", "dog")
    for number in range(8):
        put(photos / "cat" / f"{number}.heic")
    said = done("check", photos).out
    assert "left out" in said
    assert "cat/4.heic" in said
    assert "cat/5.heic" not in said
    content = json.loads(done("check", photos, "--json").out)
    assert [one["path"] for one in content["left_out"]] == [f"cat/{n}.heic" for n in range(8)]
    said = done("search", photos, "--run", tmp_path / "run", *TINY).err
    assert f"images: 8 files left out; 'ardor check {photos}' names them" in said
