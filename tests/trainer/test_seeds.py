from __future__ import annotations

from harness.trainer import seeds


def test_a_request_of_the_trainer_does_not_depend_on_the_step_that_verl_passes():
    uid = seeds.train_uid(12, 3)
    one = seeds.request_seed(7, uid=uid, step=12, query="sums/4", sample=0)
    assert one == seeds.request_seed(7, uid=uid, step=99, query="sums/4", sample=0)
    assert one == seeds.train_seed(7, "s000012p00003", "sums/4", 0)


def test_an_evaluation_request_depends_on_everything_but_the_random_uid():
    def seed(uid: str = "9f1c-aa", **changes: object) -> int:
        fields = {"seed": 7, "step": 10, "query": "easy/4", "sample": 0, **changes}
        return seeds.request_seed(fields.pop("seed"), uid=uid, **fields)

    assert seed() == seed(uid="0b22-cc") == seeds.evaluation_seed(7, 10, "easy/4", 0)
    others = [seed(seed=8), seed(step=20), seed(query="easy/5"), seed(query="hard/4"), seed(sample=1)]
    assert len({seed(), *others}) == 6


def test_seeds_spread_and_are_exact_in_a_float():
    uids = [seeds.train_uid(step, position) for step in range(20) for position in range(8)]
    drawn = {seeds.train_seed(1, uid, "sums/0", sample) for uid in uids for sample in range(16)}
    assert len(drawn) == 20 * 8 * 16
    assert all(0 <= seed < 2**53 and int(float(seed)) == seed for seed in drawn)
    assert max(drawn) > 2**52


def test_uids_hold_nothing_that_verl_splits_or_takes_for_padding():
    uid = seeds.train_uid(1234567, 123456)
    assert "_" not in uid
    assert not uid.startswith("pad")
    assert seeds.TRAIN_UID.fullmatch(uid)
