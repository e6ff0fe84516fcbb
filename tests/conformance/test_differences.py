"""
What is not the same everywhere. Each row is asked of a box of each runtime; where the answers differ
they are a row of the table in docs/runtimes.md, and where they do not they are not. The table is
written by tools/print-runtimes; here it has to be current.
"""
import contextlib
import os

import pytest

import runtimes
import serve
import support

PAGE = support.REPO / "docs" / "runtimes.md"
BEGIN = "<!-- differences: written by tools/print-runtimes -->\n"
END = "<!-- end of differences -->\n"


class Asked:
    """One session of one runtime, and what its first command said of itself."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.session = daemon.session(datasets=[{"name": "d", "content": "x\n"}])["id"]
        self.meta = daemon.exec(self.session, "true")["meta"]
        self.cell = daemon.post(f"/v1/sessions/{self.session}/code", {"code": "print(1)"})["meta"]

    def sh(self, script):
        return self.daemon.exec(self.session, "sh", "-c", script)["stdout"].strip()

    def held_by(self, what):
        by = self.meta["resource_limits"][f"{what}_by"]
        engine = "the server" if self.meta["runtime"] == "url" else "Docker, read back from it"
        return {"container": engine}.get(
            by, "a control group of ours" if by.startswith("cgroup") else by)

    def limit(self, what):
        return self.meta["resource_limits"][what]


def layer(name, with_it, without):
    return lambda asked: with_it if name in asked.meta["isolation"]["layers"] else without


def strict(asked):
    done = support.run_json("print(1)", "--isolation", "strict", env=asked.daemon.env)
    if done.error is None:
        return "can be had"
    # "isolation 'strict' needs what this box does not have: userns, uid_split"
    names = done.error["message"].rpartition(": ")[2].replace(",", " ").split()
    assert names and all(name in asked.meta["isolation"]["missing"] for name in names), done
    return f"refused: {', '.join(f'`{name}`' for name in sorted(names))} missing"


def disks(asked):
    """Whether what is in one folder takes room in another."""
    script = ("head -c 6000000 /dev/zero > /tmp/big; "
              "head -c 6000000 /dev/zero > /workspace/big && echo each || echo all")
    done = support.exec_json("sh", "-c", script, options=("--disk", "8m", "--memory", "64m"),
                             env=asked.daemon.env)
    assert done["stdout"] in ("each\n", "all\n"), done
    return {"each": "each of them", "all": "all together"}[done["stdout"].strip()]


def install(asked):
    """Nothing is fetched: a name that is none is what the installer refuses, if it is there at all."""
    reply = asked.daemon.call("POST", f"/v1/sessions/{asked.session}/packages", {"packages": ["not a name"]})
    assert reply.status >= 400, reply
    return "the image's business" if "image" in reply.error["message"] else "by an installer box"


def human(size):
    return f"{size >> 20} MB"


# what is asked: who answers
ROWS = {
    "`meta.runtime`": lambda a: f"`{a.meta['runtime']}`",
    "memory by default": lambda a: human(a.limit("memory_bytes")),
    "disk by default": lambda a: human(a.limit("disk_bytes")),
    "memory is held by": lambda a: a.held_by("memory"),
    "processes are held by": lambda a: a.held_by("pids"),
    "the disk is a limit of `/tmp`, `/workspace` and `/home/user`": disks,
    "warden and guest": layer("uid_split", "two ids", "one id, not root's"),
    "a user namespace of its own": layer("userns", "yes", "where Docker has one"),
    "system calls are filtered": layer("seccomp", "yes", "no"),
    "files are confined by Landlock too": layer("landlock", "yes", "no"),
    "a network of its own, without a way out": layer("netns", "yes", "no"),
    "`SANDBOX_ISOLATION=strict`": strict,
    "the first cell of a session": lambda a: "as on the server" if a.meta["runtime"] == "url" else {
        "cold": "a new interpreter", "zygote": "forked from a zygote", "pool": "from the pool"}.get(
            a.cell.get("warm"), str(a.cell.get("warm"))),
    "programs and libraries": lambda a: "the server's" if a.meta["runtime"] == "url" else (
        "the image's" if a.sh("test -e /bailey/bin/bailey && echo yes") == "yes" else "this machine's `/usr`"),
    "a dataset is": lambda a: (
        "on a disk outside, mounted" if a.sh("grep -c ' /tmp/data ' /proc/self/mountinfo") != "0"
        else "copied into the box"),
    "a dataset can be changed by the guest": lambda a: (
        "yes, its own copy" if a.sh("echo y >> /tmp/data/d.csv && echo changed") == "changed" else "no"),
    "the name of the machine inside": lambda a: f"`{a.sh('uname -n')}`",
    "the guest's home": lambda a: f"`{a.sh('echo $HOME')}`",
    "the guest's working folder": lambda a: f"`{a.sh('pwd')}`",
    "standard input of a command": lambda a: a.daemon.exec(a.session, "cat", stdin="read")["stdout"],
    "a command that is not there": lambda a: a.daemon.exec(a.session, "nope")["meta"]["error"]["code"],
    "a terminal": lambda a: (
        "has one" if "tty" in a.sh("test -c /dev/ptmx && echo tty") else "has none"),
    "packages for a session": install,
    "core files": lambda a: a.sh("ulimit -c"),
}


def observe(request, name):
    with contextlib.contextmanager(runtimes.surround)(request, name):
        # The defaults are what is asked for here.
        support.surroundings.pop("DOCKER_CPU_LIMIT", None)
        with serve.Daemon({"SANDBOX_WARM": "true"}) as daemon:
            asked = Asked(daemon)
            found = {what: ask(asked) for what, ask in ROWS.items()}
            daemon.end(asked.session)
    return found


def table(found):
    """Markdown: a row for each answer that is not the same everywhere."""
    names = list(found)
    lines = ["| | " + " | ".join(f"`{name}`" for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    for what in ROWS:
        answers = [found[name][what] for name in names]
        if len(set(answers)) > 1:
            lines.append(f"| {what} | " + " | ".join(answers) + " |")
    same = [what for what in ROWS if len({found[name][what] for name in names}) == 1]
    return "\n".join(lines) + f"\n\n{len(same)} more were asked and answered alike.\n"


def written():
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert text.count(BEGIN) == text.count(END) == 1, f"{PAGE} has no place for the table"
    before, _, rest = text.partition(BEGIN)
    now, _, after = rest.partition(END)
    return before, now, after


def test_the_table_of_differences_is_current(request):
    if sorted(runtimes.RUNTIMES) != ["docker", "local", "url"]:
        pytest.skip("compares local, docker and url: BAILEY_RUNTIMES has to name all")
    now = table({name: observe(request, name) for name in ("local", "docker", "url")})
    before, there, after = written()
    if os.environ.get("PRINT_RUNTIMES"):
        PAGE.write_text(before + BEGIN + now + END + after, encoding="utf-8")
    else:
        assert there == now, "run tools/print-runtimes"
