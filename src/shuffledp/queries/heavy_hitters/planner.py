"""Plans for heavy hitters: how many characters per level, how many groups, and which threshold."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from fractions import Fraction

from shuffledp.cells.search import checked_cell_choice
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.exact import ExactNumber, round_to, whole
from shuffledp.plans.checks import checked_epsilon, checked_users
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target
from shuffledp.queries.frequencies.group_search import GroupTask, cheapest, groups_at, least_error
from shuffledp.queries.frequencies.hashing import new_hash_seed
from shuffledp.queries.frequencies.planner import DEFAULT_MESSAGES, checked_spread, plan_of_groups
from shuffledp.queries.frequencies.result import FrequenciesResult
from shuffledp.queries.heavy_hitters.protocol import HeavyHittersProtocol, surviving_deviations

LETTERS = "abcdefghijklmnopqrstuvwxyz'-"
DEFAULT_LENGTH = 12
DEFAULT_TREE_SPREAD = 50
MOST_ASKED = 1 << 20
"""Prefixes of one level that are asked about, at most."""


def plan_heavy_hitters(
    users: int,
    epsilon: ExactNumber,
    *,
    alphabet: str = LETTERS,
    length: int = DEFAULT_LENGTH,
    spread: ExactNumber = DEFAULT_TREE_SPREAD,
    rmse: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    expected: int | None = None,
    cell: str = "best",
) -> Plan[FrequenciesResult]:
    """The certified protocol that finds frequent words without a list of candidates.

    Args:
        users: Honest users who are sure to take part; a batch of fewer is never released.
        epsilon: The privacy loss allowed.
        alphabet: The characters that are told apart; all others count as one.
        length: How many characters of a word are found; longer words are found by their beginning.
        spread: What the error is forecast for: as if prefixes were spread evenly over so many.
        rmse: The root mean squared error allowed for a word, counted among all users.
        max_messages: Or: the least error with at most so many messages (1,000 unless said).
        padded: Whether messages are counted as every report of the service carries them.
        expected: How many users the error is forecast for, if more than `users` may come.
        cell: "best", "bounded" or "paper".

    >>> import shuffledp
    >>> plan = shuffledp.plan_heavy_hitters(50_000, 2, length=6, max_messages=100)
    >>> plan.forecast.messages_per_user <= 100
    True
    """
    epsilon = checked_epsilon(epsilon)
    sure, come = checked_users(users, expected)
    if not isinstance(alphabet, str) or not 0 < len(alphabet) <= 1_000:
        raise ParameterError("alphabet must be a text of 1 to 1,000 different characters.")
    depth = whole(length, "length", most=64)
    if rmse is None and max_messages is None:
        max_messages = DEFAULT_MESSAGES
    target = Target.of(None, rmse, max_messages, None, padded)
    found: list[tuple[float, HeavyHittersProtocol, float]] = []
    refusal = PlanningError("No tree of prefixes can be planned; allow more messages.")
    for step in (1, 2, 3):
        if (len(alphabet) + 1) ** step * 100 > MOST_ASKED:
            break
        levels = -(-depth // step)
        task = GroupTask(
            users=sure // levels,
            expected=-(-come // levels),
            epsilon=epsilon,
            spread=checked_spread(spread),
            padded=padded,
            cell=checked_cell_choice(cell),
        )
        with contextlib.suppress(PlanningError):
            tree = _tree(task, target, (sure, levels, step, alphabet))
            found.append((tree.found_share(come, 0.95, depth), tree))
    if not found:
        raise refusal
    _, tree = min(found, key=lambda one: one[0])
    return plan_of_groups(tree, target, come)


def _tree(
    task: GroupTask, target: Target, shape: tuple[int, int, int, str]
) -> HeavyHittersProtocol:
    """The tree with so many levels."""
    users, levels, step, alphabet = shape
    if target.rmse is not None:
        groups = cheapest(task, float(target.rmse) / levels, looked_at=3)
    else:
        assert target.max_messages is not None
        groups = least_error(task, float(target.max_messages))
    best = groups_at(task, groups.groups, groups.cells, groups.mse)
    groups = best if best.cost < groups.cost else groups
    tree = HeavyHittersProtocol(
        epsilon=task.epsilon,
        reports=users,
        groups=groups.groups * levels,
        cells_per_group=groups.cells,
        cell=groups.cell,
        spread=task.spread,
        hash_seed=new_hash_seed(),
        alphabet=alphabet,
        step=step,
        levels=levels,
        threshold=Fraction(1, 2),
    )
    return _with_threshold(tree, task.expected * levels)


def _with_threshold(tree: HeavyHittersProtocol, users: int) -> HeavyHittersProtocol:
    """The tree whose threshold lets few prefixes through that nobody holds."""
    further, _ = tree.continuations()
    z = surviving_deviations(len(further))
    share = min(z * tree.rmse(users) / users, 0.5)
    return replace(tree, threshold=round_to(share, 3, up=True))
