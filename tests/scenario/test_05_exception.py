"""Scenario 5: an exception is exit 1 with its full traceback, formatted for an agent."""
import support

CODE = '''def inner():
    raise ValueError("Something went wrong")

print("so far")
inner()
'''


def test_an_exception_is_exit_1_with_its_full_traceback(way):
    result = way.run_json(CODE)
    assert (result["exit_code"], result.status) == (1, 1)
    assert result["stdout"] == "so far\n"
    error = result["stderr"]
    assert error.startswith("Traceback (most recent call last):\n")
    assert error.rstrip().endswith("ValueError: Something went wrong")
    assert "in inner" in error and 'raise ValueError("Something went wrong")' in error
    assert "line 2" in error and "line 5" in error
    assert result.meta["signal"] is None and result.error is None


def test_the_traceback_shows_the_callers_source_and_nothing_of_ours():
    error = support.run_json(CODE)["stderr"]
    frames = [line for line in error.splitlines() if line.lstrip().startswith("File ")]
    assert len(frames) == 2, error
    assert all("main.py" in line for line in frames), error


def test_the_traceback_names_the_callers_file(room):
    room.write("report.py", CODE)
    done = support.bailey("run", "report.py", room=room)
    assert done.status == 1
    assert done.out == b"so far\n"
    assert 'report.py", line 5' in done.stderr


def test_the_tool_formats_it_for_an_agent():
    done = support.bailey("tool", "run_python_code", '{"code": "raise ValueError(\\"Something went '
                          'wrong\\")"}')
    assert done.status == 0
    assert "ValueError: Something went wrong" in done.stdout
    assert "Traceback (most recent call last):" in done.stdout


def test_a_chained_exception_keeps_both_parts():
    code = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('second') from e"
    error = support.run_json(code)["stderr"]
    for part in ("ZeroDivisionError", "direct cause", "KeyError: 'second'"):
        assert part in error


def test_a_syntax_error_is_reported_as_one(way):
    result = way.run_json("print('x'\nfor")
    assert (result["exit_code"], result.status, result["stdout"]) == (1, 1, "")
    assert "SyntaxError" in result["stderr"] and "line 1" in result["stderr"]
    assert result.error is None
