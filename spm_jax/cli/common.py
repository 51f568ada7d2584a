"""What the commands share: configurations by path, key=value arguments, quiet logs. Importing it costs nothing."""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spm_jax.data.schema import DataError

if TYPE_CHECKING:
    from ml_collections import ConfigDict

FORMATTER = argparse.RawDescriptionHelpFormatter


def quiet_logs() -> None:
    """Only warnings of the libraries: Orbax and bm25s report every save and every index at the level below."""
    from absl import logging as absl_logging

    absl_logging.set_verbosity(absl_logging.WARNING)
    logging.getLogger("bm25s").setLevel(logging.WARNING)


def pairs(items: Iterable[str], option: str) -> dict[str, str]:
    """{key: value} of ``key=value`` arguments. Raises DataError for one without a key or "=", or a key given twice."""
    found: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise DataError(f"{option} {item!r}: expected key=value")
        if key in found:
            raise DataError(f"{option}: {key!r} is given twice")
        found[key.strip()] = value
    return found


def _no_constant(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are no JSON values; they stay text


def json_or_text(value: str) -> Any:
    """``value`` as JSON where it is JSON, else as it stands."""
    try:
        return json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return value


def _root(path: Path) -> Path:
    """The nearest folder above ``path`` that is no package: what must be on sys.path for the imports in it."""
    folder = path.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def load_config(path: str | os.PathLike) -> ConfigDict:
    """The configuration that ``get_config()`` of the Python file ``path`` returns.

    Raises DataError where there is no such file, where it fails to load, and where get_config is missing or returns
    something else.
    """
    from ml_collections import ConfigDict

    path = Path(path).resolve()
    if not path.is_file():
        raise DataError(f"{path}: no such configuration file")
    spec = importlib.util.spec_from_file_location(f"config_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise DataError(f"{path}: a configuration is a Python file, with the ending .py")
    module = importlib.util.module_from_spec(spec)
    root = str(_root(path))
    sys.path.insert(0, root)
    try:
        spec.loader.exec_module(module)
        config = module.get_config() if hasattr(module, "get_config") else None
    except Exception as error:  # whatever the file does; it is the user's code
        raise DataError(f"{path}: cannot be loaded as a configuration ({type(error).__name__}: {error})") from None
    finally:
        sys.path.remove(root)
    if not isinstance(config, ConfigDict):
        raise DataError(f"{path}: a configuration file defines get_config(), returning a ConfigDict")
    return config


def _like(old: Any, text: str) -> Any:
    """``text`` read as the type of ``old``. Raises ValueError where it is none."""
    if isinstance(old, bool):
        return {"true": True, "false": False}[text.lower()]
    if isinstance(old, tuple):
        items = [part.strip() for part in text.strip("()[] ").split(",") if part.strip()]
        return tuple(_like(old[0], item) if old else json_or_text(item) for item in items)
    return type(old)(text)


def set_fields(config: ConfigDict, settings: Iterable[str]) -> None:
    """Overwrite fields by ``a.b=value`` settings, read as the type of the field that is there.

    Raises DataError for a field that is not there and for a value of another type.
    """
    from ml_collections import ConfigDict

    for path, text in pairs(settings, "--set").items():
        *parents, name = path.split(".")
        node: Any = config
        for parent in (*parents, name):
            if not isinstance(node, ConfigDict) or parent not in node:
                known = ", ".join(node) if isinstance(node, ConfigDict) else "none below it"
                raise DataError(f"--set {path}: the configuration has no field {parent!r} there; known are {known}")
            holder, node = node, node[parent]
        if isinstance(node, ConfigDict):
            raise DataError(f"--set {path}: is a group of fields; set one of {', '.join(node)}")
        try:
            holder[name] = _like(node, text)
        except (ValueError, KeyError):
            raise DataError(f"--set {path}={text}: expected {type(node).__name__}, as in {node!r}") from None
