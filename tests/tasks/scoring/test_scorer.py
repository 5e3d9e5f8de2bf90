from __future__ import annotations

import importlib.util
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.errors import HarnessError
from harness.tasks.scoring import judge
from harness.tasks.scoring.judge import Judge
from harness.tasks.scoring.scorer import SCORER, current, score


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
        ("Answer: $10!$", "3628800", True),
        ("Answer: $10!$", "10", False),
        ("Answer: 2**10", "1024", True),
        ("Answer: 2**10", "210", False),
        ("Answer: √2", r"\sqrt{2}", True),
        ("Answer: π/2", r"\frac{\pi}{2}", True),
        ("Answer: x²", "x^2", True),
        ("Answer: ±2", r"\pm 2", True),
        (r"Answer: $\{3,1,2\}$", r"\{1,2,3\}", True),
        (r"Answer: $x \in [0,1)$", "[0,1)", True),
        ("Answer: $(0,1)$", "[0,1)", False),
        (r"Answer: $(2,\infty)\cup(-\infty,-2)$", r"(-\infty,-2)\cup(2,\infty)", True),
        ("Answer: __import__('os').abort()", "1", False),
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


@pytest.mark.parametrize(
    ("response", "right"),
    [
        ("\\boxed{" * 50_000, False),
        ("\\boxed{" * 3_000 + "70" + "}" * 3_000, True),
        ("\\boxed{70}" * 20_000, True),
        ("answer" + " " * 50_000 + "x", False),
        ("answer " * 50_000 + "is 70", True),
        ("Answer: " * 50_000 + "70", True),
        ("<answer>" * 50_000, False),
        ("\n" * 50_000 + "#### 70", True),
        ("Answer: " + "." * 50_000 + "x", False),
        ("Answer: " + "a=" * 50_000 + "70", False),
        ("Answer: " + "7" * 50_000, False),
        ("Answer: 70 apples and bananas that were distributed evenly among the children, so none is left", False),
        ("Answer: 70 " + "a" * 900 + "#", False),
        ("Answer: " + "^ " * 400, False),
        ("!" * 100_000 + "x", False),
    ],
)
def test_no_text_makes_the_reading_of_it_slow(response, right):
    """A model that repeats itself must not hold up training: 50,000 repeats took minutes, 40 letters hours."""

    class Never:
        def compare(self, gold, answer):
            return judge.Ruling(False)

    began = time.process_time()
    assert score(response, "70", Never()).correct is right
    assert time.process_time() - began < 3


@pytest.mark.slow
def test_a_process_says_when_it_is_ready_and_a_hang_gets_no_more_than_its_limit(monkeypatch):
    limits = []
    read = judge._read_line
    monkeypatch.setattr(judge, "_read_line", lambda handle, seconds: limits.append(seconds) or read(handle, seconds))
    impatient = Judge(processes=1, seconds=0.5)
    try:
        for _ in range(2):
            assert score("Answer: $9^{9^{9^{9}}}$", "70", impatient).timed_out
    finally:
        impatient.close()
    assert limits == [judge.START_SECONDS, 0.5] * 2


@pytest.mark.slow
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


def test_rows_are_of_the_scorer_that_judged_them():
    """A run planned before an update goes on with today's."""
    assert current("exact-or-symbolic/2") == SCORER
    assert current("arithmetic/1") == "arithmetic/1"


@pytest.mark.parametrize(
    ("response", "truth", "text"),
    [
        ("Answer: m+n = 33.0", "33", "33"),
        ("Answer: x = 70", "70", "70"),
        ("Answer: $x - y = 5$", "x + y = 5", "x - y = 5"),
        ("Answer: 5", "x + y = 5", "5"),
    ],
)
def test_a_vote_for_an_equation_is_not_one_for_its_right_side(symbolic, response, truth, text):
    assert score(response, truth, symbolic).answer == text


@pytest.mark.slow  # imports verl
def test_training_rows_keep_the_papers_scorer():
    from harness.tasks.scoring.reward import compute_score

    train, test = {"split": "train"}, {"split": "test"}
    assert compute_score("math_dapo", "Answer: 70.", "70", train) == {"score": -1.0, "acc": 0.0, "pred": "70."}
    assert compute_score("math_dapo", "Answer: 70", "70", train) == {"score": 1.0, "acc": 1.0, "pred": "70"}
    assert compute_score("aime25", "Answer: 70.", "70", test) == {"score": 1.0, "acc": 1.0, "pred": "70"}
    assert compute_score("aime25", "no answer", "70", test) == {"score": -1.0, "acc": 0.0, "pred": None}
    assert compute_score("math_dapo", "no answer", "70", train)["pred"] is None
