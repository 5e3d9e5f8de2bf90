r"""Pairs of truth and answer of all kinds that MATH-500 has, with the verdict that each must get.

Its 500 answers are 332 whole numbers (18 of them with a degree sign, a unit or money), 59 fractions, 9 decimals, 20
radicals, 8 multiples of pi, 21 polynomials, complex numbers and other expressions, 18 points and intervals, 3 unions, 7
matrices, 6 numbers in other bases, 5 equations and memberships, 6 lists and sets (3 of them with a plus-or-minus sign)
and 8 words and choices. Half of the pairs look alike and must differ.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import harness
from harness.tasks.scoring.equivalence import equal
from harness.tasks.scoring.judge import Judge
from harness.tasks.scoring.scorer import score

DOCS = Path(harness.__file__).parents[1] / "docs" / "data.md"
R, W = True, False
PAIRS = [
    # whole numbers
    ("whole", "123", "123", R), ("whole", "123", "12 3", W), ("whole", "123", "1,23", W), ("whole", "10,\\!080", "10080", R),
    ("whole", "58,500", "58500", R), ("whole", "58,500", "58.500", W), ("whole", "11,\\! 111,\\! 111,\\! 100", "11111111100", R),
    ("whole", "1000", "1,000", R), ("whole", "-50", "50", W), ("whole", "-50", "-50.0", R), ("whole", "70", "070", R),
    ("whole", "70", "70!", W), ("whole", "70", "7 0", W), ("whole", "70", "70, 71", W), ("whole", "720", "6!", R),
    ("whole", "1024", "2^{10}", R), ("whole", "1024", "2^10", R), ("whole", "6", "2(3)", R), ("whole", "5", "2(3)", W),
    ("whole", "6", "(2)(3)", R), ("whole", "5", "(2)(3)", W), ("whole", "15", "12 3", W), ("whole", "9", "\\sqrt{81}", R),
    ("whole", "5", "5t", W), ("whole", "5", "5xy", W), ("whole", "33", "m+n = 33", R), ("whole", "33", "m+n = 32", W),
    ("whole", "70", "2 \\cdot 35 = 70", R), ("whole", "71", "50 + 20 = 71", W), ("whole", "5", "x = 5", R),
    ("whole", "3", "x \\ge 3", W), ("whole", "10", "10_{2}", W), ("whole", "42", "42_{10}", R),
    # fractions
    ("fraction", "\\frac{14}{3}", "14/3", R), ("fraction", "\\frac{14}{3}", "\\frac{3}{14}", W),
    ("fraction", "\\frac43", "\\dfrac{4}{3}", R), ("fraction", "\\frac{1}{2^{98}}", "\\frac{1}{2^{99}}", W),
    ("fraction", "\\frac{1}{2^{99}}", "2^{-99}", R), ("fraction", "\\frac{270}7", "38\\frac{4}{7}", R),
    ("fraction", "1\\frac{4}{5}", "\\frac{9}{5}", R), ("fraction", "1\\frac{4}{5}", "\\frac{4}{5}", W),
    ("fraction", "1\\frac{4}{5}", "\\frac{14}{5}", W), ("fraction", "137 \\frac{1}{2}", "137.5", R),
    ("fraction", "\\frac 59", "5/9", R), ("fraction", "\\frac{1}{3}", "0.3333", W), ("fraction", "\\frac{1}{3}", "0.333333333333", W),
    ("fraction", "\\frac{1}{3}", "0.\\overline{3}", R), ("fraction", "-\\frac{35}{9}", "\\frac{-35}{9}", R),
    ("fraction", "-\\frac{35}{9}", "\\frac{35}{9}", W), ("fraction", "\\frac{1}{2}\\cdot\\frac{2}{3}", "\\frac13", R),
    ("fraction", "\\frac{10^{20}+1}{10^{20}}", "1", W),
    # decimals
    ("decimal", "1.25", "5/4", R), ("decimal", ".35625", "0.35625", R), ("decimal", ".35625", "0.3562", W),
    ("decimal", ".0000672", "6.72 \\times 10^{-5}", R), ("decimal", ".0000672", "6.72 \\times 10^{-6}", W),
    ("decimal", "326.5", "3265", W), ("decimal", "3.21", "3.210", R), ("decimal", "0.3", "0.1+0.2", R),
    # radicals
    ("radical", "3\\sqrt{13}", "\\sqrt{117}", R), ("radical", "3\\sqrt{13}", "13\\sqrt{3}", W),
    ("radical", "11\\sqrt2", "11\\sqrt{2}", R), ("radical", "11\\sqrt2", "15.556349186104045", W),
    ("radical", "\\frac{\\sqrt{3}}{3}", "\\frac{1}{\\sqrt{3}}", R), ("radical", "\\frac{\\sqrt{3}}{3}", "\\sqrt{3}/2", W),
    ("radical", "1+2\\sqrt{3}", "2\\sqrt3+1", R), ("radical", "1+2\\sqrt{3}", "3\\sqrt3", W), ("radical", "\\sqrt{51}", "√51", R),
    ("radical", "\\sqrt{2+\\sqrt3}", "\\frac{\\sqrt6+\\sqrt2}{2}", R), ("radical", "\\sqrt{10^{40}+1}", "10^{20}", W),
    ("radical", "\\sqrt[3]{2}", "2^{1/3}", R), ("radical", "\\sqrt[3]{2}", "3\\sqrt{2}", W), ("radical", "-\\sqrt{3}", "\\sqrt{-3}", W),
    ("radical", "2\\sqrt{3}", "2\\sqrt{3} \\approx 3.46", R), ("radical", "3.46", "2\\sqrt{3} \\approx 3.46", W),
    ("radical", "2\\sqrt{3}", "A = 2\\sqrt{3} \\approx 3.46", R), ("decimal", "3.5", "x \\approx 3.5", R),
    # pi and trigonometry
    ("pi", "\\pi", "3.141592653589793", W), ("pi", "288 \\pi", "288", W), ("pi", "18+2\\pi", "2(9+\\pi)", R),
    ("pi", "-\\frac{\\pi}{6}", "-\\pi/6", R), ("pi", "\\frac{20000}{\\pi}", "20000\\pi", W), ("pi", "12\\pi", "12pi", R),
    ("pi", "\\frac{1}{2}", "\\sin 30^\\circ", R), ("pi", "\\sin 30", "\\sin 30^\\circ", W), ("pi", "\\cot x", "\\frac{1}{\\tan x}", R),
    ("pi", "\\cot x", "\\tan x", W), ("pi", "\\sin^2 x", "1-\\cos^2 x", R), ("pi", "\\tan x", "\\tan y", W),
    # polynomials and other expressions
    ("expression", "p - q", "-q + p", R), ("expression", "p - q", "q - p", W), ("expression", "p - q", "p - q = 0", W),
    ("expression", "(a+5)(b+2)", "ab + 2a + 5b + 10", R), ("expression", "(a+5)(b+2)", "(a+2)(b+5)", W),
    ("expression", "x^3+3x-6", "x^3 + 3x + 6", W), ("expression", "8n^2 + 4n + 1", "4n(2n+1) + 1", R),
    ("expression", "3R^2", "3", W), ("expression", "3R^2", "3r^2", W), ("expression", "3R^2", "3 R^{2}", R),
    ("expression", "5r^5", "5r^{5}", R), ("expression", "5r^5", "5", W), ("expression", "2k+2", "2(k+1)", R),
    ("expression", "2k", "k^2", W), ("expression", "\\frac{11+9a}{20}", "0.55 + 0.45a", R),
    ("expression", "6r^2-4r-24", "6r^2 - 4r - 2", W), ("expression", "2x^2", "(2x)^2", W), ("expression", "f'(x)", "f(x)", W),
    ("expression", "\\frac{n(n+1)}{2}", "\\frac{n^2+n}{2}", R), ("expression", "\\frac{x}{2}", "1/2x", R),
    ("expression", "2^{n+1}", "2 \\cdot 2^n", R), ("expression", "2^{n+1}", "2^n + 1", W), ("expression", "x_1", "x_2", W),
    ("expression", "\\sqrt{x^2}", "x", W), ("expression", "-13x+3", "y = -13x + 3", R), ("expression", "x y", "xy", R),
    # complex numbers
    ("complex", "6 - 5i", "-5i + 6", R), ("complex", "6 - 5i", "6 + 5i", W), ("complex", "1+2i", "2+i", W),
    ("complex", "-1", "i^2", R), ("complex", "2i", "2I", W), ("complex", "1+274i", "1+274", W), ("complex", "5", "|3+4i|", R),
    # equations
    ("equation", "5x - 7y + 11z + 4 = 0", "0", W), ("equation", "5x - 7y + 11z + 4 = 0", "0 = 0", W),
    ("equation", "5x - 7y + 11z + 4 = 0", "x + 2y - 3z = 0", W), ("equation", "5x - 7y + 11z + 4 = 0", "10x-14y+22z+8=0", R),
    ("equation", "5x - 7y + 11z + 4 = 0", "7y - 11z - 4 = 5x", R), ("equation", "x + y = 5", "x - y = 5", W),
    ("equation", "x + y = 5", "5", W), ("equation", "x^2 - y^2 = 25", "x^2 + y^2 = 25", W),
    ("equation", "x^2 + y^2 = 25", "x^2 + y^2 = 16", W), ("equation", "\\frac{x^2}{9}+\\frac{y^2}{4}=1", "4x^2+9y^2=36", R),
    ("equation", "\\frac{x^2}{9}+\\frac{y^2}{4}=1", "\\frac{x^2}{4}+\\frac{y^2}{9}=1", W), ("equation", "g(2)=3", "f(x)=3", W),
    ("equation", "y = 2x + 3", "2x + 3", R), ("equation", "y = 2x + 3", "2x - y + 3 = 0", R), ("equation", "y = -2x", "y = 2x", W),
    ("equation", "y = 2x + 3", "3", W), ("equation", "x=5", "5", R), ("equation", "x=5", "y=5", W), ("equation", "x=5", "5 = x", R),
    ("equation", "2x-y+3z+8=0", "2x-y+3z+8", W),
    # inequalities and intervals
    ("interval", "(3,4]", "[3,4)", W), ("interval", "(3,4]", "(3,4)", W), ("interval", "(3,4]", "3 < x \\le 4", R),
    ("interval", "(2,\\infty)", "x > 2", R), ("interval", "(2,\\infty)", "x \\ge 2", W), ("interval", "(2,\\infty)", "2", W),
    ("interval", "0 < x < 12.5", "(0, 12.5)", R), ("interval", "(0, 12.5)", "0 < x < 12.5", R), ("interval", "x > 5", "x < 5", W),
    ("interval", "0 < x < 12.5", "[0, 12.5]", W), ("interval", "x \\in [-2,7]", "[-2,7]", R), ("interval", "x > 5", "2x > 10", R),
    ("interval", "x \\in [-2,7]", "-2 \\le x \\le 7", R), ("interval", "x \\in [-2,7]", "(-2,7)", W), ("interval", "x < -5", "-x > 5", R),
    ("interval", "(-\\infty, 2) \\cup (3, \\infty)", "(3,\\infty) \\cup (-\\infty,2)", R),
    ("interval", "(-\\infty, 2) \\cup (3, \\infty)", "x < 2 \\text{ or } x > 3", R),
    ("interval", "(-\\infty, 2) \\cup (3, \\infty)", "(2, 3)", W), ("interval", "(0,9) \\cup (9,36)", "(0,36)", W),
    ("interval", "[2,5)", "x \\ge 2 \\text{ and } x < 5", R), ("interval", "x > 5", "y > 5", W),
    ("interval", "\\left[ \\frac{\\pi^2}{8}, \\frac{5 \\pi^2}{4} \\right]", "[\\pi^2/8, 5\\pi^2/4]", R),
    # points, lists and sets
    ("point", "\\left( 3, \\frac{\\pi}{2} \\right)", "(3, pi/2)", R), ("point", "(6,31,-1)", "(6,31,1)", W),
    ("point", "(-2,1)", "(1,-2)", W), ("point", "(1,-16,-4,43)", "(1,-16,-4)", W), ("point", "(8,-2)", "(x,y) = (8,-2)", R),
    ("point", "(-2,1)", "\\{-2,1\\}", W), ("list", "1,-2", "-2, 1", R), ("list", "1,-2", "x = 1 \\text{ or } x = -2", R),
    ("list", "1,-2", "1", W), ("list", "1,-2", "1, 2", W), ("list", "1,-2", "(1,-2)", W), ("list", "3, 5, 7", "3, 5, and 7", R),
    ("list", "3, 5, 7", "3, 5", W), ("list", "1, 2", "1, 1, 2", W), ("list", "x=3, y=70", "y=70, x=3", R),
    ("set", "\\{1\\pm\\sqrt{5},-2\\}", "\\{-2, 1+\\sqrt5, 1-\\sqrt5\\}", R), ("set", "\\{1,2\\}", "\\{2,1\\}", R),
    ("set", "\\{1\\pm\\sqrt{5},-2\\}", "\\{-2, 1+\\sqrt5\\}", W), ("set", "\\{1,2\\}", "1, 2", R), ("set", "\\{1,2\\}", "\\{1,3\\}", W),
    # plus or minus
    ("plus-minus", "1 \\pm \\sqrt{19}", "1+\\sqrt{19}, 1-\\sqrt{19}", R), ("plus-minus", "1 \\pm \\sqrt{19}", "1+\\sqrt{19}", W),
    ("plus-minus", "3 \\pm 2 \\sqrt{2}", "3 \\mp 2\\sqrt2", R), ("plus-minus", "3 \\pm 2 \\sqrt{2}", "2 \\pm 3\\sqrt{2}", W),
    ("plus-minus", "1 \\pm \\sqrt{19}", "x = 1 ± √19", R),
    # matrices
    ("matrix", "\\begin{pmatrix} -1/3 \\\\ 2/3 \\\\ 5/3 \\end{pmatrix}", "\\begin{bmatrix} -\\frac13 \\\\ \\frac23 \\\\ \\frac53 \\end{bmatrix}", R),
    ("matrix", "\\begin{pmatrix} -1/3 \\\\ 2/3 \\\\ 5/3 \\end{pmatrix}", "\\begin{pmatrix} 1/3 \\\\ 2/3 \\\\ 5/3 \\end{pmatrix}", W),
    ("matrix", "\\begin{pmatrix} -7 \\\\ 16 \\\\ 5 \\end{pmatrix}", "\\begin{pmatrix} -7 & 16 & 5 \\end{pmatrix}", W),
    ("matrix", "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "\\begin{pmatrix} 1 & 3 \\\\ 2 & 4 \\end{pmatrix}", W),
    ("matrix", "\\begin{pmatrix} -1 & 0 \\\\ 0 & -1 \\end{pmatrix}", "-\\begin{pmatrix} 1 & 0 \\\\ 0 & 1 \\end{pmatrix}", R),
    ("matrix", "\\begin{pmatrix} -1/3 \\\\ 2/3 \\\\ 5/3 \\end{pmatrix}", "\\frac{1}{3}\\begin{pmatrix} -1 \\\\ 2 \\\\ 5 \\end{pmatrix}", R),
    ("matrix", "\\begin{pmatrix} -2 \\\\ -14 \\end{pmatrix}", "2\\begin{pmatrix} -1 \\\\ -14 \\end{pmatrix}", W),
    # angles, money, other units
    ("unit", "90^\\circ", "90", R), ("unit", "90^\\circ", "90 \\text{ degrees}", R), ("unit", "90^\\circ", "90 radians", W),
    ("unit", "90^\\circ", "9^\\circ", W), ("unit", "\\frac{270}7\\text{ degrees}", "\\frac{270}{7}^\\circ", R),
    ("unit", "\\$32,\\!348", "32348 dollars", R), ("unit", "\\$18.90", "18.9", R), ("unit", "\\$36", "36 cents", W),
    ("unit", "5.4 \\text{ cents}", "5.4 dollars", W), ("unit", "5.4 \\text{ cents}", "\\$0.054", R), ("unit", "15\\mbox{ cm}^2", "15", R),
    ("unit", "15\\mbox{ cm}^2", "15 square centimeters", R), ("unit", "15\\mbox{ cm}^2", "15 cm^3", W),
    ("unit", "864 \\mbox{ inches}^2", "6 \\text{ ft}^2", R), ("unit", "70 cm", "70 m", W), ("unit", "70 cm", "0.7 m", R),
    ("unit", "70", "70 apples", R), ("unit", "70", "70 thousand", W), ("unit", "70\\%", "70", R), ("unit", "12", "12th", R),
    ("unit", "8\\pi", "8\\pi \\text{ cm}", R), ("unit", "20 minutes", "20 hours", W),
    # other bases
    ("base", "52_8", "52_{8}", R), ("base", "52_8", "52_9", W), ("base", "52_8", "52", W), ("base", "52_8", "42", W),
    ("base", "52_8", "(52)_8", R), ("base", "52_8", "(25)_8", W),
    ("base", "4210_{5}", "4201_5", W), ("base", "2516_8", "2516_{\\text{eight}}", R),
    # words and choices
    ("words", "\\text{Evelyn}", "Evelyn", R), ("words", "\\text{Evelyn}", "Angela", W), ("words", "\\text{east}", "seat", W),
    ("words", "\\text{even}", "\\textbf{even}", R), ("words", "\\text{even}", "odd", W), ("words", "\\text{ellipse}", "Ellipse", R),
    ("words", "\\text{odd}", "dod", W), ("words", "\\text{no solution}", "solution", W), ("choice", "\\text{(C)}", "C", R),
    ("choice", "\\text{(C)}", "(C)", R), ("choice", "\\text{(C)}", "(D)", W), ("choice", "\\text{(E)}", "\\text{E}", R),
    ("choice", "\\text{(C)}", "(C) or (D)", W), ("other", "3:2", "2:3", W), ("other", "3:2", "3:2", R), ("other", "10:45", "1045", W),
]  # fmt: skip
ONE_WAY = {"m+n = 33", "2 \\cdot 35 = 70", "5", "0"}
"""Equations that name the number asked for; docs/data.md says so."""


@pytest.fixture(scope="module")
def judge():
    made = Judge(processes=1)
    yield made
    made.close()


@pytest.mark.slow  # two hundred comparisons
@pytest.mark.parametrize("wrapped", ["Answer: ${}$", "Therefore \\boxed{{{}}}."])
def test_every_pair_gets_its_verdict(judge, wrapped):
    given = [
        (kind, gold, answer, score(wrapped.format(answer), gold, judge).correct) for kind, gold, answer, _ in PAIRS
    ]
    assert given == PAIRS


@pytest.mark.slow
def test_the_verdict_does_not_depend_on_which_of_the_two_is_the_truth():
    turned = [(gold, answer) for _, gold, answer, right in PAIRS if equal(answer, gold) != right]
    assert all(answer in ONE_WAY or gold in ONE_WAY for gold, answer in turned), turned


def test_the_pairs_are_many_and_half_of_them_differ():
    assert len(PAIRS) >= 150
    assert len({pair[:3] for pair in PAIRS}) == len(PAIRS)
    assert 0.4 < sum(right for *_, right in PAIRS) / len(PAIRS) < 0.6
    assert min(Counter(kind for kind, *_ in PAIRS if kind != "other").values()) >= 4


def documented():
    """(truth, answer, right) of the table in docs/data.md, whose cells say "`answer` or `answer` for `truth`"."""
    rows = [
        line.split("|") for line in DOCS.read_text(encoding="utf-8").splitlines() if " for `" in line and line[0] == "|"
    ]
    for _, _, right, wrong, _ in rows:
        for cell, verdict in ((right, R), (wrong, W)):
            for found in re.finditer(r"((?:`[^`]+`(?: or |, )?)+) for `([^`]+)`", cell):
                yield from ((found[2], answer, verdict) for answer in re.findall("`([^`]+)`", found[1]))


@pytest.mark.slow
def test_the_table_in_the_documentation_is_true(judge):
    table = list(documented())
    assert len(table) > 30
    assert [(gold, answer, score(f"Answer: ${answer}$", gold, judge).correct) for gold, answer, _ in table] == table
