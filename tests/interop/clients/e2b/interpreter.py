"""interpreter.py - e2b_code_interpreter: code, contexts, values, charts, languages."""
import asyncio
import base64

import pytest
from e2b import NotFoundException, TimeoutException
from e2b_code_interpreter import AsyncSandbox, Sandbox


@pytest.fixture(scope="module")
def sandbox():
    made = Sandbox.create(envs={"FROM_SANDBOX": "yes"})
    yield made
    made.kill()


def test_variables_and_counts_are_kept(sandbox):
    first = sandbox.run_code("x = 41")
    second = sandbox.run_code("x += 1; x")
    assert second.text == "42" and second.results[0].is_main_result
    assert second.execution_count == first.execution_count + 1


def test_what_is_printed_comes_as_it_is(sandbox):
    seen = []
    done = sandbox.run_code("import sys\nprint('hällo €🙂')\nprint('bad', file=sys.stderr)", on_stdout=lambda m: seen.append(m.line))
    assert done.logs.stdout == ["hällo €🙂\n"] and done.logs.stderr == ["bad\n"] and seen == ["hällo €🙂\n"]
    assert len("".join(sandbox.run_code("print('€' * 300000)").logs.stdout)) == 300001


def test_an_error_has_name_value_and_traceback(sandbox):
    seen = []
    error = sandbox.run_code("undefined_name", on_error=seen.append).error
    assert (error.name, error.value) == ("NameError", "name 'undefined_name' is not defined")
    assert "undefined_name" in error.traceback and seen[0].name == "NameError"


def test_values_of_every_kind(sandbox):
    done = sandbox.run_code("from IPython.display import HTML\nHTML('<b>x</b>')") if False else sandbox.run_code(
        "class Both:\n def _repr_html_(self): return '<b>x</b>'\n def _repr_markdown_(self): return '*x*'\n"
        " def _repr_latex_(self): return '$x$'\n def _repr_svg_(self): return '<svg/>'\n def __repr__(self): return 'both'\nBoth()")
    [value] = done.results
    assert (value.text, value.html, value.markdown, value.latex, value.svg) == ("both", "<b>x</b>", "*x*", "$x$", "<svg/>")
    assert sandbox.run_code("'quoted'").text == "quoted"
    shown = sandbox.run_code("display(1)\ndisplay('two')\n3").results
    assert [(one.text, one.is_main_result) for one in shown] == [("1", False), ("two", False), ("3", True)]
    assert sandbox.run_code("display({'application/json': {'a': [1]}}, raw=True)").results[0].json == {"a": [1]}


def test_folder_environment_and_shell(sandbox):
    assert sandbox.run_code("import os; os.getcwd()").text == "/home/user"
    assert sandbox.run_code("!pwd").logs.stdout == ["/home/user\n"]
    assert sandbox.run_code("os.environ['FROM_SANDBOX']").text == "yes"
    assert sandbox.run_code("os.environ['ONE']", envs={"ONE": "1"}).text == "1"
    assert sandbox.run_code("os.environ.get('ONE', 'gone')").text == "gone"


def test_contexts_are_apart(sandbox):
    one, two = sandbox.create_code_context(), sandbox.create_code_context(cwd="/tmp")
    assert (two.language, two.cwd) == ("python", "/tmp")
    sandbox.run_code("y = 1", context=one)
    assert sandbox.run_code("y", context=one).text == "1"
    assert sandbox.run_code("y", context=two).error.name == "NameError"
    assert sandbox.run_code("import os; os.getcwd()", context=two).text == "/tmp"
    listed = sandbox.list_code_contexts()
    assert {"python", "javascript"} <= {context.language for context in listed}
    assert [context.id for context in listed][-2:] == [one.id, two.id], "the newest last"
    sandbox.restart_code_context(one)
    assert sandbox.run_code("y", context=one).error.name == "NameError"
    sandbox.remove_code_context(one)
    with pytest.raises(NotFoundException):
        sandbox.run_code("1", context=one)
    with pytest.raises(NotFoundException):
        sandbox.remove_code_context("c999")


def test_other_languages(sandbox):
    assert sandbox.run_code("echo from $0; cd /tmp", language="bash").logs.stdout
    done = sandbox.run_code("const a = 20; a * 2 + 2", language="js")
    if done.error is None:
        assert done.text == "42"
        assert sandbox.run_code("a + 1", language="javascript").text == "21"
    with pytest.raises(Exception, match="not supported"):
        sandbox.run_code("1", language="cobol")


def test_a_client_that_gives_up_interrupts_its_code(sandbox):
    sandbox.run_code("before = 1")
    with pytest.raises(TimeoutException):
        sandbox.run_code("while True: pass", timeout=1)
    assert sandbox.run_code("before + 1").text == "2", "the variables are still there"


def test_a_kernel_that_dies_is_told_and_replaced(sandbox):
    context = sandbox.create_code_context()
    assert sandbox.run_code("import os; os._exit(7)", context=context).error is not None
    assert sandbox.run_code("1 + 1", context=context).text == "2"


def test_a_sandbox_that_is_killed_during_code():
    made = Sandbox.create()

    async def main():
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(None, lambda: made.run_code("import time\nprint(1, flush=True)\ntime.sleep(1000)"))
        while not made.commands.run("pgrep -f kernel || true").stdout:
            pass
        made.kill()
        with pytest.raises(TimeoutException, match="killed|sandbox"):
            await running
    asyncio.run(main())


def test_charts_and_frames(sandbox):
    if sandbox.run_code("import matplotlib, pandas").error:
        pytest.skip("this sandbox has no matplotlib or no pandas")
    [value] = sandbox.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='l')\nplt.title('t')\n"
                               "plt.xlabel('x (m)')\nplt.show()").results
    assert base64.b64decode(value.png)[:4] == b"\x89PNG" and value.text
    assert value.chart.type.value == "line" and value.chart.title == "t" and value.chart.x_unit == "m"
    assert value.chart.elements[0].points == [(1.0, 3.0), (2.0, 4.0)]
    frame = sandbox.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})").results[0]
    assert frame.data == {"a": [1, 2], "b": ["x", "y"]} and "<table" in frame.html


def test_async_code():
    async def main():
        made = await AsyncSandbox.create()
        try:
            assert (await made.run_code("6 * 7")).text == "42"
        finally:
            await made.kill()
    asyncio.run(main())
