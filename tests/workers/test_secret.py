"""Where a worker finds its secrets, and what is said of one that it cannot read."""

from __future__ import annotations

import pytest

from ascertain.errors import MissingSecret
from workers.secret import ProcessSecrets


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCERTAIN_SECRETS", str(tmp_path))
    return tmp_path


def test_a_secret_comes_from_the_environment_or_else_from_its_file(folder, monkeypatch):
    (folder / "KEY").write_text("from the file\n")
    assert ProcessSecrets().reveal("KEY") == "from the file"
    monkeypatch.setenv("ASCERTAIN_SECRET_KEY", "from the environment")
    assert ProcessSecrets().reveal("KEY") == "from the environment"


def test_secrets_that_are_nowhere_are_all_named(folder):
    (folder / "HERE").write_text("x")
    with pytest.raises(MissingSecret, match="are missing: A, B; set ASCERTAIN_SECRET_A, ASC"):
        ProcessSecrets().require(["B", "HERE", "A"])
    with pytest.raises(MissingSecret, match="secret A is missing: set ASCERTAIN_SECRET_A, or"):
        ProcessSecrets().reveal("A")


def a_folder(file):
    file.mkdir()


def a_link_to_itself(file):  # refused to root too, who may read whatever there is
    file.symlink_to(file)


def no_text(file):
    file.write_bytes(b"s3cret\xe9")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (a_folder, "cannot be read: Is a directory"),
        (a_link_to_itself, "cannot be read: Too many levels of symbolic links"),
        (no_text, "is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_secret_and_never_with_its_content(
    folder, made, why
):
    made(folder / "KEY")
    for ask in (lambda: ProcessSecrets().reveal("KEY"), lambda: ProcessSecrets().require(["KEY"])):
        with pytest.raises(MissingSecret) as caught:
            ask()
        assert str(caught.value) == (
            f"secret KEY: its file {folder / 'KEY'} {why}; let it be text that this process may read"
        )
        assert caught.value.__context__ is None  # a decoder's error holds the bytes
        assert caught.value.exit_code == 7
