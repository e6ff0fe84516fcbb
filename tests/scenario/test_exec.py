"""bailey exec: any program of the box's root, in the same box, with the same result."""
import support


def test_a_program_by_its_path(way):
    done = way.bailey("exec", "--", "/bin/echo", "hi", "there")
    assert (done.status, done.out) == (0, b"hi there\n")


def test_a_program_by_its_name_is_found_in_the_boxs_path(way):
    assert way.bailey("exec", "--", "echo", "hi").out == b"hi\n"


def test_true_and_false_and_their_results(way):
    true = way.exec_json("/bin/true")
    false = way.exec_json("/bin/false")
    assert (true["exit_code"], true.status) == (0, 0)
    assert (false["exit_code"], false.status) == (1, 1)


def test_options_are_those_of_run(room):
    room.write("f", "canary")
    result = support.exec_json("/bin/sh", "-c", "cat f; echo $A; cat", room=room,
                               options=["--file", "f", "--env", "A=b", "--stdin"], stdin=b"in\n")
    assert result["stdout"] == "canaryb\nin\n"


def test_a_program_that_is_not_there(way):
    result = way.exec_json("no-such-program")
    assert (result["exit_code"], result.status) == (127, 127)
    assert result.error["code"] == "command_not_found"
    assert "no-such-program" in result.error["message"]
    assert result["stdout"] == ""


def test_a_path_that_is_not_there():
    result = support.exec_json("/no/such/program")
    assert result.status == 127
    assert "/no/such/program" in result.error["message"]


def test_a_file_that_is_no_program(room):
    room.write("plain.txt", "just text")
    result = support.exec_json("./plain.txt", room=room, options=["--file", "plain.txt"])
    assert result["exit_code"] == 1
    assert result.error["code"] == "not_executable", result
    assert result.status in (125, 126)


def test_nothing_to_execute_is_bad_input():
    for args in (["exec"], ["exec", "--"], ["exec", "--json", "--"]):
        done = support.bailey(*args)
        assert done.status == 125, args


def test_an_empty_name_is_bad_input_or_not_found():
    assert support.bailey("exec", "--", "").status in (125, 127)


def test_timeout_and_signals_as_in_run():
    result = support.exec_json("/bin/sh", "-c", "echo part; exec sleep 600",
                               options=["--timeout", "1"])
    assert (result["exit_code"], result.status, result["stdout"]) == (-1, 124, "part\n")
    assert support.exec_json("/bin/sh", "-c", "kill -9 $$")["exit_code"] == 137


def test_arguments_arrive_byte_for_byte():
    words = ["", "a b", "$HOME", "*", "\n", "é"]
    done = support.bailey("exec", "--", "/usr/bin/printf", "%s|", *words)
    assert done.stdout == "|a b|$HOME|*|\n|é|"
