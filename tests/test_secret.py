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


def test_names_without_an_underscore_before_the_word_count_and_plurals_do_not():
    environment = {
        "PGPASSWORD": "planted-pg", "MYSQL_PWD": "planted-my", "SMTP_PASS": "planted-smtp", "GITHUB_PAT": "planted-pat",
        "AWS_ACCESS_KEY_ID": "planted-id", "MAX_TOKENS": "100000", "OLDPWD": "/no/such/folder", "COMPASS": "northnorth",
    }  # fmt: skip
    assert set(secret.values(environment)) == {
        "planted-pg", "planted-my", "planted-smtp", "planted-pat", "planted-id"
    }  # fmt: skip


def test_a_key_of_several_lines_is_masked_line_by_line():
    values = secret.values({"DEPLOY_KEY": "-----BEGIN KEY-----\nplantedline1\nplantedline2\n-----END KEY-----\n"})
    assert secret.redact("x plantedline2 y", values) == "x *** y"
    assert "-----BEGIN KEY-----" not in values


def test_credentials_in_an_address_and_known_forms_are_masked_wherever_they_came_from():
    assert secret.redact("git clone https://bob:planted@host/x.git", ()) == "git clone https://bob:***@host/x.git"
    assert secret.redact("http://:planted@host http://a/b:c@d", ()) == "http://:***@host http://a/b:c@d"
    assert secret.redact("https://0123456789abcdefghij0123@host", ()) == "https://***@host"
    assert secret.redact("ssh://git@host/x and mail a@b.c", ()) == "ssh://git@host/x and mail a@b.c"
    assert secret.redact_tree({"tags": ["hf_planted0000000000000000", "hf_short"]}, ()) == {"tags": ["***", "hf_short"]}
    assert secret.redact("id AKIA0123456789ABCDEF, xoxb-0123456789-ab", ()) == "id ***, ***"


def test_a_diff_loses_keys_headers_and_quoted_passwords():
    text = "+-----BEGIN PRIVATE KEY-----\n+MIIplanted\n+-----END PRIVATE KEY-----\n+after\n"
    text += "+password: 'planted'\n+Authorization: Bearer planted.planted\n+tokenizer_config_v2_path=abc\n"
    clean = secret.redact_source(text, ())
    assert "planted" not in clean
    assert "+after\n" in clean
    assert "+tokenizer_config_v2_path=abc\n" in clean


def test_more_files_that_hold_secrets_by_name():
    names = (".git-credentials", "credentials.json", "a/.aws/credentials", "conf/secrets.yaml", "kaggle.json", "id_dsa")
    assert all(map(secret.is_secret_file, names))
    assert not any(map(secret.is_secret_file, ("harness/secret.py", "credentials.py", "tests/test_secret.py")))
