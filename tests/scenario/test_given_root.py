"""A box can take its root from a given folder instead of this machine's /usr."""
import shutil
import subprocess

import pytest
import support

PROBE = r"""
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct dirent *e;
    DIR *d = opendir("/");
    if (argc > 1) return open(argv[1], O_WRONLY | O_CREAT, 0644) < 0;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.') printf("/%s\n", e->d_name);
    printf("host %s\n", access("/usr/bin/python3", F_OK) == 0 ? "seen" : "absent");
    printf("canary %s\n", access("/canary", F_OK) == 0 ? "seen" : "absent");
    return 0;
}
"""


@pytest.fixture
def root(room):
    """A root folder with one static program and a canary."""
    folder = room.path / "root"
    (folder / "bin").mkdir(parents=True)
    (folder / "canary").write_text("x")
    source = room.path / "probe.c"
    source.write_text(PROBE)
    subprocess.run(["cc", "-static", "-O1", "-o", folder / "bin" / "probe", source], check=True)
    return folder


def test_the_given_root_is_the_root(walled, root):
    result = walled.exec_json("/bin/probe", options=["--root", root])
    assert result["exit_code"] == 0, result
    assert "canary seen" in result["stdout"] and "host absent" in result["stdout"]


def test_the_given_root_is_read_only(root):
    result = support.exec_json("/bin/probe", "/bin/planted", options=["--root", root])
    assert result["exit_code"] == 1
    assert not (root / "bin" / "planted").exists()


def test_private_folders_are_there_all_the_same(root):
    for place in ("/tmp/x", "/workspace/x", "x", "/dev/shm/x", "/home/user/x"):
        result = support.exec_json("/bin/probe", place, options=["--root", root])
        assert result["exit_code"] == 0, place
    assert sorted(p.name for p in root.iterdir() if any(p.rglob("x"))) == []


def test_the_root_comes_from_the_environment_too(root):
    assert support.exec_json("/bin/probe", env={"SANDBOX_ROOT": root})["exit_code"] == 0


def test_the_hosts_programs_are_not_found_there(root):
    result = support.exec_json("/bin/true", options=["--root", root])
    assert (result.status, result.error["code"]) == (127, "command_not_found")


def test_busybox_in_a_root_of_its_own(root):
    busybox = shutil.which("busybox")
    if not busybox or subprocess.run(["ldd", busybox], capture_output=True).returncode == 0:
        pytest.skip("no static busybox on this machine: tools/setup test installs it")
    shutil.copy(busybox, root / "bin" / "busybox")
    result = support.exec_json("/bin/busybox", "sh", "-c", "echo $((1+1)); pwd",
                               options=["--root", root])
    assert result["stdout"] == "2\n/workspace\n"


@pytest.mark.parametrize("bad", ["/nowhere/at/all", "/etc/passwd", ""])
def test_a_root_that_cannot_be_is_bad_input(bad):
    done = support.bailey("exec", "--root", bad, "--", "/bin/true")
    assert done.status == 125
    assert "root" in done.stderr


def test_links_in_a_given_root_do_not_lead_out(room, root):
    """A hostile root may have links where the box puts its mounts."""
    outside = room.path / "outside"
    outside.mkdir()
    for name in ("tmp", "dev", "proc", "workspace"):
        (root / name).symlink_to(outside)
    result = support.exec_json("/bin/probe", "/tmp/x", options=["--root", root])
    assert list(outside.iterdir()) == []
    assert result["exit_code"] == 0 or result.error["code"] in ("box_failed", "bad_input"), result
