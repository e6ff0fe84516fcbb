"""pausing.py - sandboxes are paused and go on: the same processes, files and memory."""
import time

import pytest
from e2b import Sandbox, SandboxException, SandboxQuery, SandboxState

COUNT = "i=0; while :; do i=$((i + 1)); echo $i; sleep 0.05; done"


def pause(sandbox):
    return sandbox.pause() if hasattr(sandbox, "pause") else sandbox.beta_pause()


def state(sandbox):
    return Sandbox.get_info(sandbox.sandbox_id).state


def test_the_same_processes_go_on(own):
    counter = own.commands.run(f"({COUNT}) > counted", background=True)
    own.files.write("kept", "kept")
    first = pause(own)
    assert first in (True, None, own.sandbox_id) and state(own) == SandboxState.PAUSED
    assert own.is_running() is False
    assert not pause(own) or first is not True, "False: it was paused already"
    listed = Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items()
    assert own.sandbox_id in [one.sandbox_id for one in listed]
    again = Sandbox.connect(own.sandbox_id, timeout=100)
    assert again.is_running() is True and state(own) == SandboxState.RUNNING
    assert counter.pid in [one.pid for one in again.commands.list()]
    before = again.files.read("counted")
    while again.files.read("counted") == before:
        time.sleep(0.05)
    assert again.files.read("kept") == "kept" and again.files.read("counted").startswith(before)
    pause(again)
    assert again.kill() is True and again.kill() is False


def test_a_stream_ends_and_is_found_again(own):
    handle = own.commands.run("echo here; read line; echo got $line", background=True, stdin=True)
    for out, _, _ in handle:
        if out:
            break
    pause(own)
    with pytest.raises(SandboxException):
        handle.wait()
    again = Sandbox.connect(own.sandbox_id)
    found = again.commands.connect(handle.pid)
    again.commands.send_stdin(handle.pid, "word\n")
    assert found.wait().stdout == "got word\n"


def paused_by_its_timeout(resumes):
    try:
        made = Sandbox.create(timeout=1, lifecycle={"on_timeout": "pause", "auto_resume": resumes})
    except TypeError:
        pytest.skip("this version of the client has no lifecycle")
    while state(made) != SandboxState.PAUSED:
        time.sleep(0.05)
    return made


def test_traffic_resumes_a_sandbox_that_its_timeout_paused():
    made = paused_by_its_timeout(True)
    assert made.commands.run("echo back").stdout == "back\n" and state(made) == SandboxState.RUNNING
    made.kill()


def test_without_auto_resume_only_connecting_does():
    made = paused_by_its_timeout(False)
    with pytest.raises(SandboxException):
        made.commands.run("echo back")
    assert Sandbox.connect(made.sandbox_id).commands.run("echo back").stdout == "back\n"
    made.kill()


def test_what_needs_a_snapshot_is_refused_with_a_sentence(own):
    if "keep_memory" not in Sandbox.pause.__doc__ if hasattr(Sandbox, "pause") else True:
        pytest.skip("this version of the client keeps the memory always")
    with pytest.raises(SandboxException, match="keeps the memory"):
        own.pause(keep_memory=False)
    assert own.is_running() is True
