"""Scenario 9: SANDBOX_STORE_CODE keeps executions in artifacts/executions, secrets redacted."""
import json
import re
import stat

import pytest
import support

GOOD, BAD = "print('fine')", "raise ValueError('no')"


def stored(room):
    folder = room.work / "artifacts" / "executions"
    return sorted(folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("setting, code, count", [
    ("always", GOOD, 1), ("always", BAD, 1),
    ("on_error", GOOD, 0), ("on_error", BAD, 1),
    ("never", GOOD, 0), ("never", BAD, 0),
    (None, GOOD, 0), (None, BAD, 1),  # the default is on_error
])
def test_what_is_stored_follows_the_setting(room, setting, code, count):
    support.run_json(code, room=room, env={"SANDBOX_STORE_CODE": setting})
    assert len(stored(room)) == count


def test_the_file_has_code_result_time_and_meta(room):
    result = support.run_json(BAD, room=room, env={"SANDBOX_STORE_CODE": "always"})
    (path,) = stored(room)
    kept = json.loads(path.read_text())
    assert kept["code"] == BAD
    text = json.dumps(kept)
    assert result.meta["execution_id"] in text
    assert "ValueError: no" in text
    inner = kept.get("result", kept)
    assert inner["exit_code"] == 1
    assert inner["meta"] == result.meta or kept.get("meta") == result.meta
    assert any("time" in key or "date" in key for key in kept), sorted(kept)


def test_the_name_is_timestamp_and_hash_and_the_mode_0600(room):
    support.run_json(BAD, room=room)
    (path,) = stored(room)
    assert re.fullmatch(r"\d{4}-?\d\d-?\d\d[T_-]?[\d:.,-]+Z?_[0-9a-f]{6,64}\.json", path.name)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_mode_does_not_depend_on_the_umask(room):
    process = support.start("run", "-c", BAD, room=room, umask=0)
    process.communicate(timeout=support.PATIENCE)
    (path,) = stored(room)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_runs_never_overwrite_each_other(room):
    for _ in range(3):
        support.run_json(BAD, room=room)
    assert len(stored(room)) == 3


def test_timeouts_refusals_and_syntax_errors_are_errors_too(room):
    support.run_json("while True: pass", "--timeout", "1", room=room)
    assert len(stored(room)) == 1
    support.run_json("for", room=room)
    assert len(stored(room)) == 2
    support.run_json("import os", room=room, env={"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"})
    assert len(stored(room)) == 3


TOKENS = {
    "github": "ghp_" + "a1B2" * 9,
    "openai": "sk-" + "Zz09" * 12,
    "aws": "AKIA" + "ABCD1234EFGH5678",
    "slack": "xoxb-" + "123456789012-abcdefABCDEF",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + "c2lnbmF0dXJlc2lnbmF0dXJl",
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_tokens_in_code_and_output_are_redacted(room, token):
    result = support.run_json(f"t = {token!r}\nprint(t)\nraise SystemExit(1)", room=room)
    assert result["stdout"] == token + "\n"  # the caller sees its own output as it was
    (path,) = stored(room)
    assert token not in path.read_text()
    assert "raise SystemExit(1)" in json.loads(path.read_text())["code"]


def test_values_of_secret_looking_variables_are_redacted(room):
    code = "import os\nprint('value', os.environ['MY_API_KEY'])\nPASSWORD = 'swordfish-88'\n1/0"
    result = support.run_json(code, "--env", "MY_API_KEY=plain-looking-41", "--env", "CITY=Ulm",
                              room=room)
    assert "plain-looking-41" in result["stdout"]
    (path,) = stored(room)
    text = path.read_text()
    assert "plain-looking-41" not in text
    assert "swordfish-88" not in text


def test_nothing_half_written_is_left_beside(room):
    support.run_json(BAD, room=room)
    everything = [p for p in (room.work / "artifacts").rglob("*") if p.is_file()]
    assert everything == stored(room)


def test_a_planted_link_is_not_followed(room):
    outside = room.path / "outside"
    outside.mkdir()
    (room.work / "artifacts").mkdir()
    (room.work / "artifacts" / "executions").symlink_to(outside)
    done = support.bailey("run", "-c", BAD, room=room)
    assert done.status == 1
    assert list(outside.iterdir()) == []


def test_an_artifact_that_cannot_be_written_does_not_change_the_run(room):
    room.write("artifacts", "a file in the way")
    done = support.bailey("run", "-c", GOOD, room=room, env={"SANDBOX_STORE_CODE": "always"})
    assert (done.status, done.out) == (0, b"fine\n")
    assert "artifacts" in done.stderr
