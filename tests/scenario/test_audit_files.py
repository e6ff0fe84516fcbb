"""`bailey audit verify` shows what was done to the files; new files and old ones by configuration.

One daemon makes several files of lines; each test spoils a copy of them, without a daemon.
"""
import json
import shutil

import pytest

import serve
import support

NEWEST = "audit.jsonl"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders of a daemon that has written three files and keeps them."""
    kept = tmp_path_factory.mktemp("audit")
    with serve.Daemon({"SANDBOX_AUDIT_SIZE": "1m", "SANDBOX_AUDIT_KEEP": 9,
                       "SANDBOX_STORE_CODE": "always"}) as daemon:
        for number in range(44):
            daemon.post("/v1/run", {"code": f"pass # {number} " + "x" * 60000})
        daemon.bailey("daemon", "stop", "--force")
        daemon.process.wait(support.PATIENCE)
        shutil.copytree(daemon.state / "logs", kept / "logs")
    return kept


class Copy:
    def __init__(self, source, target):
        self.state, self.logs = target, target / "logs"
        target.mkdir(mode=0o700, exist_ok=True)
        shutil.copytree(source / "logs", self.logs, dirs_exist_ok=True)

    def lines(self, name=NEWEST):
        return (self.logs / name).read_bytes().splitlines(True)

    def put(self, lines, name=NEWEST):
        (self.logs / name).write_bytes(b"".join(lines))

    def verify(self, room):
        done = support.bailey("audit", "verify", "--json", room=room,
                              env={"BAILEY_STATE_DIR": self.state, "XDG_RUNTIME_DIR": self.state})
        return done.status, json.loads(done.out)


def edited(copy):
    lines = copy.lines("audit.jsonl.2")
    lines[3] = lines[3].replace(b'"tenant":"local"', b'"tenant":"other"')
    copy.put(lines, "audit.jsonl.2")


def cut_in_the_middle(copy):
    lines = copy.lines()
    copy.put(lines[:2] + lines[3:])


def swapped(copy):
    lines = copy.lines("audit.jsonl.1")
    lines[4], lines[5] = lines[5], lines[4]
    copy.put(lines, "audit.jsonl.1")


def doubled(copy):
    lines = copy.lines()
    copy.put(lines[:2] + lines[1:])


def half_a_line(copy):
    lines = copy.lines()
    copy.put(lines[:-1] + [lines[-1][:40]])


# what was done to the files: by what, and where it shows
SPOILED = {
    "an edit": (edited, "audit.jsonl.2"),
    "a cut at the end": (lambda copy: copy.put(copy.lines()[:-2]), None),
    "half of the last line": (half_a_line, None),
    "a cut in the middle": (cut_in_the_middle, NEWEST),
    "two lines swapped": (swapped, "audit.jsonl.1"),
    "a line twice": (doubled, NEWEST),
    "the newest file gone": (lambda copy: (copy.logs / NEWEST).unlink(), None),
    "a file in the middle gone": (lambda copy: (copy.logs / "audit.jsonl.2").unlink(), None),
    "the oldest file gone": (lambda copy: (copy.logs / "audit.jsonl.1").unlink(), None),
    "the head gone": (lambda copy: (copy.logs / "audit.head").unlink(), None),
}


def test_untouched(place, tmp_path, room):
    copy = Copy(place, tmp_path / "state")
    status, report = copy.verify(room)
    assert status == 0 and report["intact"] and report["first"] == 1, report
    assert report["lines"] == report["last"] == sum(
        len(copy.lines(name)) for name in (NEWEST, "audit.jsonl.1", "audit.jsonl.2")), report
    assert report["hash"] == serve.sha256(copy.lines()[-1])


@pytest.mark.parametrize("name", SPOILED)
def test_it_shows(place, tmp_path, room, name):
    spoil, where = SPOILED[name]
    copy = Copy(place, tmp_path / "state")
    spoil(copy)
    status, report = copy.verify(room)
    assert status == 1 and not report["intact"] and report["problem"], report
    if where:
        assert report["file"] == where and report["line"] > 0, report


def test_retention(room):
    """Of five files' worth two stay, a line tells of the rest, and that is no cut."""
    with serve.Daemon({"SANDBOX_AUDIT_SIZE": "1m", "SANDBOX_AUDIT_KEEP": 2,
                       "SANDBOX_STORE_CODE": "always"}) as daemon:
        for _ in range(70):
            daemon.post("/v1/run", {"code": "pass # " + "x" * 60000})
        logs = daemon.state / "logs"
        files = sorted(path.name for path in logs.glob("audit.jsonl*"))
        assert len(files) == 2 and files[0] == NEWEST and files[1] > "audit.jsonl.2", files
        assert all((logs / name).stat().st_size <= 1 << 20 for name in files), files
        kept = [json.loads(line) for line in (logs / NEWEST).read_text().splitlines()]
        assert [line["action"] for line in kept].count("audit.dropped") == 1
        status = daemon.bailey("audit", "verify", "--json")
        report = json.loads(status.out)
        assert status.status == 0 and report["intact"] and report["first"] > 1, report
