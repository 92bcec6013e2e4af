"""Shared digits whose additions are dealt by Pólya's urn (docs/mathematics.md §18): neither shorter
nor simpler than the jumps that they have."""

from fractions import Fraction
from math import prod

import shuffledp
from shuffledp.cells.digits.cell import SharedCell

F = Fraction


def shared_cells(users: int, rmse: str) -> list[SharedCell]:
    cells = shuffledp.plan_real_sum(users, 1, rmse=rmse, padded=True).protocol.cells
    found = [cell for cell in cells if isinstance(cell, SharedCell)]
    assert len(found) == len(cells) > 1
    return found


def odds_now(cells: list[SharedCell]) -> float:
    """Of all jumps upwards, against 1 for keeping the values."""
    return float(sum(sum(cell.up.odds) for cell in cells) + sum(cells[0].way_up.stray_odds))


def odds_by_urn(cells: list[SharedCell], cut: int) -> float:
    """At least the odds of a jump whose values are uniform in all digits and whose cut + 1 tokens
    are dealt with probabilities in the ratio of c_n: every (ζ, n) needs m·c_n/A_s, there are
    ∏(D + 1) values ζ, and the sum of c_n over |n| = cut + 1 is a coefficient of a product."""
    m = cells[0].users
    whole = [1.0, *[0.0] * (cut + 1)]
    for cell in cells:
        own = [1.0]
        for j in range(cut + 1):
            own.append(own[-1] * float(cell.up.decay) * (1 / m + j) / (j + 1))
        whole = [sum(whole[i] * own[j - i] for i in range(j + 1)) for j in range(cut + 2)]
    spare = min(1 - float(cell.up.decay) ** cell.largest for cell in cells)
    return prod(cell.largest + 1 for cell in cells) * m * whole[-1] / spare


def test_dealing_by_the_urn_saves_no_message() -> None:
    cells = shared_cells(10**6, "4.07")
    cut = cells[0].up.cut
    now = odds_now(cells)
    assert odds_by_urn(cells, cut) > now  # more muting with the same cut …
    needed = next(longer for longer in range(cut, 2 * cut) if odds_by_urn(cells, longer) <= now)
    assert (cut, needed) == (233, 238)  # … or a longer cut, 2 messages for each token
    # an urn deals tokens with equal β only; those of digits differ
    assert len({cell.up.decay for cell in cells}) > 1
