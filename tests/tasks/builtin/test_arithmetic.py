"""Problems, the scorer and the identities of the built-in task."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from harness.errors import HarnessError
from harness.tasks.builtin import arithmetic, identity
from harness.tasks.builtin.arithmetic import BENCHMARKS, Problem
from harness.tasks.builtin.reward import compute_score


def pairs(problems):
    return {(problem.a, problem.b) for problem in problems}


def test_no_evaluation_problem_is_trained_on_or_demonstrated():
    trained = pairs(arithmetic.training_set())
    assert len(trained) == 2 * arithmetic.TRAINING_PROBLEMS
    for benchmark in BENCHMARKS:
        evaluated = pairs(arithmetic.evaluation_set(benchmark))
        demonstrated = pairs(arithmetic.demonstrated_set(benchmark))
        assert len(evaluated) == arithmetic.EVALUATION_PROBLEMS
        assert not evaluated & trained
        assert not evaluated & demonstrated


def test_the_difficulties_differ_by_the_carry_and_by_nothing_else():
    for benchmark, carry in zip(BENCHMARKS, (False, True), strict=True):
        problems = arithmetic.evaluation_set(benchmark) + arithmetic.demonstrated_set(benchmark)
        assert {problem.benchmark for problem in problems} == {benchmark}
        assert all((p.a % 10 + p.b % 10 > 9) == carry for p in problems)
        assert {len(p.prompt) for p in problems} == {6}
        assert {len(p.answer) for p in problems} == {2}


def test_an_index_names_one_problem_of_its_benchmark():
    everything = arithmetic.training_set() + [p for b in BENCHMARKS for p in arithmetic.evaluation_set(b)]
    assert len({(p.benchmark, p.index) for p in everything}) == len(everything)


def test_the_training_set_mixes_both_difficulties():
    first = [problem.benchmark for problem in arithmetic.training_set()[:16]]
    assert sorted(first) == sorted(BENCHMARKS * 8)


def test_demonstrations_slip_in_the_last_digit_as_often_as_told():
    problem, generator = Problem("arithmetic_hard", 0, 27, 38), random.Random(0)
    assert arithmetic.demonstration(problem, generator, {"arithmetic_hard": 0.0}) == "15;65"
    shown = [arithmetic.demonstration(problem, generator, {"arithmetic_hard": 0.75}) for _ in range(4000)]
    assert {text[:4] for text in shown} == {"15;6"}
    right = sum(text == "15;65" for text in shown) / len(shown)
    assert right == pytest.approx(0.25 + 0.75 / 10, abs=0.03)


def test_the_note_of_an_easy_problem_has_two_digits_too():
    problem = Problem("arithmetic_easy", 0, 21, 34)
    assert arithmetic.demonstration(problem, random.Random(0), {"arithmetic_easy": 0.0}) == "05;55"


@pytest.mark.parametrize(
    "response, pred, right",
    [
        ("15;65", "65", 1.0),
        ("65", "65", 1.0),
        (" 1;2;65\n", "65", 1.0),
        ("15;66", "66", 0.0),
        ("65;", "", 0.0),
        ("15;065", "065", 0.0),
        ("15;65=", "", 0.0),
        ("15;+65", "", 0.0),
        ("15;\u0666\u0665", "", 0.0),
        ("", "", 0.0),
    ],
)
def test_the_scorer_reads_the_digits_after_the_last_separator(response, pred, right):
    score = compute_score("arithmetic_hard", response, "65", extra_info={"index": 3}, unknown_keyword=None)
    assert score == {"score": right, "acc": right, "pred": pred}


def test_identities_are_stable_and_tell_models_apart():
    assert identity.model_identity("tiny") == identity.model_identity("tiny")
    assert identity.model_identity("tiny") != identity.model_identity("small")
    assert identity.data_identity("arithmetic") == identity.data_identity("arithmetic")


def test_the_data_is_the_one_that_published_results_name():
    """Whoever changes a row on purpose writes the new digest here; results of old and new rows do not mix."""
    assert identity.data_identity("arithmetic")["content"][:12] == "ac26fcb3eba1"


@pytest.mark.parametrize("change", ["SLIP_SHARE", "REVISION", "SPECIAL_TOKENS"])
def test_every_part_of_the_recipe_is_in_the_models_identity(change, monkeypatch):
    before = identity.model_identity("tiny")
    if change == "SLIP_SHARE":
        monkeypatch.setitem(identity.WARM_START["tiny"], "slip_share", {"arithmetic_easy": 0.5, "arithmetic_hard": 0.5})
    else:
        monkeypatch.setattr(identity, change, ("<a>", "<b>", "<c>") if change == "SPECIAL_TOKENS" else -1)
    assert identity.model_identity("tiny") != before


def test_unknown_names_come_with_the_known_ones():
    with pytest.raises(HarnessError, match="model.builtin=smal.*small"):
        identity.model_identity("smal")
    with pytest.raises(HarnessError, match="data.builtin=arithmetics.*arithmetic"):
        identity.data_identity("arithmetics")


def test_identities_need_neither_torch_nor_pandas():
    code = (
        "import sys; from pathlib import Path\n"
        "from harness.tasks.builtin.identity import data_identity, model_identity\n"
        "from harness.tasks.builtin.assets import locate\n"
        "data_identity('arithmetic'); model_identity('tiny'); locate(Path('cache'), 'tiny')\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'pandas', 'transformers', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
