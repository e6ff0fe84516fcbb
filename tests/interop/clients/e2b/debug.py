"""debug.py - E2B_DEBUG=true: one sandbox at localhost:49983 and 49999, no key, nothing created or ended."""
from e2b_code_interpreter import Sandbox


def test_the_shared_sandbox():
    sandbox = Sandbox.create()
    assert sandbox.sandbox_id == "debug_sandbox_id"
    assert sandbox.commands.run("echo hi > shared; cat shared").stdout == "hi\n"
    assert sandbox.files.read("shared") == "hi\n"
    assert sandbox.run_code("open('/home/user/shared').read()").text == "hi\\n"
    context = sandbox.create_code_context()
    assert sandbox.run_code("6 * 7", context=context).text == "42"
    again = Sandbox.create()
    assert again.files.read("shared") == "hi\n" and again.is_running() is True
