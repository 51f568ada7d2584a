from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import pytest
import toy_training as toy

from spm_jax.data.schema import DataError
from spm_jax.train import checkpoint
from spm_jax.train.mesh import data_mesh, replicated
from spm_jax.train.optim import adamw, warmup_cosine


def equal(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and np.array_equal(left[name], right[name]) for name in left
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of the toy state at steps 3 and 9; the one at 9 has other parameters."""
    root = tmp_path_factory.mktemp("written") / "checkpoints"
    leaves = checkpoint.host_leaves(toy.initial())
    checkpoint.save(root, 3, leaves, {"at": 3}, keep=2)
    checkpoint.save(root, 9, {**leaves, "params/outer": leaves["params/outer"] + 1}, {"at": 9}, keep=2)
    return root


@pytest.fixture
def root(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "checkpoints")


def test_a_state_comes_back_as_it_was_with_its_random_key(root: Path) -> None:
    state = toy.initial()
    restored = checkpoint.restore(root, state)
    assert (restored.step, restored.meta) == (9, {"at": 9})
    left, right = checkpoint.host_leaves(restored.tree), checkpoint.host_leaves(state)
    assert np.array_equal(left.pop("params/outer"), right.pop("params/outer") + 1)
    assert equal(left, right)
    draw = jax.random.normal(restored.tree.rng, (3,))
    assert np.array_equal(draw, jax.random.normal(state.rng, (3,)))


def test_a_checkpoint_is_placed_on_another_number_of_devices(root: Path) -> None:
    four = checkpoint.restore(root, toy.initial(), replicated(data_mesh(jax.devices()[:4]))).tree
    assert all(len(leaf.sharding.device_set) == 4 for leaf in jax.tree.leaves(four))
    one = checkpoint.restore(root, four, replicated(data_mesh(jax.devices()[2:3]))).tree
    assert {d.id for leaf in jax.tree.leaves(one) for d in leaf.sharding.device_set} == {2}
    assert equal(checkpoint.host_leaves(one), checkpoint.host_leaves(four))


def test_nothing_saved_is_none_and_only_the_newest_are_kept(tmp_path: Path) -> None:
    assert checkpoint.restore(tmp_path / "none", toy.initial()) is None
    for step in (1, 2, 5, 11):
        checkpoint.save(tmp_path, step, {"a": np.arange(step)}, {}, keep=2)
    assert checkpoint.saved_steps(tmp_path) == [5, 11]
    (tmp_path / "7").mkdir()  # unfinished ones do not count among those that are kept, nor do later ones stay
    (tmp_path / "13").mkdir()
    checkpoint.save(tmp_path, 12, {"a": np.arange(12)}, {}, keep=2)
    assert checkpoint.saved_steps(tmp_path) == [11, 12]


def array_file(folder: Path) -> Path:
    """The largest file of the arrays: their numbers."""
    return max((p for p in folder.rglob("arrays/**/*") if p.is_file()), key=lambda p: p.stat().st_size)


def garble(folder: Path) -> None:
    path = array_file(folder)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def edit_marker(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        marker = json.loads((folder / "checkpoint.json").read_text())
        change(marker)
        (folder / "checkpoint.json").write_text(json.dumps(marker))

    return edit


DAMAGE = {
    "no marker: an unfinished save": (lambda f: (f / "checkpoint.json").unlink(), "unfinished"),
    "marker cut off": (lambda f: (f / "checkpoint.json").write_text('{"format": 1, "con'), "cannot be read"),
    "marker empty": (lambda f: (f / "checkpoint.json").write_text(""), "cannot be read"),
    "marker of bytes": (lambda f: (f / "checkpoint.json").write_bytes(b"\xff\xfe\x00"), "cannot be read"),
    "marker not an object": (lambda f: (f / "checkpoint.json").write_text("[]"), "not the marker"),
    "metadata changed": (edit_marker(lambda m: m["content"]["meta"].update(at=10)), "SHA-256"),
    "array file deleted": (lambda f: array_file(f).unlink(), "is missing"),
    "array file cut off": (lambda f: array_file(f).write_bytes(array_file(f).read_bytes()[:-7]), "has changed"),
    "array file empty": (lambda f: array_file(f).write_bytes(b""), "has changed"),
    "one bit flipped": (garble, "has changed"),
    "all arrays deleted": (lambda f: shutil.rmtree(next(f.glob("data-*"))), "is missing"),
    "a file added": (lambda f: (next(f.glob("data-*")) / "arrays" / "d" / "x").write_text("x"), "not one of its files"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_newest_checkpoint_is_passed_over_aloud(root: Path, name: str) -> None:
    damage, reason = DAMAGE[name]
    damage(root / "9")
    with pytest.warns(checkpoint.CheckpointWarning, match=reason) as caught:
        restored = checkpoint.restore(root, toy.initial())
    assert len(caught) == 1 and str(root / "9") in str(caught[0].message)
    assert (restored.step, restored.meta) == (3, {"at": 3})


def test_all_damaged_is_a_warning_for_each_and_none(root: Path) -> None:
    garble(root / "9")
    (root / "3" / "checkpoint.json").unlink()
    with pytest.warns(checkpoint.CheckpointWarning) as caught:
        assert checkpoint.restore(root, toy.initial()) is None
    assert len(caught) == 2


def test_another_format_names_both_versions_and_is_not_passed_over(root: Path) -> None:
    edit_marker(lambda m: m.update(format=3, spm_jax="9.9.9"))(root / "9")
    with pytest.raises(checkpoint.CheckpointError, match=r"format 3, written by spm_jax 9\.9\.9.*reads format 2"):
        checkpoint.restore(root, toy.initial())
    with pytest.raises(DataError, match="format 2"):
        checkpoint.load_bundle(root / "9")


def test_another_model_names_the_leaf(root: Path) -> None:
    with pytest.raises(checkpoint.CheckpointError, match=r"9: leaf 'params/inner/bias' has shape \(7,\).*wants \(6,\)"):
        checkpoint.restore(root, toy.initial(6))
    leaves = {name: jax.numpy.asarray(leaf) for name, leaf in checkpoint.host_leaves(toy.initial()).items()}
    with pytest.raises(checkpoint.CheckpointError, match="leaf 'more' is missing"):
        checkpoint.restore(root, {**leaves, "more": jax.numpy.zeros(1)})
    with pytest.raises(checkpoint.CheckpointError, match="leaf 'step' is not in this model"):
        checkpoint.restore(root, {name: leaf for name, leaf in leaves.items() if name != "step"})
    with pytest.raises(checkpoint.CheckpointError, match="leaf 'step' has shape .* dtype int32.*float32"):
        checkpoint.restore(root, {**leaves, "step": jax.numpy.float32(0)})


ARRAYS = {
    "weights/a.b[0]": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(3, np.int64),
    "empty": np.zeros((0, 4), np.float32),
    "flags": np.array([True, False]),
    "half": np.array([1.5, -2], ml_dtypes.bfloat16),
    "bytes": np.frombuffer("键".encode(), np.uint8),
}


def test_a_bundle_comes_back_exactly_and_replaces_the_one_before(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    meta = {"vocabulary": ["order", "订单", ""], "rate": 0.1 + 0.2, "config": {"width": 128}}
    checkpoint.save_bundle(folder, {"old": np.ones(3)}, {}, {"notes.txt": lambda path: path.write_text("old")})
    checkpoint.save_bundle(folder, ARRAYS, meta, {"library.jsonl": lambda path: path.write_text("one\n")})
    bundle = checkpoint.load_bundle(folder)
    assert equal(bundle.arrays, ARRAYS)
    assert bundle.meta == meta
    assert {name: path.read_text() for name, path in bundle.files.items()} == {"library.jsonl": "one\n"}
    assert len(list(folder.iterdir())) == 2
    moved = folder.rename(tmp_path / "moved")
    assert equal(checkpoint.load_bundle(moved).arrays, ARRAYS)


def test_large_arrays_are_mapped_and_checked_like_the_others(tmp_path: Path) -> None:
    large = np.arange(1 << 18, dtype=np.float32).reshape(512, 512)  # exactly a mebibyte
    arrays = {"deep/large": large, "small": large[:511], "odd": large.astype(ml_dtypes.bfloat16)[:, :, None] * [1, 1]}
    arrays["odd"] = arrays["odd"].astype(ml_dtypes.bfloat16)
    checkpoint.save_bundle(tmp_path / "b", arrays, {})
    read = checkpoint.load_bundle(tmp_path / "b")
    assert equal(read.arrays, arrays) and read.files == {}
    assert [isinstance(read.arrays[name], np.memmap) for name in arrays] == [True, False, False]
    with pytest.raises(ValueError, match="read-only"):
        read.arrays["deep/large"][0, 0] = 1
    checkpoint.save_bundle(tmp_path / "b", {"deep/large": large + 1}, {})  # what is mapped outlives its file
    assert np.array_equal(read.arrays["deep/large"], large)
    (path,) = (tmp_path / "b").rglob("large.npy")
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(checkpoint.DamagedError, match=r"mapped/deep/large.npy has changed"):
        checkpoint.load_bundle(tmp_path / "b")


def test_a_save_that_fails_leaves_the_bundle_before(tmp_path: Path) -> None:
    checkpoint.save_bundle(tmp_path, ARRAYS, {"n": 1})

    def full(path: Path) -> None:
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        checkpoint.save_bundle(tmp_path, {"a": np.ones(2)}, {"n": 2}, {"library.jsonl": full})
    assert checkpoint.load_bundle(tmp_path).meta == {"n": 1}
    checkpoint.save_bundle(tmp_path, {}, {"n": 3})
    assert checkpoint.load_bundle(tmp_path) == ({}, {"n": 3}, {})
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("arrays", "meta", "files", "message"),
    [
        ({"words": np.array(["a", "b"])}, {}, {}, "array 'words' is <U1"),
        ({"things": np.array([None])}, {}, {}, "array 'things' is object"),
        ({"list": [1, 2]}, {}, {}, "array 'list' is list"),
        ({}, {"x": float("nan")}, {}, "not JSON"),
        ({}, {"x": {1, 2}}, {}, "not JSON"),
        ({}, {}, {"../out": lambda path: None}, "cannot be the name"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path: Path, arrays: dict, meta: dict, files: dict, message: str) -> None:
    with pytest.raises(checkpoint.CheckpointError, match=message):
        checkpoint.save_bundle(tmp_path / "b", arrays, meta, files)


def test_what_is_not_a_bundle_is_named(tmp_path: Path) -> None:
    with pytest.raises(checkpoint.CheckpointError, match="no such folder"):
        checkpoint.load_bundle(tmp_path / "nowhere")
    with pytest.raises(checkpoint.CheckpointError, match=r"checkpoint\.json is missing"):
        checkpoint.load_bundle(tmp_path)


def test_the_learning_rate_rises_and_falls() -> None:
    rate = warmup_cosine(0.4, warmup_steps=3, total_steps=7)
    got = [float(rate(jax.numpy.int32(n))) for n in range(7)]
    # Rising by quarters; then 0.4 * (1 + cos(pi * n / 4)) / 2 for n = 0..3.
    assert got == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.2 + 0.2 * 2**-0.5, 0.2, 0.2 - 0.2 * 2**-0.5], rel=1e-5)
    with pytest.raises(ValueError, match="warmup_steps"):
        warmup_cosine(0.4, 7, 7)


def test_weight_decay_leaves_biases_alone_and_gradients_are_clipped() -> None:
    params = {"kernel": jax.numpy.ones((2, 2)), "bias": jax.numpy.ones(2)}
    optimizer = adamw(0.1, weight_decay=0.5, warmup_steps=0, total_steps=10, clip=1.0)
    still = jax.tree.map(jax.numpy.zeros_like, params)
    updates, _ = optimizer.update(still, optimizer.init(params), params)
    assert np.allclose(updates["kernel"], -0.1 * 0.5) and np.all(updates["bias"] == 0)
    huge = jax.tree.map(lambda leaf: jax.numpy.full_like(leaf, 1e10), params)
    updates, state = optimizer.update(huge, optimizer.init(params), params)
    # Six equal gradients of norm 1 are 6 ** -0.5 each; the first moment holds a tenth of that.
    moments = [np.asarray(leaf) for leaf in jax.tree.leaves(state) if leaf.shape == (2,)]
    assert any(np.allclose(moment, 0.1 * 6**-0.5) for moment in moments)
