"""Libraries with part of their documentation, for the study of what documentation is worth."""

from __future__ import annotations

from dataclasses import replace

from spm_jax.data.schema import DataError, Library

LEVELS = ("names", "fields", "all")


def documented(library: Library, level: str) -> Library:
    """The same tools with names alone, with the names and types of inputs and outputs, or with all that is known.

    Raises DataError for a level that is not one of ``LEVELS``.
    """
    if level not in LEVELS:
        raise DataError(f"documentation = {level!r}: expected one of {', '.join(LEVELS)}")
    if level == "all":
        return library
    bare = [replace(tool, description="", family_description="") for tool in library]
    if level == "names":
        return Library(tuple(replace(t, inputs=(), outputs=(), outputs_known=False, outputs_from="") for t in bare))
    return Library(
        tuple(
            replace(
                tool,
                inputs=tuple(replace(field, description="") for field in tool.inputs),
                outputs=tuple(replace(field, description="") for field in tool.outputs),
            )
            for tool in bare
        )
    )
