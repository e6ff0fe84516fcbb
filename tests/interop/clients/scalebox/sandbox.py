"""sandbox.py - create, run_code, files, commands, pty of the PyPI package, which speaks binary Connect over HTTPS."""
import ssl
import urllib.error
import urllib.request

import pytest
from scalebox.code_interpreter import Sandbox
from scalebox.exceptions import NotFoundException, SandboxException
from scalebox.sandbox.commands.command_handle import CommandExitException, PtySize

OLD = not hasattr(Sandbox, "get_regions")  # 1.0.1: methods of a sandbox that call the control plane raise TypeError


@pytest.fixture(scope="module")
def sandbox():
    made = Sandbox.create(timeout=300, metadata={"a key": "a b"}, envs={"COLOUR": "blue"})
    yield made
    Sandbox.kill(made.sandbox_id)


def test_a_sandbox_is_made_told_about_and_listed(sandbox):
    assert sandbox.is_running()
    told = Sandbox.get_info(sandbox.sandbox_id)
    assert (told.sandbox_id, told.template_id, told.timeout) == (sandbox.sandbox_id, "code-interpreter", 300)
    listed = {one.sandbox_id: one for one in Sandbox.list()}
    assert listed[sandbox.sandbox_id].metadata == {"a key": "a b"}
    assert listed[sandbox.sandbox_id].state == "running"


def test_code_has_output_results_and_errors(sandbox):
    seen = []
    done = sandbox.run_code("x = 41; print('hällo'); x + 1", on_stdout=lambda one: seen.append(one.content))
    assert (done.results[0].text, done.results[0].is_main_result, done.execution_count) == ("42", True, 1)
    assert done.logs.stdout == seen == ["hällo\n"]
    assert sandbox.run_code("x").results[0].text == "41"  # the context of the sandbox keeps its variables
    failed = sandbox.run_code("1/0")
    assert (failed.error.name, failed.error.value) == ("ZeroDivisionError", "division by zero")
    assert sandbox.run_code("echo $((1 + 2))", language="bash").logs.stdout == ["3\n"]
    assert sandbox.run_code("import os; os.environ['A']", envs={"A": "b"}).results[0].text == "b"


def test_a_context_has_variables_of_its_own(sandbox):
    context = sandbox.create_code_context(cwd="/tmp", language="python")
    assert context.cwd == "/tmp"
    sandbox.run_code("y = 5", context=context)
    assert sandbox.run_code("y", context=context).results[0].text == "5"
    assert sandbox.run_code("y").error.name == "NameError"
    sandbox.destroy_context(context)
    with pytest.raises(Exception, match="no context"):
        sandbox.run_code("y", context=context)


def test_files_are_written_read_listed_moved_and_removed(sandbox):
    content = bytes(range(256)) * 1000
    assert sandbox.files.write("/home/user/a/b.bin", content).path == "/home/user/a/b.bin"
    assert sandbox.files.read("/home/user/a/b.bin", format="bytes") == content
    sandbox.files.write("relative.txt", "größe")
    assert sandbox.files.read("relative.txt") == "größe"
    [entry] = sandbox.files.list("/home/user/a")
    assert (entry.name, entry.type.value, entry.path, entry.size) == ("b.bin", "file", "/home/user/a/b.bin", 256000)
    assert entry.permissions == "-rw-r--r--" and entry.modified_time.year >= 2024
    assert (sandbox.files.make_dir("/home/user/new"), sandbox.files.make_dir("/home/user/new")) == (True, False)
    assert sandbox.files.rename("/home/user/a/b.bin", "/home/user/new/c.bin").path == "/home/user/new/c.bin"
    assert (sandbox.files.exists("/home/user/new/c.bin"), sandbox.files.exists("/home/user/a/b.bin")) == (True, False)
    sandbox.files.remove("/home/user/new/c.bin")
    assert not sandbox.files.exists("/home/user/new/c.bin")
    with pytest.raises(NotFoundException, match="there is no '/home/user/none'"):
        sandbox.files.read("/home/user/none")


def test_a_signed_address_opens_one_file(sandbox):
    context = ssl.create_default_context()
    sandbox.files.write("/home/user/signed.txt", "signed")
    address = sandbox.download_url("/home/user/signed.txt", use_signature_expiration=60)
    assert urllib.request.urlopen(address, context=context).read() == b"signed"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(address.replace("signed.txt", "relative.txt"), context=context)


def test_commands_have_output_status_folder_and_environment(sandbox):
    done = sandbox.commands.run("echo out; echo bad >&2; pwd; whoami; echo $COLOUR $A", envs={"A": "1"}, cwd="/tmp")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "out\n/tmp\nuser\nblue 1\n", "bad\n")
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("exit 3")
    assert caught.value.exit_code == 3
    assert len(sandbox.commands.run("seq 1 100000").stdout) == 588895


def test_a_command_that_runs_is_heard_listed_fed_and_killed(sandbox):
    command = sandbox.commands._start("read line; echo got $line; exec sleep 1000")
    events = iter(command)
    assert command.pid in [one.pid for one in sandbox.commands.list()]
    sandbox.commands.send_stdin(command.pid, "word\n")
    assert next(events)[0] == "got word\n"  # at once, though the command goes on
    assert command.kill()
    assert not sandbox.commands.kill(99999)


def test_a_terminal(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=30, cols=100))
    sandbox.pty.resize(terminal.pid, PtySize(rows=40, cols=120))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    heard = []
    assert terminal.wait(on_pty=heard.append).exit_code == 0
    assert b"40 120" in b"".join(heard)


def test_metrics_timeout_and_pause(sandbox):
    [sample] = Sandbox.get_metrics(sandbox.sandbox_id) if OLD else sandbox.get_metrics()
    assert sample.mem_total > 0 and sample.disk_total > 0 and sample.cpu_count > 0
    Sandbox.set_timeout(sandbox.sandbox_id, 120)
    assert Sandbox.get_info(sandbox.sandbox_id).timeout <= 300
    own = Sandbox.create(timeout=120)
    Sandbox.beta_pause(own.sandbox_id)
    assert not own.is_running()
    assert Sandbox.kill(own.sandbox_id) and not Sandbox.kill(own.sandbox_id)


def test_what_is_not_here_is_an_error_with_a_sentence():
    if not OLD:
        with pytest.raises(SandboxException, match="501: this server is one machine"):
            Sandbox.get_regions()
    with pytest.raises(SandboxException, match="object_storage: this server mounts no object storage"):
        Sandbox.create(object_storage={"uri": "s3://b"})
    with pytest.raises(SandboxException, match="404"):
        Sandbox.create(template="no-such-template")
    with pytest.raises(SandboxException, match="401: this key is not valid"):
        Sandbox.list(api_key="wrong")
