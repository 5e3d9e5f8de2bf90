from __future__ import annotations

import pytest

from benchmarks import search


@pytest.mark.slow
def test_the_best_rank_is_found_within_sixty_runs_in_nine_of_ten():
    found = search.table(repetitions=10, budget=60, slope=0.02, noise=0.02)
    right, runs = found["this search"]
    assert right >= 9, found
    assert runs <= 60
    assert right >= max(found["grid"][0], found["random"][0]), found
