from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.errors import HarnessError
from harness.scoring import judge
from harness.scoring.judge import Judge
from harness.scoring.scorer import SCORER, score


@pytest.fixture(scope="module")
def symbolic():
    made = Judge(processes=1)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("response", "truth", "right"),
    [
        ("Answer: 0.5", r"\frac{1}{2}", True),
        ("Answer: 0.3333", r"\frac{1}{3}", False),
        ("Answer: (3, pi/2)", r"\left( 3, \frac{\pi}{2} \right)", True),
        ("Answer: -q+p", "p - q", True),
        (r"Answer: \sqrt{4900}", "70", True),
        ("Answer: 50+20", "70", True),
        ("Answer: Angela", r"\text{Evelyn}", False),
        (r"Answer: \text{Evelyn}", "Evelyn", True),
        ("Answer: 70 or 71", "70", False),
        ("Answer: (70, 71)", "70", False),
        ("Answer: between 60 and 70", "70", False),
        ("Answer: a = 71, 70", "70", False),
    ],
)
def test_expressions(symbolic, response, truth, right):
    assert score(response, truth, symbolic).correct is right


def test_equal_answers_are_equal_texts_for_the_majority_vote():
    assert {score(f"Answer: {text}", "70").answer for text in ("70", "70.0", "**70**", "070")} == {"70"}
    assert score("nothing", "70").answer is None


def test_numbers_need_no_process():
    class Never:
        def compare(self, gold, answer):
            raise AssertionError("compared symbolically")

    assert score("Answer: 70.0", "070", Never()).correct
    assert not score("Answer: 71", "070", Never()).correct
    assert not score("Answer: " + "1+" * 400 + "1", "801", Never()).correct, "too long to be an answer"


def test_what_never_ends_is_wrong_in_bounded_time_from_any_thread():
    impatient = Judge(processes=1, seconds=1.0)
    try:
        assert score("Answer: 50+20", "70", impatient).correct  # the process is warm now
        with ThreadPoolExecutor(2) as threads:
            hang = threads.submit(score, "Answer: $9^{9^{9^{9}}}$", "70", impatient)
            fine = threads.submit(score, "Answer: 30+40", "70", impatient)
            assert hang.result().timed_out
            assert not hang.result().correct
            assert fine.result().correct, "the next comparison gets a fresh process"
    finally:
        impatient.close()


def test_without_math_verify_nothing_is_scored_as_wrong_silently(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HarnessError, match=r"pip install -e '\.\[score\]'"):
        judge.require()


def test_the_scorer_has_a_name_and_a_version():
    name, version = SCORER.split("/")
    assert name
    assert int(version) >= 1


@pytest.mark.slow  # imports verl
def test_training_rows_keep_the_papers_scorer():
    from harness.scoring.reward import compute_score

    train, test = {"split": "train"}, {"split": "test"}
    assert compute_score("math_dapo", "Answer: 70.", "70", train) == {"score": -1.0, "acc": 0.0, "pred": "70."}
    assert compute_score("math_dapo", "Answer: 70", "70", train) == {"score": 1.0, "acc": 1.0, "pred": "70"}
    assert compute_score("aime25", "Answer: 70.", "70", test) == {"score": 1.0, "acc": 1.0, "pred": "70"}
    assert compute_score("aime25", "no answer", "70", test) == {"score": -1.0, "acc": 0.0, "pred": None}
    assert compute_score("math_dapo", "no answer", "70", train)["pred"] is None
