from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import HarnessError
from harness.running.rescore import rescore
from harness.store.runs import Store
from harness.tasks.data import prepared
from harness.tasks.data.catalogue import SOURCES
from harness.tasks.data.problem import Problem
from harness.tasks.scoring.scorer import SCORER
from harness.trainer.outcomes import EVALUATION

PROBLEMS = [Problem("What is $6*7$?", "42"), Problem("What is $6*7$? Add one.", "43")]
OUTPUTS = {0: ["Answer: 42.", "Answer: 41"], 1: ["**Answer:** 43", "no idea"]}


@pytest.fixture
def run(tmp_path):
    """A run of two problems and two samples, all judged wrong by an older scorer."""
    folder = tmp_path / "0123456789"
    made = prepared.rows(SOURCES["aime24"], PROBLEMS)
    prepared.write(tmp_path / "aime24.parquet", made, {})
    verl = {"trainer": {"validation_data_dir": "rollouts"}, "data": {"val_files": [str(tmp_path / "aime24.parquet")]}}
    folder.mkdir()
    (folder / "spec.json").write_text(
        json.dumps({"schema": 1, "id": folder.name, "label": "x", "config": {"steps": 4}, "verl": verl})
    )
    (folder / "rollouts").mkdir()
    kept, rows = [], []
    for i, problem in enumerate(made):
        for sample, output in enumerate(OUTPUTS[i]):
            kept.append(
                {"input": f"user\n{problem['prompt'][0]['content']}\nassistant\n", "output": output, "gts": "0",
                 "uid": f"abc{i}_{sample}_0", "step": 4}
            )  # fmt: skip
            rows.append(
                {"step": 4, "benchmark": "aime24", "problem": f"aime24/{PROBLEMS[i].id}", "sample": sample, "seed": 9,
                 "reward": -1.0, "accuracy": 0.0, "length": 3, "words": 0, "answer": None, "scorer": "old/1"}
            )  # fmt: skip
    (folder / "rollouts" / "4.jsonl").write_text("".join(json.dumps(line) + "\n" for line in reversed(kept)))
    (folder / "outcomes" / "eval").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=EVALUATION), folder / "outcomes/eval/step_000004.parquet")
    return folder


def test_kept_responses_are_judged_again(run):
    """By the truths of the data file: an earlier version kept `0` for an equation beside the response."""
    (result,) = rescore(Store(run.parent), run.name)
    assert (result.step, result.rows, result.changed) == (4, 4, 2)
    rows = pd.read_parquet(run / "outcomes/eval/step_000004.parquet")
    assert rows.accuracy.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert rows.answer.fillna("none").tolist() == ["42", "41", "43", "none"]
    assert set(rows.scorer) == {SCORER}
    assert rows.seed.tolist() == [9] * 4, "everything else stays"
    assert rescore(Store(run.parent), run.name, [4])[0].changed == 0
    assert pq.read_schema(run / "outcomes/eval/step_000004.parquet").names == EVALUATION.names


def test_altered_truths_of_an_earlier_version_judge_nothing(run):
    path = run.parent / "aime24.parquet"
    table = pq.read_table(path)
    mark = {prepared.CONTENT_KEY: table.schema.metadata[prepared.CONTENT_KEY]}
    pq.write_table(table.replace_schema_metadata(mark), path)
    before = (run / "outcomes/eval/step_000004.parquet").read_bytes()
    with pytest.raises(HarnessError, match="run `harness data prepare aime24` again"):
        rescore(Store(run.parent), run.name)
    assert (run / "outcomes/eval/step_000004.parquet").read_bytes() == before


def test_what_cannot_be_scored_again(run):
    store = Store(run.parent)
    spec = json.loads((run / "spec.json").read_text())
    (run / "spec.json").write_text(
        json.dumps({**spec, "config": {**spec["config"], "evaluation": {"builtin": "arithmetic"}}})
    )
    with pytest.raises(HarnessError, match="the built-in task arithmetic, which has its own scorer"):
        rescore(store, run.name)
    (run / "spec.json").write_text(json.dumps({**spec, "config": {**spec["config"], "evaluation": {"builtin": None}}}))
    with pytest.raises(HarnessError, match=r"no responses of step 8 \(there: 4\)"):
        rescore(store, run.name, [8])
    dump = run / "rollouts" / "4.jsonl"
    lines = dump.read_text().splitlines()
    before = (run / "outcomes/eval/step_000004.parquet").read_bytes()
    dump.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(HarnessError, match="no response was kept of sample 0"):
        rescore(store, run.name)
    dump.write_text(json.dumps({**json.loads(lines[0]), "input": "another question"}) + "\n")
    with pytest.raises(HarnessError, match="prompt of no evaluation set"):
        rescore(store, run.name)
    assert (run / "outcomes/eval/step_000004.parquet").read_bytes() == before
    spec = json.loads((run / "spec.json").read_text())
    spec["verl"]["trainer"] = {}
    (run / "spec.json").write_text(json.dumps(spec))
    with pytest.raises(HarnessError, match=r"verl\.trainer\.validation_data_dir=rollouts to keep them"):
        rescore(store, run.name)
