"""The formulas of method.md sections 2 to 7 in plain loops over Python sets, as slow and as literal as they can be:
signals, path statistics, text scores, frontier and features; the decoders are in reference_decode.py.

Nothing here imports spm_jax: these are the second opinions that the compiled program is compared with. Key ids are
integers, -1 = none, and a tool's keys may come as a padded row. Numbers are float64 throughout.

They were written from the specification alone. Where it is silent they follow the program's choice: TF-IDF is
(1 + log count) idf, a word of a request counts in BM25 with the root of its count, a neighbour's share has a divisor
of groups + 0.5, a producer is credited with shares of a consumer's inputs, the best of a family is at least 0, and a
tool has no relation to itself.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

import numpy as np

Keys = Sequence[int] | np.ndarray
Gold = Sequence[Collection[int]]


def keys(row: Keys) -> set[int]:
    """The keys of a padded row."""
    return {int(key) for key in row if key >= 0}


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def share(part: float, whole: float) -> float:
    return part / max(1, whole)


# --- signals (section 2) ---------------------------------------------------------------------------------------------


def chi(inputs: Keys, visible: Keys) -> float:
    need = keys(inputs)
    return share(len(need & keys(visible)) + (not need), len(need))


def kappa(outputs: Keys, inputs: Keys) -> float:
    """Flow from a tool with ``outputs`` to another with ``inputs``."""
    return share(len(keys(outputs) & keys(inputs)), len(keys(inputs)))


def rho(before: float, after: float) -> float:
    return math.log((before + 1) / (after + 1))


def produces(outputs: Sequence[Keys], inputs: Sequence[Keys]) -> np.ndarray:
    """bool [C, C, I]: i outputs the p-th required input of j; never i = j."""
    result = np.zeros((len(outputs), len(inputs), len(inputs[0])), bool)
    for i, made in enumerate(outputs):
        for j, need in enumerate(inputs):
            for p, key in enumerate(need):
                result[i, j, p] = i != j and key >= 0 and key in keys(made)
    return result


def jaccard(a: Keys, b: Keys) -> float:
    return share(len(keys(a) & keys(b)), len(keys(a) | keys(b)))


# --- path statistics (section 2) -------------------------------------------------------------------------------------


class Statistics:
    """Counts over trajectories in dictionaries; a tool stands where it was called first, listings all count."""

    def __init__(self, golds: Sequence[Gold], groups: Sequence[str]) -> None:
        self.calls: Counter[int] = Counter()
        self.first: Counter[int] = Counter()
        self.last: Counter[int] = Counter()
        self.precedes: Counter[tuple[int, int]] = Counter()
        self.follows: Counter[tuple[int, int]] = Counter()
        self.groups: dict[int, set[str]] = defaultdict(set)
        for gold, group in zip(golds, groups, strict=True):
            position: dict[int, int] = {}
            for step, tools in enumerate(gold):
                for tool in tools:
                    position.setdefault(tool, step)
            for i, at in position.items():
                self.calls[i] += 1
                self.groups[i].add(group)
                self.first[i] += at == 0
                self.last[i] += at == len(gold) - 1
                for j, then in position.items():
                    self.precedes[i, j] += at < then
                    self.follows[i, j] += at + 1 == then

    def together(self, i: int, j: int) -> int:
        """Groups that call both."""
        return len(self.groups[i] & self.groups[j])

    def neighbours(self, tool: int, most: int = 32) -> dict[int, float]:
        """Share of the tool's groups that call each other tool too, of the ``most`` with the largest above 0."""
        mine = self.groups.get(tool, set())
        shares = {j: len(mine & theirs) / (len(mine) + 0.5) for j, theirs in self.groups.items() if j != tool}
        return best_postings({j: value for j, value in shares.items() if value > 0}, most)


# --- text and path memory (sections 4 and 5) -------------------------------------------------------------------------


def bm25_impacts(documents: Sequence[Sequence[str]], k1: float = 1.5, b: float = 0.75) -> dict[str, dict[int, float]]:
    """BM25 in Lucene's form: word -> document -> impact."""
    counts = [Counter(words) for words in documents]
    mean_length = sum(map(len, documents)) / len(documents)
    impacts: dict[str, dict[int, float]] = {}
    for word in {word for words in documents for word in words}:
        holders = [d for d, count in enumerate(counts) if count[word]]
        idf = math.log(1 + (len(documents) - len(holders) + 0.5) / (len(holders) + 0.5))
        impacts[word] = {}
        for d in holders:
            norm = k1 * (1 - b + b * len(documents[d]) / mean_length)
            impacts[word][d] = idf * counts[d][word] / (counts[d][word] + norm)
    return impacts


def best_postings(entries: Mapping[int, float], longest: int) -> dict[int, float]:
    """The ``longest`` entries of highest weight, ties by tool id."""
    ranked = sorted(entries.items(), key=lambda entry: (-entry[1], entry[0]))
    return dict(ranked[:longest])


def bm25_scores(documents: Sequence[Sequence[str]], query: Sequence[str], longest: int = 1 << 30) -> np.ndarray:
    """float64 [N]: the sum over the words of ``query`` of their impacts times the root of their counts."""
    impacts = bm25_impacts(documents)
    scores = np.zeros(len(documents))
    for word, count in Counter(query).items():
        for d, impact in best_postings(impacts.get(word, {}), longest).items():
            scores[d] += math.sqrt(count) * impact
    return scores


def tfidf(words: Keys, counts: Sequence[float], idf: np.ndarray) -> np.ndarray:
    """float64 [words]: (1 + log count) idf, length 1; 0 without words."""
    row = np.zeros(len(idf))
    for word, count in zip(words, counts, strict=True):
        if word >= 0:
            row[word] += (1 + math.log(count)) * idf[word]
    return normalised(row)


def normalised(row: np.ndarray) -> np.ndarray:
    length = math.sqrt(float(row @ row))
    return row / length if length > 0 else row


def query_embedding(words: Keys, counts: Sequence[float], idf: np.ndarray, projection: np.ndarray) -> np.ndarray:
    return normalised(tfidf(words, counts, idf) @ projection)


def path_memory(rows: np.ndarray, called: np.ndarray, query: np.ndarray, ridge: float) -> np.ndarray:
    """float64 [U]: kernel ridge regression of ``called`` [R, U] on the cosine of ``rows`` [R, words], dual form."""
    kernel = rows @ rows.T
    dual = np.linalg.solve(kernel + ridge * np.eye(len(rows)), called)
    return (rows @ query) @ dual


def extended_scores(
    plain: np.ndarray,
    documents: Mapping[int, Sequence[str]],
    texts: Sequence[Sequence[str]],
    golds: Sequence[Gold],
    query: Sequence[str],
    idf: Mapping[str, float],
) -> np.ndarray:
    """float64 [N]: BM25 of ``query`` with the ``documents`` of used tools extended by the texts that call them.

    The idf is the library's, the mean length that of the used tools' own documents; other tools keep ``plain`` [N].
    """
    scores = plain.astype(float).copy()
    mean = max(1.0, sum(len([w for w in own if w in idf]) for own in documents.values()) / max(1, len(documents)))
    for tool, own in documents.items():
        count = Counter(word for word in own if word in idf)
        for text, gold in zip(texts, golds, strict=True):
            if any(tool in step for step in gold):
                count.update(word for word in text if word in idf)
        norm = 1.5 * (0.25 + 0.75 * sum(count.values()) / mean)
        scores[tool] = sum(
            math.sqrt(times) * idf[word] * count[word] / (count[word] + norm)
            for word, times in Counter(query).items()
            if count[word]
        )
    return scores


# --- frontier (section 4) --------------------------------------------------------------------------------------------


def over(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def anchor_features(
    lexical: np.ndarray, dense: np.ndarray, memory: np.ndarray, groups: np.ndarray, family: np.ndarray
) -> np.ndarray:
    """float64 [N, 12] in the order of ``Anchor``; ``lexical`` are raw BM25 scores, ``groups`` 0 where never used."""
    n = len(lexical)
    lexical = np.array([over(x, max(lexical)) for x in lexical])
    rows = np.zeros((n, 12))
    for i in range(n):
        kin = [j for j in range(n) if family[j] == family[i]]
        best = max(lexical[j] for j in kin)
        best_memory = max(0, *(memory[j] for j in kin))
        group_sum = sum(groups[j] for j in kin)
        within = over(lexical[i], best)
        rows[i] = [
            lexical[i],
            dense[i],
            memory[i],
            math.log(1 + groups[i]),
            groups[i] > 0,
            best,
            best_memory,
            math.log(1 + group_sum),
            within,
            within if group_sum > 0 else 0,
            within * best_memory,
            1,
        ]
    return rows


def propagated_features(
    score: np.ndarray,
    anchors: int,
    statistics: Statistics,
    family: np.ndarray,
    inputs: Sequence[Keys],
    outputs: Sequence[Keys],
    visible: Keys,
) -> np.ndarray:
    """float64 [N, 3]: NEIGHBOUR, FAMILY_NEIGHBOUR and PRODUCER of every tool, of the first pass's ``score`` [N]."""
    n = len(score)
    chosen = sorted(range(n), key=lambda i: (-score[i], i))[:anchors]
    rows = np.zeros((n, 3))
    for a in chosen:
        for j, value in statistics.neighbours(a).items():
            rows[j, 0] = max(rows[j, 0], sigmoid(score[a]) * value)
        for key in keys(inputs[a]) - keys(visible):
            for i in range(n):
                rows[i, 2] += sigmoid(score[a]) * share(key in keys(outputs[i]), len(keys(inputs[a])))
    for i in range(n):
        rows[i, 1] = max(rows[j, 0] for j in range(n) if family[j] == family[i])
        rows[i, 2] = math.log(1 + rows[i, 2])
    return rows


def select(score: np.ndarray, valid: np.ndarray, size: int) -> list[int]:
    """The ``size`` valid tools of highest ``score``, ties by id."""
    return sorted(np.flatnonzero(valid), key=lambda i: (-score[i], i))[:size]


def inject(tool: Sequence[int], wanted: Sequence[int]) -> set[int]:
    """The tools after injection: those of ``wanted`` that lack push out the last that are not wanted."""
    kept, lacking = list(tool), keys(wanted) - set(tool)
    for _ in lacking:
        del kept[max(n for n, t in enumerate(kept) if t not in keys(wanted))]
    return set(kept) | lacking


# --- node and pair features (sections 5 and 7) -----------------------------------------------------------------------


def node_features(
    prior: np.ndarray,
    text: tuple[np.ndarray, np.ndarray, np.ndarray],
    inputs: Sequence[Keys],
    outputs: Sequence[Keys],
    outputs_known: np.ndarray,
    visible: Keys,
    statistics: Statistics,
    tool: Sequence[int],
    family: np.ndarray,
) -> np.ndarray:
    """float64 [C, 12] of C valid tools, the first columns of ``Node``; all arrays are of those C tools."""
    c = len(tool)
    likely = [sigmoid(x) for x in prior]
    rows = np.zeros((c, 12))
    for i in range(c):
        others = [j for j in range(c) if j != i]
        lacking = keys(inputs[i]) - keys(visible)
        made = {key for j in others for key in keys(outputs[j])}
        first, calls = statistics.first[tool[i]], statistics.calls[tool[i]]
        order = [statistics.precedes[tool[j], tool[i]] for j in range(c)]
        reverse = [statistics.precedes[tool[i], tool[j]] for j in range(c)]
        follow = sum(likely[j] * rho(order[j], reverse[j]) for j in range(c))
        rows[i] = [
            text[0][i],
            text[1][i],
            text[2][i],
            prior[i] / 5,
            chi(inputs[i], visible),
            outputs_known[i],
            max([kappa(outputs[i], inputs[j]) * likely[j] for j in others], default=0),
            max([kappa(outputs[j], inputs[i]) * likely[j] for j in others], default=0),
            share(len(lacking & made), len(lacking)),
            math.log((first + 1) / (calls - first + 1)),
            follow / sum(likely),
            sum(family[j] == family[i] for j in range(c)) / c,
        ]
    return rows


def clause_features(
    evidence: np.ndarray, recall: np.ndarray, dense: np.ndarray, likely: np.ndarray, clauses: int
) -> np.ndarray:
    """float64 [C, 7]: the columns of ``Node`` from POSITION on, of [C, S] scores of which ``clauses`` columns count."""
    rows = []
    places = [s / max(1, clauses - 1) for s in range(clauses)]
    best = [max(max(row[s] for row in evidence), 1e-6) for s in range(clauses)]

    def position(row: np.ndarray) -> float:
        weight = [max(row[s], 0) ** 2 for s in range(clauses)]
        return sum(w * p for w, p in zip(weight, places)) / sum(weight) if sum(weight) > 1e-9 else 0.5

    for i in range(len(evidence)):
        share_of = [evidence[i][s] / best[s] for s in range(clauses)]
        open_ = [
            share_of[s] * (1 - max(likely[j] * evidence[j][s] / best[s] for j in range(len(evidence)) if j != i))
            for s in range(clauses)
        ]
        pull = [math.exp(20 * dense[i][s]) for s in range(clauses)]
        at = sum(w * p for w, p in zip(pull, places)) / sum(pull)
        most = math.log(max(clauses, 1)) / 3
        rows.append([position(evidence[i]), position(recall[i]), max(share_of), max(open_), most, max(dense[i]), at])
    return np.array(rows)


NEUTRAL, FEEDS, FED_BY, SAME_NAME, SAME_FAMILY = range(5)


def relation(before: float, after: float, flow: float, back: float, same_name: bool, same_family: bool) -> int:
    """The relation of [i, j], i other than j, from c(i before j), c(j before i), kappa_ij and kappa_ji."""
    if before > after or (before == after and flow > back):
        return FEEDS
    if after > before or (before == after and back > flow):
        return FED_BY
    if same_name:
        return SAME_NAME
    return SAME_FAMILY if same_family else NEUTRAL


def pair_features(
    statistics: Statistics,
    tool: Sequence[int],
    inputs: Sequence[Keys],
    outputs: Sequence[Keys],
    outputs_known: np.ndarray,
    visible: Keys,
    name_words: Sequence[Keys],
    family: np.ndarray,
    similar: np.ndarray,
) -> np.ndarray:
    """float64 [K, K, 16], columns as in ``Pair``."""
    k = len(tool)
    flow, missing_flow = np.zeros((k, k)), np.zeros((k, k))
    result = np.zeros((k, k, 16))
    for i in range(k):
        for j in range(k):
            if i != j:
                flow[i, j] = kappa(outputs[i], inputs[j])
                missing_flow[i, j] = kappa(outputs[i], sorted(keys(inputs[j]) - keys(visible)))
    for i in range(k):
        for j in range(k):
            a, b = tool[i], tool[j]
            before, after = statistics.precedes[a, b], statistics.precedes[b, a]
            result[i, j] = [
                flow[i, j],
                flow[j, i],
                missing_flow[i, j],
                missing_flow[j, i],
                rho(before, after),
                math.log(1 + before),
                math.log(1 + after),
                share(statistics.follows[a, b], statistics.calls[a]),
                share(statistics.follows[b, a], statistics.calls[b]),
                jaccard(inputs[i], inputs[j]),
                jaccard(outputs[i], outputs[j]),
                jaccard(name_words[i], name_words[j]),
                similar[i, j],
                family[i] == family[j],
                outputs_known[i],
                outputs_known[j],
            ]
    return result
