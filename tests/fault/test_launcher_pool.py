"""Boxes made beside each other and ahead: who is told what, and that nothing is left."""
import os
import signal
import socket

import daemon
import pytest
import support
from daemon import Daemon, is_alive

KEYS = {"many_0", "many_1", "many_3", "many_4", "many_6", "many_7"}  # every third has no data


@pytest.fixture(autouse=True)
def _swept(_nothing_is_left):
    yield
    support.reap_orphans()
    daemon.sweep()


def listed(running):
    """Number to key of what the broker knows."""
    return dict(word.split(":") for word in running.ask("list").split()[3:])


def pooled(running):
    return int(running.ask("look").split()[1])


def filled(running, count):
    support.wait_until(lambda: pooled(running) == count, f"{count} boxes stand ready")


def made(answer):
    words = answer.split()
    assert words[0] == "made", answer
    return words[2], words[-1] == "1"


def folders(running, name="data"):
    return sorted(os.listdir(running.state / name))


def test_many_at_once():
    """More than are made at once; some fail meanwhile, and cost the others nothing."""
    running = Daemon(support.Way("root"))
    answers = [a.split(":") for a in running.ask("many", 30).split()]
    refused = {int(serial) for word, serial, _ in answers if word == "refused"}
    assert refused == set(range(102, 130, 3))
    assert {a[2] for a in answers if a[0] == "refused"} == {"not_found"}
    assert {int(a[1]) for a in answers} == set(range(100, 130))
    numbers = {a[2] for a in answers if a[0] == "made"}
    assert len(numbers) == 20 and set(listed(running)) == numbers
    assert len(running.wardens) == 20
    for number in numbers:
        running.ask("end", number)
    assert running.wardens == [] and listed(running) == {}
    assert running.end() == (0, "")


def test_a_broker_that_goes_while_boxes_are_made():
    """The next one is shown all that came of it, each once, and nobody is forgotten."""
    running = Daemon(support.Way("root"))
    for turn in range(1, 6):
        assert running.ask("vanish", 9) == ""
        boxes = listed(running)
        assert set(boxes.values()) <= KEYS and len(set(boxes.values())) == len(boxes), boxes
        assert len(running.wardens) == len(boxes)
        for number in boxes:
            running.ask("end", number)
        assert running.wardens == [], turn
    code, err = running.end()
    assert code == 0 and err.count("starting it again") == 5, err


def test_a_launcher_killed_while_boxes_are_made():
    running = Daemon(support.Way("root"), env={"POOL": "4"})
    everybody = running.everybody()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(running.socket))
        client.sendall(b"many 30\n")
        support.wait_until(lambda: running.wardens, "some are on their way")
        everybody += running.everybody()
        os.kill(running.launcher, signal.SIGKILL)
    support.wait_until(lambda: not any(map(is_alive, everybody)), "everybody is gone")
    assert running.wait()[0] == 125


def test_no_pool_unless_it_is_asked_for():
    running = Daemon(support.Way("root"))
    for key in ("one", "two"):
        assert not made(running.ask("make", key))[1]
    assert running.ask("look") == "pooled 0 of 0 memory 0"
    assert len(running.wardens) == 2
    assert running.end() == (0, "")


def test_taken_filled_and_emptied(walled):
    running = Daemon(walled, env={"POOL": "2"})
    assert pooled(running) == 0, "nothing before the first demand"
    answer = running.ask("make", "first")
    numbers = [made(answer)]
    filled(running, 1)
    for key in ("second", "third"):
        numbers.append(made(running.ask("make", key)))
    assert numbers[0][1] is False and numbers[1][1] is True
    filled(running, 2)  # not the three that were asked for
    boxes = listed(running)
    assert sorted(boxes.values()) == ["first", "second", "third"]
    assert len(running.wardens) == 5
    memory = int(running.ask("look").split()[-1])
    assert (memory > 0) == (" group 0 " not in answer), (memory, answer)
    for number, _ in numbers:
        running.ask("end", number)
    assert len(running.wardens) == 2
    assert running.end() == (0, "")


def test_nobody_is_shown_what_is_made_ahead():
    running = Daemon(support.Way("root"), env={"POOL": "2"})
    number, _ = made(running.ask("make", "mine"))
    filled(running, 1)
    warden = set(running.wardens)
    broker = running.broker
    os.kill(broker, signal.SIGKILL)
    support.wait_until(lambda: not is_alive(broker), "the broker is gone")
    assert listed(running) == {number: "mine"}
    for guess in range(int(number) + 1, int(number) + 5):  # and guessing does not help
        assert running.ask("end", guess) == f"{guess} cpu_us 0 memory 0 oom 0 asked 1"
        assert running.ask("usage", guess) == f"{guess} cpu_us 0 memory 0 oom 0 asked 0"
        assert running.ask("kernel", guess) == f"kernel {guess} 5 -3"
    assert set(running.wardens) == warden and pooled(running) == 1
    assert made(running.ask("make", "other"))[1] is True
    assert sorted(listed(running).values()) == ["mine", "other"]
    assert running.end()[0] == 0


def test_one_that_dies_on_its_shelf():
    running = Daemon(support.Way("root"), env={"POOL": "1"})
    made(running.ask("make", "mine"))
    filled(running, 1)
    mine, idle = sorted(running.wardens)  # in the order in which they were made
    os.kill(idle, signal.SIGKILL)
    support.wait_until(lambda: not is_alive(idle), "it is gone")
    filled(running, 1)
    assert listed(running).keys() == {"1"}
    assert mine in running.wardens and len(running.wardens) == 2
    assert running.end() == (0, "")


def test_a_session_gets_its_folders():
    """Made before its session: files given before and after are seen at /tmp/data."""
    running = Daemon(support.Way("root"), env={"POOL": "2"})
    made(running.ask("session", "s_first"))
    filled(running, 1)
    before = set(running.wardens)
    assert running.ask("data", "s_second") == "s_second/0.csv"
    assert [n for n in folders(running) if n.startswith("p_")]
    assert made(running.ask("session", "s_second"))[1] is True
    filled(running, 2)
    assert running.ask("data", "s_second") == "s_second/1.csv"
    seen = [sorted(os.listdir(f"/proc/{pid}/root/tmp/data")) for pid in before]
    assert sorted(seen) == [[], ["0.csv", "1.csv"]], seen
    owner = os.stat(running.state / "data").st_uid
    for name in ("data", "packages"):
        assert os.stat(running.state / name / "s_second").st_uid == owner
    assert len(folders(running)) == 4 and len(folders(running, "packages")) == 4
    assert running.end() == (0, "")
    assert folders(running) == folders(running, "packages") == ["s_first", "s_second"]


def test_folders_of_a_killed_daemon_are_swept():
    running = Daemon(support.Way("root"), env={"POOL": "1"})
    made(running.ask("session", "s_first"))
    filled(running, 1)
    launcher = running.launcher
    running.process.kill()
    running.wait()
    support.wait_until(lambda: not is_alive(launcher), "the launcher has ended with its supervisor")
    assert [n for n in folders(running) if n.startswith("p_")]
    again = Daemon(support.Way("root"), env={"POOL": "1"}, room=running.room)
    assert folders(again) == folders(again, "packages") == ["s_first"]
    assert again.end() == (0, "")


def test_more_datasets_than_are_moved():
    """Such a session has a box of its own, and everything in its place."""
    running = Daemon(support.Way("root"), env={"POOL": "1"})
    made(running.ask("session", "s_first"))
    filled(running, 1)
    for i in range(70):
        running.ask("data", "s_second")
    assert made(running.ask("session", "s_second"))[1] is False
    assert len(os.listdir(running.state / "data" / "s_second")) == 70
    assert running.end() == (0, "")
    assert folders(running) == ["s_first", "s_second"]


def test_stopping_empties_the_pool():
    running = Daemon(support.Way("root"), env={"POOL": "3"})
    for key in ("one", "two", "three"):
        made(running.ask("make", key))
    filled(running, 3)
    everybody = running.everybody()
    assert running.end() == (0, "")
    assert not any(map(is_alive, everybody))
