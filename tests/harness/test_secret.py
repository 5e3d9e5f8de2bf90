from __future__ import annotations

from harness import secret

ENVIRONMENT = {
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567", "HF_TOKEN": "hf_plantedplantedplanted",
    "MY_SERVICE_PASSWORD": "hunter2hunter2",
    "MONKEY": "bananabanana", "PATH": "/usr/bin", "TOKENIZERS_PARALLELISM": "false",
    "SSH_KEY": "abc",
}  # fmt: skip


def test_secrets_are_told_by_the_name_of_their_variable():
    assert set(secret.values(ENVIRONMENT)) == {
        ENVIRONMENT["WANDB_API_KEY"], ENVIRONMENT["HF_TOKEN"], ENVIRONMENT["MY_SERVICE_PASSWORD"]
    }  # fmt: skip


def test_they_are_masked_in_text_and_trees():
    values = secret.values(ENVIRONMENT)
    key = ENVIRONMENT["WANDB_API_KEY"]
    assert secret.redact(f"login with {key}!", values) == "login with ***!"
    assert secret.redact_tree({"a": [f"x{key}", 1], "b": None}, values) == {"a": ["x***", 1], "b": None}


def test_a_diff_loses_what_somebody_typed_into_a_file():
    text = "+WANDB_API_KEY = 'aaaabbbbccccdddd1111'\n+max_token: response_length_of_prompt\n"
    text += "+x = hf_abcdefghij0123456789XY\n"
    clean = secret.redact_source(text, ())
    assert "aaaabbbbccccdddd1111" not in clean
    assert "hf_abcdefghij" not in clean
    assert "max_token: response_length_of_prompt" in clean


def test_files_that_hold_secrets_by_name():
    assert all(map(secret.is_secret_file, (".env", "a/.env.local", ".netrc", "keys/id_rsa", "x.pem")))
    assert not any(map(secret.is_secret_file, ("environment.md", "conf/model/tiny.yaml", "keys.py")))
