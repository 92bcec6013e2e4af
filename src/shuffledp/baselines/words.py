"""Names of baselines for readers who do not know the citation keys."""

from __future__ import annotations

IN_WORDS = {
    "GKM23 as printed": "The original, as printed",
    "GGKMPV20": "Anonymous pure sums",
    "CY22 (line only)": "Pure, n^2.5 messages (bound)",
    "GKMP20": "Geometric noise shares",
    "BBGN20 split and mix": "Split and mix",
    "BBGN20, m−1 rule": "Split and mix, m−1 rule",
    "BBGN20 recursive": "Recursive blanket",
    "BBGN19": "Privacy blanket",
    "BC20": "Uniform noise bits",
    "CSUZZ19": "Shuffled responses",
    "RR + EFMRTT19 bound": "Responses, 2019 bound",
    "RR + FMT21 bound": "Responses, 2021 bound",
    "GMPS21": "Almost one message",
    "GGKPV21": "Hadamard tuples",
    "LWY22 FE1": "Hashed blanket",
}
"""How titles begin, by citation and in words. docs/baselines.md explains each protocol."""


def in_words(title: str) -> str:
    """A title with the protocol's name instead of its citation.

    >>> in_words("GKMP20, published"), in_words("Local randomized response")
    ('Geometric noise shares, published', 'Local randomized response')
    """
    for citation, words in IN_WORDS.items():
        if title.startswith(citation):
            return words + title.removeprefix(citation)
    return title
