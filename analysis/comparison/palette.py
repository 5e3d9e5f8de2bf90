"""One colour an arm, the same in every figure; told apart by colour-blind readers and, by dashes, in grey
print.
"""

from __future__ import annotations

from collections.abc import Iterable

# Okabe and Ito's set without its yellow and black, which vanish on white and among axes, and with a brown and
# a grey.
COLORS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A4E2D", "#5F6B7A")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

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

    An arm of the usual ones gets its own colour, whatever else is plotted; others take what is free, first by
    colour, then by dash. Arms of one identity that differ in something else, such as the model, share the
    colour and differ in the dash. After 48 arms the styles repeat.
    """
    arms = list(identities)
    kept = {(_USUAL[arm], DASHES[0]) for arm in arms if arm in _USUAL}
    used: set[tuple[str, str]] = set()
    colors: dict[Identity, str] = {}
    styles = []
    for i, arm in enumerate(arms):
        color = colors.get(arm) or _USUAL.get(arm)
        every = [(c, dash) for dash in DASHES for c in (COLORS if color is None else (color,))]
        free = [style for style in every if style not in used and (color is not None or style not in kept)]
        style = free[0] if free else every[i % len(every)]
        colors[arm] = style[0]
        used.add(style)
        styles.append(style)
    return styles
