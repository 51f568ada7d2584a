"""A BERT model's folder in the Hugging Face layout, read and checked (method.md section 4).

``config.json``, ``model.safetensors`` and ``tokenizer.json`` are needed. Where they are present, the files of
sentence-transformers say what else belongs to the model: ``modules.json`` its parts, ``1_Pooling/config.json`` the
pooling, ``sentence_bert_config.json`` or ``tokenizer_config.json`` where a text is cut. What would change the vectors
and cannot be followed is an error, never ignored; only the prompts that some folders name are left to the caller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spm_jax.data.cache import content_hash
from spm_jax.data.schema import DataError

NEEDED = ("config.json", "model.safetensors", "tokenizer.json")
_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLING = {"cls": "cls", "cls_token": "cls", "mean": "mean", "mean_tokens": "mean"}  # new name and old of each
_LAYER = {
    "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
    "out": "attention.output.dense", "attention_norm": "attention.output.LayerNorm", "up": "intermediate.dense",
    "down": "output.dense", "norm": "output.LayerNorm",
}  # fmt: skip


@dataclass(frozen=True)
class BertSizes:
    """What config.json says of the model."""

    width: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float


@dataclass(frozen=True, eq=False)
class BertFolder:
    """A folder's model on the host."""

    fingerprint: str  # of the files and of how they are used: other vectors, other fingerprint
    sizes: BertSizes
    params: dict[str, Any]  # of text.bert.Bert, float32
    tokenizer: Any  # tokenizers.Tokenizer, which cuts at ``longest``
    longest: int  # tokens of a text that count, with the two that mark its ends
    first: bool  # pool the first token (CLS), else the mean
    lower: bool  # texts are put in lower case


def read_json(path: Path, needed: bool = True, kind: type = dict) -> Any:
    """The ``kind`` that ``path`` holds; an empty one where the file is absent and not ``needed``."""
    if not needed and not path.is_file():
        return kind()
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(value, kind):
        raise DataError(f"{path}: expected a JSON {'object' if kind is dict else 'list'}")
    return value


def _sizes(path: Path) -> BertSizes:
    config = read_json(path)
    known = {"model_type": "bert", "position_embedding_type": "absolute", "hidden_act": "gelu"}
    for name, value in known.items():
        found = config.get(name, None if name == "model_type" else value)  # the other two have these defaults
        if found != value:
            raise DataError(f"{path}: {name} = {found!r}; {value!r} is what can be read")
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
             "max_position_embeddings", "type_vocab_size")  # fmt: skip
    for name in names:
        if type(config.get(name)) is not int or config[name] < 1:
            raise DataError(f"{path}: {name} = {config.get(name)!r}; a positive integer is needed")
    if config["hidden_size"] % config["num_attention_heads"]:
        raise DataError(f"{path}: hidden_size is no multiple of num_attention_heads")
    epsilon = config.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise DataError(f"{path}: layer_norm_eps = {epsilon!r}; a small positive number is needed")
    return BertSizes(*(config[name] for name in names), epsilon)


def _pooling(folder: Path) -> str:
    """'cls' or 'mean', as the modules of sentence-transformers say; 'mean', its default, where nothing says."""
    place = "1_Pooling"
    for module in read_json(folder / "modules.json", needed=False, kind=list):
        kind = str(module.get("type")).rpartition(".")[2] if isinstance(module, dict) else ""
        if kind not in _MODULES:
            raise DataError(f"{folder / 'modules.json'}: module {module!r:.120}; {', '.join(_MODULES)} can be read")
        place = str(module.get("path")) if kind == "Pooling" else place
    path = folder / place / "config.json"
    config = read_json(path, needed=False)
    switches = [name.removeprefix("pooling_mode_") for name, on in config.items() if on is True and "mode_" in name]
    modes = config.get("pooling_mode", switches or "mean")  # sentence-transformers 6 writes a name, older ones switches
    modes = [modes] if isinstance(modes, str) else modes
    if modes not in ([mode] for mode in _POOLING):
        raise DataError(f"{path}: pooling_mode = {modes!r}; one of cls and mean is what can be read")
    return _POOLING[modes[0]]


def _longest(folder: Path, sizes: BertSizes) -> int:
    """Tokens that count: max_seq_length, else the tokenizer's own limit; never more than there are positions."""
    for file, name in (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length")):
        found = read_json(folder / file, needed=False).get(name)
        if found is None:
            continue
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not found > 2:
            raise DataError(f"{folder / file}: {name} = {found!r}; a number above 2 is needed")
        return int(min(found, sizes.positions))
    return sizes.positions


def _parameters(tensors: Mapping[str, np.ndarray], sizes: BertSizes, where: Path) -> dict[str, Any]:
    """The module's parameters from the tensors of a safetensors file, shapes checked."""
    named = {  # a model with a head has the prefix; checkpoints of before 2020 have Greek names
        name.removeprefix("bert.").replace("Norm.gamma", "Norm.weight").replace("Norm.beta", "Norm.bias"): tensor
        for name, tensor in tensors.items()
    }

    def take(name: str, *shape: int) -> np.ndarray:
        tensor = named.get(name)
        if tensor is None:
            raise DataError(f"{where}: holds no tensor {name!r}; a BERT-family encoder is needed")
        if tensor.shape != shape:
            raise DataError(f"{where}: tensor {name!r} has shape {tensor.shape}, config.json asks for {shape}")
        return np.asarray(tensor, np.float32)

    def norm(name: str) -> dict[str, np.ndarray]:
        return {"scale": take(f"{name}.weight", sizes.width), "bias": take(f"{name}.bias", sizes.width)}

    width, wide = sizes.width, sizes.feed_forward
    shapes = {"up": (wide, width), "down": (width, wide)}
    rows = {"word": sizes.vocabulary, "position": sizes.positions, "type": sizes.types}
    names = {"word": "word_embeddings", "position": "position_embeddings", "type": "token_type_embeddings"}
    params: dict[str, Any] = {
        part: {"embedding": take(f"embeddings.{names[part]}.weight", rows[part], width)} for part in rows
    }
    params["norm"] = norm("embeddings.LayerNorm")
    for layer in range(sizes.layers):
        for part, theirs in _LAYER.items():
            name = f"encoder.layer.{layer}.{theirs}"
            if part.endswith("norm"):
                params[f"layer_{layer}_{part}"] = norm(name)
                continue
            out, into = shapes.get(part, (width, width))
            kernel, bias = take(f"{name}.weight", out, into).T, take(f"{name}.bias", out)
            params[f"layer_{layer}_{part}"] = {"kernel": kernel, "bias": bias}
    return {"params": params}


def read_folder(folder: Path) -> BertFolder:
    """Read and check a folder. Raises DataError naming the file and the field, or the missing package."""
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError:
        raise DataError("text encoder: needs tokenizers and safetensors; pip install 'spm_jax[text]'") from None
    config, weights, vocabulary = (folder / file for file in NEEDED)
    sizes = _sizes(config)
    longest, pooling = _longest(folder, sizes), _pooling(folder)
    lower = read_json(folder / "sentence_bert_config.json", needed=False).get("do_lower_case") is True
    try:
        tensors = load_file(weights)
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:  # the last two: a type it cannot give
        raise DataError(f"{weights}: cannot be read ({error})") from None
    try:
        tokenizer = Tokenizer.from_file(str(vocabulary))
    except Exception as error:  # the library raises bare Exception
        raise DataError(f"{vocabulary}: cannot be read ({error})") from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    highest = max(tokenizer.get_vocab().values(), default=0)
    if highest >= sizes.vocabulary:
        raise DataError(f"{vocabulary}: knows token {highest}, the model's vocab_size is {sizes.vocabulary}")
    params = _parameters(tensors, sizes, weights)
    use = f"{longest} {pooling == 'cls'}{' lower' if lower else ''}"
    fingerprint = content_hash([config, weights, vocabulary], use.encode())
    return BertFolder(fingerprint, sizes, params, tokenizer, longest, pooling == "cls", lower)
