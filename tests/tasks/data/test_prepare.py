from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.commands.data import listing
from harness.commands.doctor import checks
from harness.config.compose import compose
from harness.errors import HarnessError
from harness.planning.signature import run_id, signature
from harness.tasks.data import hub, prepared, problem
from harness.tasks.data.catalogue import SOURCES
from harness.tasks.data.prepare import prepare, show, told
from harness.tasks.scoring.reward import compute_score
from harness.tasks.scoring.truth import shortest
from tests.support.shared import SHARED, needs


@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def contest(path, count, answer=lambda i: i, times=1):
    rows = [{"problem": f"What is {i} plus 0, after ${i}$ steps?", "answer": answer(i)} for i in range(count)] * times
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("name", "file", "count"),
    [
        ("aime24", "aime24.jsonl", 30),
        ("aime24", "aime24_leading_zeros.jsonl", 30),
        ("aime25", "aime25.jsonl", 30),
        ("aime25", "aime25_degree.parquet", 30),
        ("amc23", "amc23.jsonl", 40),
        ("math500", "math500.jsonl", 500),
        ("gsm8k", "gsm8k_test.jsonl", 1319),
    ],
)
@needs("data")
def test_published_files(name, file, count, tmp_path):
    result = prepare(name, tmp_path, SHARED / "data" / file)
    rows = prepared.read(result.path)
    assert (len(rows), result.rows) == (count, count)
    assert len({row["extra_info"]["index"] for row in rows}) == count
    answers = [row["reward_model"]["ground_truth"] for row in rows]
    if name != "math500":
        assert all(str(int(shortest(answer))) == shortest(answer) for answer in answers)


HUB = "https://huggingface.co/datasets"


@pytest.mark.parametrize(
    ("name", "url", "row", "answer"),
    [
        ("dapo_math_17k", f"{HUB}/BytedTsinghua-SIA/DAPO-Math-17k/resolve/main/data/dapo-math-17k.parquet",
         {"data_source": "math_dapo", "prompt": [{"role": "user", "content": "What?"}], "ability": "MATH",
          "reward_model": {"ground_truth": "34", "style": "rule-lighteval/MATH_v2"}, "extra_info": {"index": "9a9b"}}, "34"),
        ("gsm8k_train", f"{HUB}/openai/gsm8k/resolve/main/main/train-00000-of-00001.parquet",
         {"question": "What?", "answer": "So 500+500=<<500+500=1000>>1000.\n#### 1,000"}, "1,000"),
        ("gsm8k", f"{HUB}/openai/gsm8k/resolve/main/main/test-00000-of-00001.parquet",
         {"question": "What?", "answer": "So 9*2=<<9*2=18>>18.\n#### 18"}, "18"),
        ("aime24", f"{HUB}/HuggingFaceH4/aime_2024/resolve/main/data/train-00000-of-00001.parquet",
         {"id": 60, "problem": "What?", "solution": "...", "answer": "025", "url": "https://x", "year": "2024"}, "025"),
        ("aime25", f"{HUB}/math-ai/aime25/resolve/main/test.jsonl", {"problem": "What?", "answer": "70", "id": "0"}, "70"),
        ("amc23", f"{HUB}/math-ai/amc23/resolve/main/test-00000-of-00001.parquet",
         {"id": 0, "question": "What?", "answer": "27.0", "url": "https://x"}, "27.0"),
        ("math500", f"{HUB}/HuggingFaceH4/MATH-500/resolve/main/test.jsonl",
         {"problem": "What?", "solution": "...", "answer": "\\frac{14}{3}", "subject": "Algebra", "level": 3,
          "unique_id": "test/algebra/1.json"}, "\\frac{14}{3}"),
    ],
)  # fmt: skip
def test_the_hubs_files_and_their_columns(name, url, row, answer):
    """As the hub lists them (November 2026); math-ai/amc23 has its file at the top, not in data/."""
    assert SOURCES[name].url == url
    assert problem.read(row) == problem.Problem("What?", answer)


def test_a_file_that_repeats_every_problem_is_read_by_parts(tmp_path, monkeypatch):
    """As DAPO-Math-17k is published; each row group stands for 20,000 rows."""
    monkeypatch.setattr("harness.tasks.data.table._BATCH", 7)
    rows = [{"problem": f"What is {i} plus 0?", "answer": str(i)} for i in range(10)] * 5
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "f.parquet")
    result = prepare("mine", tmp_path, tmp_path / "f.parquet", "train")
    assert (result.rows, result.repeats) == (10, 40)
    assert [row["reward_model"]["ground_truth"] for row in prepared.read(result.path)] == [str(i) for i in range(10)]


@needs("data")
def test_known_answers_whatever_the_file_made_of_them(tmp_path):
    def answers(name, file):
        rows = prepared.read(prepare(name, tmp_path, SHARED / "data" / file).path)
        return sorted(int(shortest(row["reward_model"]["ground_truth"])) for row in rows)

    aime24 = answers("aime24", "aime24.jsonl")
    assert {204, 25, 385} <= set(aime24)
    assert answers("aime24", "aime24_leading_zeros.jsonl") == aime24
    aime25 = answers("aime25", "aime25_degree.parquet")
    assert {70, 336} <= set(aime25)
    assert answers("aime25", "aime25.jsonl") == aime25
    assert {3159, 1625, -1, 27} <= set(answers("amc23", "amc23.jsonl"))


@needs("data")
@pytest.mark.parametrize(
    ("name", "file", "why"),
    [
        ("amc23", "amc_83.parquet", r"has 83 problems, amc23 has 40 .*AMC 2022 and 2023 together"),
        ("aime24", "aime24_repeated32.parquet", r"960 rows but only 30 problems, each 32 times.*evaluation\.samples"),
        ("dapo_math_17k", "deepscaler_subset.parquet", r"has 1206 problems, dapo_math_17k has 17000 to 18000"),
    ],
)
def test_other_sets_under_that_name_are_refused(name, file, why, tmp_path, data_folder):
    with pytest.raises(HarnessError, match=why):
        prepare(name, tmp_path, SHARED / "data" / file)
    assert not (data_folder / f"{name}.parquet").exists()


@needs("data")
def test_ids_do_not_depend_on_format_and_order(tmp_path):
    def ids(file):
        path = prepare("mine", tmp_path, SHARED / "data" / file, "train").path
        return {row["extra_info"]["index"] for row in prepared.read(path)}

    assert len(ids("aime24_leading_zeros.jsonl") & ids("aime24_repeated32.parquet")) == 29, "one has another wording"


def test_a_training_set_loses_repeats_and_contradictions(tmp_path):
    file = contest(tmp_path / "own.jsonl", 200, times=3)
    with file.open("a") as out:
        out.write(json.dumps({"problem": "What is 5 plus 0, after $5$ steps?", "answer": "6"}) + "\n")
        out.write(json.dumps({"problem": "An open question", "answer": ""}) + "\n")
    result = prepare("own", tmp_path, file, "train")
    assert (result.rows, result.repeats, result.contradictions, result.unusable) == (199, 401, 1, 1)
    assert "401 repeated rows dropped, 1 problems with two answers dropped, 1 rows without an answer dropped" in told(
        result
    )


def test_an_evaluation_set_with_an_unusable_row_is_refused(tmp_path):
    file = contest(tmp_path / "own.jsonl", 3, answer=lambda i: "" if i == 2 else i)
    with pytest.raises(HarnessError, match="row 3: ground truth '' is empty"):
        prepare("own", tmp_path, file, "test")


@pytest.mark.parametrize(
    "answer",
    [
        "2x-y+3z+8=0",
        "x=5",
        "3R^2",
        "5xy",
        "12 3",
        "52_8",
        r"\text{east}",
        "025",
        r"336^\\circ",
        "(3,4]",
        r"\$5",
        "f'",
    ],
)
def test_a_truth_is_stored_as_the_file_has_it(answer, tmp_path):
    """A plane's equation was once stored as 0, because it ended so."""
    for split in ("test", "train"):
        path = prepare(
            f"own_{split}", tmp_path, contest(tmp_path / "own.jsonl", 3, answer=lambda i: answer), split
        ).path
        assert {row["reward_model"]["ground_truth"] for row in prepared.read(path)} == {answer}


@needs("data")
def test_the_truths_of_maths_are_those_of_the_file(tmp_path):
    file = SHARED / "data" / "math500.jsonl"
    made = prepared.read(prepare("math500", tmp_path, file).path)
    asked = [json.loads(line)["answer"] for line in file.read_text().splitlines()]
    assert [row["reward_model"]["ground_truth"] for row in made] == asked


def test_copies_that_write_an_answer_in_two_ways_are_no_contradiction(tmp_path):
    file = contest(tmp_path / "a.jsonl", 200, answer=lambda i: f"{i}.0")
    with file.open("a") as out:
        out.write(json.dumps({"problem": "What is 5 plus 0, after $5$ steps?", "answer": "005"}) + "\n")
    result = prepare("own", tmp_path, file, "train")
    assert (result.rows, result.repeats, result.contradictions) == (200, 1, 0)


def earlier(path):
    """The file as an earlier version left it: with its mark, but not the one of its truths."""
    table = pq.read_table(path)
    marks = {prepared.CONTENT_KEY: table.schema.metadata[prepared.CONTENT_KEY]}
    pq.write_table(table.replace_schema_metadata(marks), path)


def test_a_set_of_an_earlier_version_is_never_used(tmp_path, monkeypatch):
    result = prepare("aime24", tmp_path, contest(tmp_path / "a.jsonl", 30))
    earlier(result.path)
    why = r"prepared by an earlier version.*run `harness data prepare aime24 --from a\.jsonl` again"
    for reading in (prepared.content, prepared.read, lambda path: show("aime24", 1, tmp_path)):
        with pytest.raises(HarnessError, match=why):
            reading(result.path)
    assert "outdated" in next(line for line in listing(tmp_path).splitlines() if line.startswith("aime24 "))
    composed = compose(["model=qwen3_0_6b_base", f"data.train_files=[{result.path}]", "data=gsm8k_train"])
    with pytest.raises(HarnessError, match=why):
        signature(composed, tmp_path)
    found = {finding.subject: finding for finding in checks.inputs(composed)}
    assert (found["data"].level, found["data"].remedy) == (checks.FAILURE, "harness data prepare aime24")
    monkeypatch.setattr(hub, "fetch", lambda source: tmp_path / "a.jsonl")
    again = prepare("aime24", tmp_path)
    assert again.fresh
    assert prepared.read(again.path)
    assert prepare("aime24", tmp_path).content == result.content


@pytest.mark.slow  # imports verl
def test_the_training_reward_does_not_change_with_the_way_a_number_is_stored():
    def reward(truth, response="Answer: 25"):
        return compute_score("math_dapo", response, truth, {"split": "train"})["score"]

    assert [reward(truth) for truth in ("25", "025", "25.0", r"25^\circ", {"target": "25"})] == [1.0] * 5
    assert reward("1,000", "Answer: 1000") == 1.0
    assert reward("26") == -1.0


def test_aime_answers_are_whole_numbers(tmp_path):
    with pytest.raises(HarnessError, match=r"answer '0\.5' of problem p\w+ is no whole number"):
        prepare("aime24", tmp_path, contest(tmp_path / "a.jsonl", 30, answer=lambda i: "0.5"))


def test_content_hash_is_of_rows_not_of_bytes(tmp_path):
    first = prepare("own", tmp_path, contest(tmp_path / "a.jsonl", 5), "test")
    table = pq.read_table(first.path)
    pq.write_table(table, first.path, compression="none")  # other bytes, our mark kept
    assert prepared.content(first.path) == first.content
    pq.write_table(table.replace_schema_metadata({}), first.path)  # somebody else's file now
    assert prepared.content(first.path) != first.content
    again = prepare("own", tmp_path, contest(tmp_path / "a.jsonl", 5), "test")
    assert again.content == first.content
    assert prepare("own", tmp_path, contest(tmp_path / "a.jsonl", 6), "test").content != first.content


def test_what_is_there_is_not_fetched_again(tmp_path, monkeypatch):
    prepare("aime24", tmp_path, contest(tmp_path / "a.jsonl", 30))
    monkeypatch.setattr(hub, "fetch", lambda source: pytest.fail("fetched"))
    assert not prepare("aime24", tmp_path).fresh


def test_without_a_network_it_says_what_to_download_where(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_resolves", lambda host: False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(HarnessError, match=r"no network.*download https://huggingface\.co/datasets/math-ai/amc23/\S+ "):
        prepare("amc23", tmp_path)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("missing.jsonl", "no such file"),
        ("set.txt", r"format \.txt"),
        ("broken.jsonl", "cannot be read as .jsonl"),
        ("broken.parquet", "cannot be read as .parquet"),
        ("empty.jsonl", "holds no rows"),
        ("columns.jsonl", "row 1: no answer in the columns question"),
    ],
)
def test_bad_files(given, why, tmp_path):
    for name, text in (
        ("set.txt", "x"),
        ("broken.jsonl", '{"problem": '),
        ("broken.parquet", "PAR1"),
        ("empty.jsonl", ""),
        ("columns.jsonl", '{"question": "Why?"}\n'),
    ):
        (tmp_path / name).write_text(text)
    with pytest.raises(HarnessError, match=why):
        prepare("own", tmp_path, tmp_path / given, "test")


def test_show_has_the_prompt_of_the_recipe(tmp_path):
    prepare("own", tmp_path, contest(tmp_path / "a.jsonl", 5), "test")
    shown = show("own", 2, tmp_path)
    assert shown.count("The last line of your response should be of the form Answer: $Answer (without quotes)") == 2
    assert "answer: 1" in shown
    with pytest.raises(HarnessError, match="run `harness data prepare amc23`"):
        show("amc23", 1, tmp_path)
    with pytest.raises(HarnessError, match="did you mean amc23"):
        show("amc", 1, tmp_path)


def test_a_run_on_unprepared_data_names_the_command(tmp_path):
    composed = compose(["model=qwen3_0_6b_base", "data=dapo_math_17k", "evaluation=paper"])
    with pytest.raises(HarnessError, match=r"data\.train_files=.*run `harness data prepare dapo_math_17k`"):
        signature(composed, tmp_path)


def test_content_enters_the_identity_of_a_run(tmp_path):
    overrides = ["model=qwen3_0_6b_base", "data=gsm8k_train", "evaluation=aime24"]
    prepare("aime24", tmp_path, contest(tmp_path / "a.jsonl", 30))
    train = prepare("own", tmp_path, contest(tmp_path / "t.jsonl", 50), "train")
    train.path.rename(train.path.with_name("gsm8k_train.parquet"))
    before = run_id(signature(compose(overrides), tmp_path))
    assert run_id(signature(compose(overrides), tmp_path)) == before
    prepare("aime24", tmp_path, contest(tmp_path / "a.jsonl", 30, answer=lambda i: i + 1))
    assert run_id(signature(compose(overrides), tmp_path)) != before


def test_a_repeated_evaluation_file_of_ones_own_is_refused_when_planning(tmp_path):
    rows = [{"prompt": [{"role": "user", "content": f"{i % 3}?"}]} for i in range(12)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "mine.parquet")
    (tmp_path / "train.parquet").write_bytes((tmp_path / "mine.parquet").read_bytes())
    composed = compose(
        ["model=qwen3_0_6b_base", "data=gsm8k_train", f"data.train_files=[{tmp_path}/train.parquet]",
         "evaluation=aime24", f"evaluation.files=[{tmp_path}/mine.parquet]"]
    )  # fmt: skip
    with pytest.raises(HarnessError, match=r"12 rows but only 3 prompts.*evaluation\.samples=4"):
        signature(composed, tmp_path)
