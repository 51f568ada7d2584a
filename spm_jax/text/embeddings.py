"""Embeddings of texts, kept on disk by content, since a language model takes minutes over a whole library.

The folder ``embeddings/FINGERPRINT`` of the cache holds what one encoder made, in files whose rows are the SHA-256 of a
text and its embedding. A library that changed costs its new texts only (users.md: "updated by difference").
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spm_jax.data.cache import cache_folder
from spm_jax.types import TextEncoder

KEPT_FROM = 256  # new texts of a call: fewer are quickly made again, and a serving process must not fill the disk


def encoded(encoder: TextEncoder, texts: Sequence[str], cache: str | os.PathLike | None = None) -> np.ndarray:
    """float32 [texts, E]: ``encoder.encode(texts)``, read from the cache where the same encoder met the same text.

    ``cache``: the folder, as in ``data.cache.cache_folder``. What is damaged there is made again.
    """
    folder = cache_folder(cache) / "embeddings" / encoder.fingerprint
    form = np.dtype([("text", "S64"), ("embedding", "<f4", (encoder.width,))])
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest().encode() for text in texts]
    known = _read(folder, form, set(keys))
    new = {key: text for key, text in zip(keys, texts) if key not in known}
    if new:
        made = np.zeros(len(new), form)
        made["text"], made["embedding"] = list(new), encoder.encode(list(new.values()))
        known.update(zip(new, made["embedding"]))
        if len(new) >= KEPT_FROM:
            _keep(folder, made)
    return np.array([known[key] for key in keys], np.float32).reshape(len(keys), encoder.width)


def _read(folder: Path, form: np.dtype, wanted: set[bytes]) -> dict[bytes, np.ndarray]:
    """The embeddings of the ``wanted`` texts that the folder holds; what is damaged counts for nothing."""
    known: dict[bytes, np.ndarray] = {}
    for file in sorted(folder.glob("*.npy")):
        try:
            kept = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            continue
        if kept.dtype != form or kept.ndim != 1:
            continue
        whole = np.abs(np.linalg.norm(kept["embedding"], axis=1) - 1) < 1e-3  # false for what is not finite
        rows = zip(kept["text"].tolist(), kept["embedding"], whole)
        known.update((key, embedding) for key, embedding, good in rows if good and key in wanted)
    return known


def _keep(folder: Path, rows: np.ndarray) -> None:
    """Write atomically, named by the texts; a cache that cannot be written is no reason to stop."""
    temporary = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".embeddings.")
        with os.fdopen(handle, "wb") as out:
            np.save(out, rows, allow_pickle=False)
        os.replace(temporary, folder / f"{hashlib.sha256(rows['text'].tobytes()).hexdigest()}.npy")
    except OSError:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
