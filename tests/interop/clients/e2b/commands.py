"""commands.py - sandbox.commands: run, background, stdin, signals, list, connect, environment."""
import asyncio

import pytest
from e2b import AsyncSandbox, CommandExitException, InvalidArgumentException, NotFoundException, TimeoutException


def test_output_and_status_are_the_commands_own(sandbox):
    done = sandbox.commands.run("echo hällo; echo bad >&2")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "hällo\n", "bad\n") and not done.error


def test_a_failing_command_raises_with_its_status(sandbox):
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("echo out; exit 3")
    assert (caught.value.exit_code, caught.value.stdout, caught.value.error) == (3, "out\n", "exit status 3")


def test_a_command_runs_as_user_in_its_home(sandbox):
    assert sandbox.commands.run("pwd; whoami; echo $HOME").stdout == "/home/user\nuser\n/home/user\n"


def test_folder_and_environment_are_those_that_were_given(sandbox):
    done = sandbox.commands.run("echo $COLOUR; pwd; echo $E2B_SANDBOX", envs={"COLOUR": "blue"}, cwd="/tmp")
    assert done.stdout == "blue\n/tmp\ntrue\n"
    assert sandbox.commands.run("echo [$COLOUR]").stdout == "[]\n"


def test_a_folder_that_is_missing_is_said_so(sandbox):
    with pytest.raises(InvalidArgumentException, match="cwd '/nowhere' does not exist"):
        sandbox.commands.run("true", cwd="/nowhere")


def test_root_is_refused_with_a_sentence_and_an_unknown_user_too(sandbox):
    with pytest.raises(Exception, match="cannot give the user 'root'"):
        sandbox.commands.run("true", user="root")
    with pytest.raises(Exception, match="invalid username: 'nobody-here'"):
        sandbox.commands.run("true", user="nobody-here")


def test_much_output_comes_whole(sandbox):
    done = sandbox.commands.run("seq 1 200000")
    assert done.stdout == "".join(f"{i}\n" for i in range(1, 200001))


def test_pieces_come_as_they_are_written(sandbox):
    seen = []
    sandbox.commands.run("echo one; read -t 0.2 x < /dev/zero; echo two >&2", on_stdout=lambda t: seen.append(("out", t)),
                         on_stderr=lambda t: seen.append(("err", t)))
    assert ("out", "one\n") in seen and ("err", "two\n") in seen


def test_a_command_in_the_background_is_listed_and_killed(sandbox):
    handle = sandbox.commands.run("exec sleep 1000", background=True)
    [listed] = [one for one in sandbox.commands.list() if one.pid == handle.pid]
    assert (listed.cmd, listed.args) == ("/bin/bash", ["-l", "-c", "exec sleep 1000"])
    assert sandbox.commands.run(f"cat /proc/{handle.pid}/comm").stdout == "sleep\n", "the pid is the box's"
    assert handle.kill() is True
    with pytest.raises(CommandExitException) as caught:
        handle.wait()
    assert caught.value.exit_code == -1 and caught.value.error == "signal: killed"
    assert sandbox.commands.kill(handle.pid) is False
    assert handle.pid not in [one.pid for one in sandbox.commands.list()]
    assert sandbox.commands.kill(999999) is False


def test_standard_input_is_written_and_closed(sandbox):
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "hällo\n")
    sandbox.commands.send_stdin(handle.pid, "more")
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "hällo\nmore"


def test_a_stream_of_input_arrives_in_order(sandbox):
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    if not hasattr(sandbox.commands, "stream_input"):
        pytest.skip("this version of the client has no stream_input")
    sandbox.commands.stream_input(handle.pid, [f"{i}\n" for i in range(500)])
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "".join(f"{i}\n" for i in range(500))


def test_without_stdin_a_command_reads_the_end_at_once(sandbox):
    assert sandbox.commands.run("cat; echo end").stdout == "end\n"


def test_connecting_to_a_command_gives_what_comes_then(sandbox):
    handle = sandbox.commands.run("echo first; read line; echo got $line", background=True, stdin=True)
    for out, _, _ in handle:
        if out:
            break
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)
    sandbox.commands.send_stdin(handle.pid, "word\n")
    assert again.wait().stdout == "got word\n"


def test_connecting_to_no_command_is_not_found(sandbox):
    with pytest.raises(NotFoundException):
        sandbox.commands.connect(999999)


def test_a_command_is_ended_at_its_timeout(sandbox):
    with pytest.raises(TimeoutException):
        sandbox.commands.run("sleep 98765", timeout=0.3)
    # The process itself is ended, not only the wait for it: this returns when it is gone.
    sandbox.commands.run("while pgrep -f 'sleep 9876[5]'; do :; done")


def test_a_sandbox_that_is_killed_under_a_command_is_told_apart(own):
    handle = own.commands.run("sleep 1000", background=True)
    own.kill()
    with pytest.raises(Exception, match="killed or reached its end of life") as caught:
        handle.wait()
    assert isinstance(caught.value, TimeoutException) or "NotRunning" in type(caught.value).__name__
    assert own.is_running() is False
    with pytest.raises(Exception, match="[Ss]andbox"):
        own.commands.run("true")


def test_async_commands():
    async def main():
        made = await AsyncSandbox.create()
        try:
            both = await asyncio.gather(made.commands.run("echo a"), made.commands.run("echo b"))
            assert [one.stdout for one in both] == ["a\n", "b\n"]
            handle = await made.commands.run("cat", background=True, stdin=True)
            await made.commands.send_stdin(handle.pid, "x")
            await made.commands.close_stdin(handle.pid)
            assert (await handle.wait()).stdout == "x"
            with pytest.raises(CommandExitException):
                await made.commands.run("false")
        finally:
            assert await made.kill() is True
    asyncio.run(main())
