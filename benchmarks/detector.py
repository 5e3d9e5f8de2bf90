"""How often is the entropy detector wrong? Random curves of known kinds: `python benchmarks/detector.py`.

    python benchmarks/detector.py [--repetitions 500] [--seed 0] [LOG.csv ...]

One row a kind and length: the share of right verdicts, of alarms, and every verdict that was given. What is right for
each kind was written down beforehand (tests/support/entropy_curves.py). Logs are CSV files with columns `step` and an
entropy; of each the verdicts on all growing prefixes are printed, one for every change.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from analysis.sources import csvlog
from analysis.statistics import entropy
from tests.support import entropy_curves


def table(repetitions: int, seed: int) -> list[str]:
    """Markdown: one line a kind, one column a length."""
    head = [f"{n} values" for n in entropy_curves.LENGTHS]
    lines = [f"| curve | right verdict | {' | '.join(head)} |", "|---|---|" + "---|" * len(head)]
    for kind in (*entropy_curves.KINDS, *entropy_curves.MISSED):
        cells = []
        for n in entropy_curves.LENGTHS:
            counts = entropy_curves.verdicts(
                kind, n, repetitions, seed, lambda steps, curve: entropy.judge(steps, curve).verdict
            )
            wrong = {v: c for v, c in counts.items() if v not in kind.right}
            right = repetitions - sum(wrong.values())
            others = [f"{v} {100 * c / repetitions:.3g}" for v, c in sorted(wrong.items(), key=lambda x: -x[1])]
            cells.append(", ".join([f"{100 * right / repetitions:.3g}", *others]))
        lines.append(f"| {kind.name} | {', '.join(sorted(kind.right))} | {' | '.join(cells)} |")
    return lines


def prefixes(steps: np.ndarray, curve: np.ndarray) -> list[str]:
    """Each change of what is said while a log grows, and the words on the whole."""
    said, lines = "", []
    for n in range(1, len(curve) + 1):
        found = entropy.judge(steps[:n], curve[:n])
        now = found.verdict if found.ongoing else f"{found.verdict}, over"
        if now != said:
            lines.append(f"  step {steps[n - 1]:>5}: {now}")
            said = now
    return [*lines, f"  whole: {entropy.judge(steps, curve).text}"]


def main() -> None:
    """Prints the table, then the logs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("logs", nargs="*", type=Path)
    args = parser.parse_args()
    sys.stdout.write(f"percent of {args.repetitions} curves: right verdicts, then each other verdict\n")
    sys.stdout.write("\n".join(table(args.repetitions, args.seed)) + "\n")
    for path in args.logs:
        for run in csvlog.load(path):
            name = entropy.of(run.has)
            if name is not None:
                series = run.metric(name)
                lines = prefixes(series.index.to_numpy(), series.to_numpy())
                sys.stdout.write("\n".join([path.name, *lines]) + "\n")


if __name__ == "__main__":
    main()
