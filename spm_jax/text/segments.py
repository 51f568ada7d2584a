"""A request as the clauses it is made of: each mostly asks for one step, in the order of the steps [ours]."""

from __future__ import annotations

import re

from spm_jax.text.documents import content_words

SEGMENTS = 16  # most clauses of a request; of a longer one, neighbours are joined
SHORTEST = 2  # content words; a shorter clause belongs to the next

# Ends of sentences, commas, and the English words that join steps.
_JOINT = re.compile(
    r"(?<=[.?!;:])\s+|(?<=[。！？；])|\n+|,\s+|[，、]"
    r"|\s+(?:and|then|also|finally|next|after that|afterwards|before|so that|while|but|plus)\s+",
    re.IGNORECASE,
)


def clauses(text: str) -> list[str]:
    """The clauses of ``text`` in order; at most ``SEGMENTS``, each with at least ``SHORTEST`` words but for the last.

    >>> clauses("First look up order 7. Then e-mail the receipt, and finally close it.")
    ['First look up order 7.', 'Then e-mail the receipt', 'and close it.']
    """
    found: list[str] = []
    short = ""
    for part in _JOINT.split(text):
        part = f"{short} {part or ''}".strip()
        if len(content_words(part)) < SHORTEST:
            short = part
        else:
            found.append(part)
            short = ""
    if short:
        found.append(short)
    count = len(found)
    if count <= SEGMENTS:
        return found
    joined: list[list[str]] = [[] for _ in range(SEGMENTS)]
    for number, part in enumerate(found):
        joined[number * SEGMENTS // count].append(part)
    return [" ".join(parts) for parts in joined]
