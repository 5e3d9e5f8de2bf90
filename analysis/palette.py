"""One colour an arm, the same in every figure; told apart by colour-blind readers and, by dashes, in grey
print.
"""

from __future__ import annotations

from collections.abc import Iterable

# Okabe and Ito's set without its yellow and black, which vanish on white and among axes, and with a brown and
# a grey.
COLORS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A4E2D", "#5F6B7A")
DASHES = ("solid", "dash", "dot", "dashdot")

# What a study almost always holds keeps its colour from one sweep to the next.
_USUAL = {
    ("mean", None, None): "#D55E00",
    ("qae", "0.4", "both"): "#0072B2",
    ("qae", "0.6", "both"): "#009E73",
    ("qae", "0.2", "both"): "#56B4E9",
    ("qae", "0.8", "both"): "#CC79A7",
    ("qae", "0.4", "positive"): "#E69F00",
    ("qae", "0.4", "negative"): "#7A4E2D",
    ("mean_no_std", None, None): "#E69F00",
    ("rloo", None, None): "#5F6B7A",
}

# Signs of the advantage and regimes are no arms: greys and tints that no arm has.
ZERO, POSITIVE, NEGATIVE = "#C9CED6", "#4B3F72", "#A63D57"
INK, MUTED, GRID = "#1F2933", "#66717F", "#E4E7EB"

Identity = tuple[str, str | None, str | None]


def assign(identities: Iterable[Identity]) -> list[tuple[str, str]]:
    """A (colour, dash) for every arm, in order; an arm is (baseline, K as text, mask).

    An arm of the usual ones gets its own colour, whatever else is plotted. Others take the free colours in
    order; once the colours are used up, or where arms differ in something else (the model), the dash tells
    them apart.
    """
    arms = list(identities)
    taken = {_USUAL[arm] for arm in arms if arm in _USUAL}
    free = [color for color in COLORS if color not in taken] or list(COLORS)
    chosen: dict[Identity, str] = {}
    styles: list[tuple[str, str]] = []
    uses: dict[str, int] = {}
    for arm in arms:
        if arm not in chosen:
            others = sum(1 for known in chosen if known not in _USUAL)
            chosen[arm] = _USUAL.get(arm) or free[others % len(free)]
        color = chosen[arm]
        styles.append((color, DASHES[uses.get(color, 0) % len(DASHES)]))
        uses[color] = uses.get(color, 0) + 1
    return styles
