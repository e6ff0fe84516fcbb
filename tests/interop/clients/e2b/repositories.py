"""repositories.py - sandbox.git, which runs git in the sandbox."""


def test_a_repository_of_the_sandbox(sandbox):
    if sandbox.commands.run("command -v git || true").stdout == "":
        import pytest
        pytest.skip("git is not installed in this sandbox")
    sandbox.git.init("repo", initial_branch="main")
    sandbox.commands.run("git config --global user.email a@b.c; git config --global user.name n")
    sandbox.files.write("repo/a.txt", "x")
    assert not sandbox.git.status("repo").is_clean
    sandbox.git.add("repo")
    sandbox.git.commit("repo", "first")
    status = sandbox.git.status("repo")
    assert status.is_clean and status.current_branch == "main"
    sandbox.git.create_branch("repo", "other")
    assert "other" in sandbox.git.branches("repo").branches
