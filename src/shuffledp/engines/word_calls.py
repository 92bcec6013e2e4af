"""One call that finds frequent words; `calls.py` has those about known labels and numbers."""

from __future__ import annotations

from typing import Unpack

from shuffledp.engines import local
from shuffledp.numbers.exact import ExactNumber
from shuffledp.queries.frequencies.result import FrequenciesResult
from shuffledp.queries.heavy_hitters.planner import DEFAULT_LENGTH, DEFAULT_TREE_SPREAD, LETTERS
from shuffledp.queries.heavy_hitters.query import HeavyHittersQuery
from shuffledp.queries.options import Options, QueryOptions, with_options


@with_options
def heavy_hitters(
    data: object,
    *,
    epsilon: ExactNumber,
    alphabet: str = LETTERS,
    length: int = DEFAULT_LENGTH,
    spread: ExactNumber = DEFAULT_TREE_SPREAD,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> FrequenciesResult:
    """The frequent words of a column of texts, found without a list of candidates.

    Each row is one user with one word. Users are split over the levels of a tree of prefixes, so
    that one release answers all levels; the plan says which words are found how surely. Words
    are shown because they came out large, so that the smallest ones are rather over- than
    underestimated; the lower ends of the intervals account for that.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        alphabet: The characters that are told apart, small letters unless said; all others count as
                one, which is shown as a replacement character.
        length: How many characters of a word are found; longer words are found by their beginning,
                behind which … is shown.
        spread: What the error is planned for: as if prefixes were spread evenly over so many.
        options: those of every query (`QueryOptions`).

    Returns:
        A `FrequenciesResult`: `labels`, the most frequent first, `values`, intervals,
        `certificate`, `to_frame()`, `plot()`, `to_dict()`.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ParameterError: also for `protocol`, `mse_overhead` and `relative_error`.

    >>> import shuffledp
    >>> words = ["the", "of", "and", "of"] * 10_000
    >>> found = shuffledp.heavy_hitters(words, epsilon=8, length=4, max_messages=200)
    >>> found.labels[0]
    'of'
    """
    how = Options.checked({**options, "protocol": protocol})
    query = HeavyHittersQuery.of(how, epsilon, alphabet, length, spread)
    return local.answer(query, data, how)
