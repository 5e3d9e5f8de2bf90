from __future__ import annotations

import subprocess

from harness.planning import provenance


def git(folder, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_commit_changes_and_untracked_files_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "planted-secret-value")
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("one\n")
    (tmp_path / ".gitignore").write_text("ignored.txt\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    (tmp_path / "a.py").write_text("two planted-secret-value\n")
    (tmp_path / "new.py").write_text("three\n")
    (tmp_path / "ignored.txt").write_text("four\n")
    (tmp_path / ".env").write_text("five\n")
    (tmp_path / "big.bin").write_bytes(b"6" * (2 << 20))
    found = provenance.collect(tmp_path)
    assert len(found.record["git_sha"]) == 40
    assert found.record["git_dirty"] is True
    assert "-one" in found.diff
    assert "+two ***" in found.diff
    assert "+three" in found.diff
    assert "four" not in found.diff
    assert "five" not in found.diff
    assert "big.bin: not copied" in found.diff
    assert found.record["versions"]["python"].startswith("3.")


def test_a_clean_checkout_has_no_diff_and_no_repository_no_sha(tmp_path):
    (tmp_path / "a").write_text("x")
    found = provenance.collect(tmp_path / ".")
    assert (found.record["git_sha"], found.diff) == (None, "")


def test_a_secret_file_that_was_renamed_stays_out_whatever_git_is_set_to(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / ".env").write_text("KEY=planted\n" * 9)
    (tmp_path / "a.py").write_text("one\n")
    git(tmp_path, "add", "-f", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "mv", ".env", "b.env.pem")
    (tmp_path / "a.py").write_text("two\n")
    for name, value in (("color.ui", "always"), ("diff.external", "true"), ("diff.renames", "copies")):
        git(tmp_path, "config", name, value)
    found = provenance.collect(tmp_path)
    assert "+two\n" in found.diff
    assert "planted" not in found.diff
