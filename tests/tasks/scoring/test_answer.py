from __future__ import annotations

import pytest

from harness.tasks.scoring.answer import extract


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("Answer: 5\nWait, no.\nAnswer: 7", "7"),
        (r"So \boxed{5}. Wait, no: \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"Answer: 5" + "\n" + r"On reflection \boxed{7}", "7"),
        ("Final Answer: The final answer is $70$. I hope it is correct.", "$70$"),
        ("Answer:\n\n$$70$$", "$$70$$"),
        ("**Answer**: 70", "70"),
        ("<answer> 70 </answer>", "70"),
        ("We add them.\n#### 70", "70"),
        ("Answer: 3.5 cm. That is all.", "3.5 cm"),
        ("Answer: 70<|im_end|>\nuser: and now? Answer: 71", "70"),
        ("<think>Answer: 5</think>\nAnswer: 7", "7"),
        (r"Answer: 70, not \boxed{}", r"70, not \boxed{}"),
        (r"So \boxed{1} and \boxed{2}.", "1, 2"),
        (r"Answer: $\boxed{-2}$, $\boxed{1}$", "-2, 1"),
        (r"First \boxed{1}, so that we can go on to \boxed{2}", "2"),
        (r"Answer: $-\boxed{5}$", "-5"),
        (r"\boxed{\text{Answer: }3:2}", "3:2"),
        ("Answer: 10!", "10!"),
        ("Answer: 10!. We are done.", "10!"),
        ("The answer is $70$! We are done", "$70$"),
        ("The answer is east! We are done", "east"),
        ("Answer: x = 3; y = 70", "x = 3; y = 70"),
        ("Answer: 70; that is all", "70"),
        ("70!", None),
        ("no answer here, although 70 is mentioned", None),
        ("The answer", None),
        ("Answer:", None),
        ("", None),
        (r"an open box \boxed{70", None),
    ],
)
def test_what_counts_is_the_last_commitment(response, answer):
    assert extract(response) == answer
