"""Notebooks run their code cells; files of other languages and data are refused in a sentence."""
import json

import pytest
import support
from daemon_fixture import DaemonFixture


def notebook(*cells, language="python"):
    """A notebook as Jupyter writes it, with a cell of text before each code cell."""
    both = []
    for cell in cells:
        both.append({"cell_type": "markdown", "metadata": {}, "source": ["# not code\n"]})
        both.append({"cell_type": "code", "metadata": {}, "execution_count": 7,
                     "outputs": [{"output_type": "stream", "name": "stdout", "text": ["old\n"]}],
                     "source": cell.splitlines(keepends=True)})
    kernel = {"display_name": language, "language": language, "name": language}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel},
                       "cells": both})


def test_a_notebook_runs_its_code_cells_in_order(room):
    room.write("n.ipynb", notebook("%matplotlib inline\nx = 20", "def f(y):\n    return x + y",
                                   "print(f(22))"))
    done = support.bailey("run", "n.ipynb", room=room)
    assert (done.status, done.stdout, done.stderr) == (0, "42\n", "")


@pytest.mark.parametrize("text, words", [
    (notebook("x = 1", "!ls"), ("code cell 2", "!ls", "bailey code")),
    (notebook("x <- 1", language="R"), ("language 'R'", "Python")),
    ("x = 1", ("not JSON",)),
    (notebook(), ("no code cell",)),
], ids=["shell", "R", "python text", "empty"])
def test_a_notebook_that_cannot_run_says_why(room, text, words):
    room.write("n.ipynb", text)
    done = support.bailey("run", "n.ipynb", room=room)
    assert (done.status, done.out) == (125, b"")
    for word in ("n.ipynb", *words):
        assert word in done.stderr, done


@pytest.mark.parametrize("name, kind", [("a.R", "R"), ("a.sql", "SQL"), ("a.html", "HTML"),
                                        ("a.rb", "Ruby"), ("a.csv", "CSV")])
def test_a_file_of_another_kind_is_refused_before_anything_runs(room, name, kind):
    room.write(name, "print('ran')")
    done = support.bailey("run", name, room=room)
    assert (done.status, done.out) == (125, b"")
    assert f"'{name}' is {kind}" in done.stderr and "--language" in done.stderr
    done = support.bailey("run", "--language", "python", name, room=room)
    assert (done.status, done.stdout) == (0, "ran\n"), "the language named is believed"


def test_a_file_without_an_extension_is_python(room):
    room.write("script", "print('ran')")
    assert support.bailey("run", "script", room=room).stdout == "ran\n"


def test_in_a_session_a_notebook_runs_cell_by_cell_until_one_fails(room):
    daemon = DaemonFixture()
    try:
        session = daemon.session()
        path = room.write("n.ipynb", notebook("!echo from bash", "x = 1\nx + 1", "1 / 0", "print('no')"))
        done = daemon.call("code", "-s", session, str(path))
        assert done.status == 1 and done.stdout == "from bash\n2\n", done
        assert "ZeroDivisionError" in done.stderr and "stopped at code cell 3 of 4" in done.stderr
        path = room.write("a.R", "print('ran')")
        done = daemon.call("code", "-s", session, str(path))
        assert done.status == 125 and "is R" in done.stderr
    finally:
        daemon.close()
