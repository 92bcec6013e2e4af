"""Sparse cells: any number of buckets, at most K messages, about one on average (MATH §19).

The interface, for protocols that are built on a sparse histogram:

    cell = plan_sparse(users, buckets, epsilon, max_messages=25, error_at=100,
                       expected=None, max_average=inf, max_jumps=inf)
        The `SparseCell` that errs least at a bucket of `error_at` users, in milliseconds. At most
        2^26 buckets. `max_jumps` limits the jumps expected among `users` (o·m).
    prove(cell, up, down)
        The proof, in fractions, that replacing any value (or none) costs at most min(up, down).

    group = SparseBuckets(cell=cell)              # a CellGroup; codes 0..B−1, and −1 for no value
    group.tokens(code)                            # one user: the buckets of its tokens, a list
    group.tokens_of_all(codes)                    # many: (user, bucket) of every token
    group.randomize_total(codes)[0]               # many: tokens in each bucket
    group.aggregate(tally)[0]                     # the same law, from how many hold each bucket
    group.aggregate_with(tally, without)[0]       # … and `without` users with no value
    group.top_up(absent)[0]                       # what `absent` users without a value send
    group.replacement_loss, group.most_messages   # ε and K = cell.cut + 1

    cell.data, cell.muted, cell.jump              # p, q, o as fractions
    cell.moments                                  # exact: mean m₀, variances v₀ and v₁ (`_with`),
                                                  # covariances of two buckets, tokens of a user
    cell.estimates(tokens, users)                 # (V − n·m₀)/p
    cell.exact_mean_squared_error(users, count)   # MSE(f), a fraction, affine in f
    cell.intervals(users, tokens, outside)        # (low, high), by inverting the exact law
    exact_masses(cell)                            # (P₀, P₁): one user's tokens in a bucket that it
                                                  # does not hold, and in its own; fractions
    cell.bucket_law                               # the same in floats: noise, jumped, data, …
    laws(cell.bucket_law, users, counts)          # `Laws`: masses of V for each true count
    at_least(cell.bucket_law, users, counts, tokens), at_most(…)   # tails of V, pair by pair

For use together with exact cells, one of which a user may have instead (docs/mathematics.md §19,
second form):

    cell = plan_kept(KeptTask(users, buckets, up, down, expected, count), max_messages)
    prove_kept(cell, up, down)                    # a value instead of none ≤ up, the reverse ≤ down
    group = SparseBuckets(cell=cell)              # as above; K = 2·cell.cut + 1

A protocol on one such group has ε = `group.replacement_loss`, whatever public or private coins map
a user's label to a bucket.
"""

from fractions import Fraction

from shuffledp.cells.base import CellGroup
from shuffledp.cells.kind import CellKind
from shuffledp.cells.sparse.cell import (
    KEPT_SCHEMA,
    NO_VALUE,
    SCHEMA,
    KeptCell,
    SparseBuckets,
    SparseCell,
    UrnCell,
)
from shuffledp.cells.sparse.error import Laws, at_least, at_most, laws
from shuffledp.cells.sparse.kept_search import KeptTask, plan_kept
from shuffledp.cells.sparse.law import BucketLaw, exact_masses
from shuffledp.cells.sparse.proof import KeptProof, SparseProof, prove, prove_kept
from shuffledp.cells.sparse.search import plan_sparse, search_buckets
from shuffledp.errors import ParameterError

__all__ = [
    "KEPT_KIND",
    "KIND",
    "NO_VALUE",
    "BucketLaw",
    "KeptCell",
    "KeptProof",
    "KeptTask",
    "Laws",
    "SparseBuckets",
    "SparseCell",
    "SparseProof",
    "UrnCell",
    "at_least",
    "at_most",
    "exact_masses",
    "laws",
    "plan_kept",
    "plan_sparse",
    "prove",
    "prove_kept",
    "search_buckets",
]

KIND = CellKind(
    cell=SparseCell,
    schema=SCHEMA,
    prove=prove,
    chosen_by="sparse",
    buckets=SparseBuckets.of,
    search_buckets=search_buckets,
)


def _only_beside(cell: KeptCell, buckets: int, up: Fraction, down: Fraction) -> CellGroup:
    raise ParameterError(
        "A kept cell needs a list of heavy labels; pass heavy, or choose another cell."
    )


KEPT_KIND = CellKind(
    cell=KeptCell,
    schema=KEPT_SCHEMA,
    prove=prove_kept,
    chosen_by="sparse",
    buckets=_only_beside,
)
