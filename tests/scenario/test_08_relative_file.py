"""Scenario 8: a file written by a relative name lands in the box, not in the caller's folder."""
import os

import support


def test_a_relative_file_lands_in_the_box_and_is_gone_afterwards(way):
    room = way.room()
    result = way.run_json("open('note.txt', 'w').write('hi'); print(open('note.txt').read())",
                          room=room)
    assert (result["stdout"], result["exit_code"]) == ("hi\n", 0)
    assert os.listdir(room.work) == []
    again = way.run_json("import os; print(os.listdir('.'))", room=room)
    assert "note.txt" not in again["stdout"]


def test_the_working_folder_is_workspace(walled):
    assert walled.run_json("import os; print(os.getcwd())")["stdout"] == "/workspace\n"


def test_the_callers_folder_cannot_be_written_by_its_full_name(way):
    room = way.room()
    code = (f"try:\n    open({str(room.work / 'planted')!r}, 'w')\n"
            "except OSError as e:\n    print('refused')")
    assert way.run_json(code, room=room)["stdout"] == "refused\n"
    assert os.listdir(room.work) == []


def test_the_callers_files_cannot_be_read_by_their_full_name(way):
    room = way.room()
    secret = room.write("secret.txt", "canary-7")
    code = f"try:\n    print(open({str(secret)!r}).read())\nexcept OSError:\n    print('refused')"
    assert way.run_json(code, room=room)["stdout"] == "refused\n"


def test_the_script_itself_stays_as_it_was(room):
    path = room.write("self.py", "import sys\nopen(sys.argv[0], 'a').write('changed')\n")
    support.bailey("run", "self.py", room=room, env={"SANDBOX_STORE_CODE": "never"})
    assert path.read_text().count("changed") == 1  # only in its own source text
    assert os.listdir(room.work) == ["self.py"]
