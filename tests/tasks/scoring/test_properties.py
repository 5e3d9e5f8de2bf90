"""What holds for every true answer of the published sets: right for itself, wrong when changed, right when rewritten."""

from __future__ import annotations

import contextlib
import json
import re
from functools import cache

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.tasks.data import problem
from harness.tasks.scoring import form
from harness.tasks.scoring.equivalence import equal
from harness.tasks.scoring.judge import Judge
from harness.tasks.scoring.markup import plain
from harness.tasks.scoring.scorer import score
from harness.tasks.scoring.truth import given as truth
from tests.support.shared import SHARED, needs

FILES = (
    "math500.jsonl", "aime24.jsonl", "aime24_leading_zeros.jsonl", "aime24_repeated32.parquet", "aime25.jsonl",
    "aime25_degree.parquet", "amc23.jsonl", "amc_83.parquet", "gsm8k_test.jsonl", "deepscaler_subset.parquet",
)  # fmt: skip

pytestmark = [pytest.mark.slow, needs("data")]


@cache
def answers(*files):
    found = {}
    for name in files:
        path = SHARED / "data" / name
        rows = pq.read_table(path).to_pylist() if path.suffix == ".parquet" else map(json.loads, path.open())
        for row in rows:
            with contextlib.suppress(HarnessError):  # a few rows of the training set have none
                found[problem.read(row).answer] = name
    return [answer for answer in found if answer.count("{") == answer.count("}")]  # one of the training set is cut off


def maths():
    """Answers of MATH-500, those that are more than a whole number as often as the others."""
    every = answers("math500.jsonl")
    return st.sampled_from(every) | st.sampled_from([a for a in every if not a.lstrip("-").isdigit()])


@pytest.fixture(scope="module")
def judge():
    made = Judge(processes=1)
    yield made
    made.close()


@pytest.mark.parametrize(
    "wrapped", ["Answer: {}", "Answer: ${}$", "The answer is \\boxed{{{}}}.", "\\[ \\boxed{{{}}} \\]"]
)
def test_every_true_answer_is_right(judge, wrapped):
    every = answers(*FILES)
    assert len(every) > 800
    assert [a for a in every if not score(wrapped.format(a), a, judge).correct] == []


def test_every_true_answer_of_maths_is_right_by_its_parts():
    """Not because the two texts are alike, which is looked at first."""
    assert [a for a in answers("math500.jsonl") if not equal(a, f"{{{a}}}".replace(" ", "  "))] == []


@settings(max_examples=200)
@given(left=maths(), right=maths())
def test_the_verdict_is_symmetric_between_true_answers(left, right):
    assert equal(left, right) == equal(right, left)


@st.composite
def changed(draw):
    """(truth, the same with one digit, sign, operator, bracket or letter changed)."""
    truth = draw(maths())
    places = [
        (m.start(), m[0]) for m in re.finditer(r"(?<!\\)[-+]|[\d()\[\]]", truth) if not skeleton(truth, m.start())
    ]
    if not places:
        letters = [m.start() for m in re.finditer(r"(?<![\\a-zA-Z])[a-zA-Z]+", truth)]
        words = re.search(r"\\text\{\(?([A-Za-z]+)", truth)
        place = words.start(1) if words else letters[0] if letters else 0
        if not words and not letters:  # \pi
            return truth, f"2{truth}"
        return truth, truth[:place] + ("q" if truth[place] != "q" else "w") + truth[place + 1 :]
    place, sign = draw(st.sampled_from(places))
    if sign.isdigit():
        new = draw(st.sampled_from([d for d in "0123456789" if d != sign]))
    else:
        new = {"-": "+", "+": "-", "(": "[", ")": "]", "[": "(", "]": ")"}[sign]
    return truth, truth[:place] + new + truth[place + 1 :]


def skeleton(truth, place):
    """Brackets that only group, and what else may change without changing the value."""
    bracket = truth[place] in "()[]"
    return (bracket and ("," not in truth or "\\text" in truth)) or truth[place - 1 : place + 1] == "^{"


@settings(max_examples=400)
@given(pair=changed())
def test_a_changed_answer_is_wrong(pair):
    truth, other = pair
    assert not equal(truth, other)
    assert not equal(other, truth)


@st.composite
def rewritten(draw):
    """(truth, something else that means the same)."""
    truth = draw(maths())
    shape = form.read(truth)
    if isinstance(shape, form.Expression) and shape.unit is None:
        ways = [f"({truth}) + 1 - 1", f"\\frac{{3({truth})}}{{3}}", f"2({truth}) - ({truth})", f"x = {truth}"]
    elif isinstance(shape, form.Group) and (shape.is_list or shape.kind == "set"):
        items = [f"0 + ({item.text})" for item in shape.items]
        ways = [", ".join(reversed(items)), "\\{" + ", ".join(items) + "\\}"]
    elif isinstance(shape, form.Group):
        inner = ", ".join(
            item.text if "infty" in item.text else f"\\frac{{2({item.text})}}{{2}}" for item in shape.items
        )
        ways = [f"\\left{shape.kind[0]} {inner} \\right{shape.kind[1]}"]
    elif isinstance(shape, form.Union):
        ways = [" \\cup ".join(reversed(truth.split("\\cup")))]
    elif isinstance(shape, form.Relation) and "=" in shape.signs:
        left, right = truth.split("=")
        ways = [f"{right} = {left}", f"2({left}) = 2({right})", f"{left} + 3 = {right} + 3"]
    elif isinstance(shape, form.Matrix):
        ways = [truth.replace("pmatrix", "bmatrix"), f"\\frac{{1}}{{2}} {truth} ".replace("\\frac{1}{2}", "1")]
    else:
        ways = [f"{{{truth}}}", f" {truth} . "]
    return truth, draw(st.sampled_from(ways))


@settings(max_examples=300)
@given(pair=rewritten())
def test_an_equivalent_answer_is_right(pair):
    truth, other = pair
    assert equal(truth, other)
    assert equal(other, truth)


@settings(max_examples=200)
@given(value=st.fractions(max_denominator=10**6), other=st.fractions(max_denominator=10**6))
def test_fractions_are_equal_where_they_are_the_same_number(value, other):
    assert equal(f"\\frac{{{value.numerator}}}{{{value.denominator}}}", f"{other.numerator}/{other.denominator}") == (
        value == other
    )
    assert equal(
        f"{value.numerator}/{value.denominator}", f"\\frac{{{2 * value.numerator}}}{{{2 * value.denominator}}}"
    )


@given(answer=st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_text_is_read(answer):
    """Whatever a model writes is right or wrong, and no error."""
    text = answer.strip()
    if text and plain(text):
        assert isinstance(equal("x + 1 = 5", text), bool)
        assert truth(text) == text
