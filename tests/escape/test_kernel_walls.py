"""docs/security.md, attacks 17, 19, 20, 27, 29-31, 59 from inside of kernels: what the walls answer to cells."""
import json

import attack
from warm import everywhere, in_python

LOOK = attack.PRELUDE.replace("{{", "{").replace("}}", "}") + r"""
import glob, signal, socket
def others():
    return [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
for pid in others():
    who = "warden" if pid == 1 else "sibling"
    for name in ("mem", "environ", "auxv", "maps", "fd/0", "fd/3", "fd/250", "root/etc", "cwd", "exe", "ns/user"):
        found[f"{who} {pid} open {name}"] = opened(f"/proc/{pid}/{name}")
    found[f"{who} {pid} mapped files"] = attempt(os.listdir, f"/proc/{pid}/map_files")
    found[f"{who} {pid} write mem"] = opened(f"/proc/{pid}/mem", os.O_RDWR)
    found[f"{who} {pid} attach"] = call("ptrace", 16, pid, 0, 0)
    found[f"{who} {pid} seize"] = call("ptrace", 0x4206, pid, 0, 0)
    found[f"{who} {pid} writev"] = call("process_vm_writev", pid, 0, 0, 0, 0, 0)
    found[f"{who} {pid} readv"] = call("process_vm_readv", pid, 0, 0, 0, 0, 0)
    found[f"{who} {pid} kcmp"] = call("kcmp", os.getpid(), pid, 0, 0, 0)
    pidfd = os.pidfd_open(pid)
    for fd in (0, 1, 3, 4, 250):
        found[f"{who} {pid} getfd {fd}"] = call("pidfd_getfd", pidfd, fd, 0)
    found[f"{who} {pid} setns"] = call("setns", pidfd, 0x10000000)
    os.close(pidfd)
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
    found[f"unshare {flag:x}"] = call("unshare", flag)
    if flag > 0xff:  # below is the signal of its end
        found[f"clone {flag:x}"] = call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0)
for kind in os.listdir("/proc/self/ns"):
    fd = os.open("/proc/self/ns/" + kind, os.O_RDONLY)
    found["setns " + kind] = call("setns", fd, 0)
    os.close(fd)
for path in ("/proc/self/exe", "/proc/1/exe", "/bailey/driver/kernel.py", "/bailey/driver/zygote.py", sys.executable):
    found["write " + path] = opened(path, os.O_WRONLY)
    found["truncate " + path] = attempt(os.truncate, path, 0)
    found["remove " + path] = attempt(os.unlink, path)
found["raise ambient"] = call("prctl", 47, 2, 21, 0, 0)
found["setuid"] = call("setuid", 0)
done()
"""


@in_python
def test_20_29_30_31_the_walls(cells):
    """On the warden, a sibling kernel and the machine's namespaces."""
    daemon = cells.daemon
    numbers = {**attack.NEWER, **attack.syscall_numbers(attack.CALLS)}
    for origin in ("zygote", "cold"):
        context = daemon.context_of(cells.session, origin)
        daemon.context_of(cells.session, "zygote")
        result = daemon.cell(cells.session, LOOK.replace("{numbers}", repr(numbers)), context=context, timeout=50)
        assert result["exit_code"] == 0, result
        found = json.loads(result["stdout"].splitlines()[-1])
        assert len([name for name in found if name.startswith("sibling")]) > 40, found
        attack.all_held(found, "EPERM", "EACCES", "ENOSYS", "EROFS", "EINVAL", "ETXTBSY", "ENOENT", "ENOTDIR", "ENXIO",
                        "ELOOP", "ESRCH")
        assert {answer for name, answer in found.items() if name.split()[0] in ("unshare", "clone", "setns")} <= {
            "EPERM", "ENOSYS", "EINVAL"}, found


@everywhere
def test_17_what_programs_of_a_cell_hold(cells):
    """They get 0, 1 and 2 and neither the socket nor the copies."""
    look = "for fd in /proc/self/fd/*; do echo ${fd##*/} $(readlink $fd); done"
    code = {"python": f"import subprocess\n_ = subprocess.run(['sh', '-c', {look!r}], close_fds=False)",
            "javascript": f"require('child_process').spawnSync('sh', ['-c', {look!r}], {{stdio: 'inherit'}}); 0",
            "bash": f"sh -c {json.dumps(look).replace('$', chr(92) + '$')}"}[cells.language]
    result = cells.run(code)
    assert "socket:" not in result["stdout"], result
    held = [line.split() for line in result["stdout"].splitlines()]
    assert [row[0] for row in held if len(row) == 2 and "/proc/" not in row[1]] == ["0", "1", "2"], result


@everywhere
def test_27_environment(cells):
    code = {"python": "import os, json; print(json.dumps(dict(os.environ)))",
            "javascript": "console.log(JSON.stringify(process.env))",
            "bash": "python3 -c 'import os, json; print(json.dumps(dict(os.environ)))'"}[cells.language]
    found = json.loads(cells.run(code)["stdout"])
    text = json.dumps(found)
    for secret in (str(cells.daemon.state), str(cells.daemon.runtime), "BAILEY", "SANDBOX_", "XDG_"):
        assert secret not in text, found
    assert set(found) <= {"PATH", "HOME", "TMPDIR", "OUTPUT_DIR", "USER", "LOGNAME", "LANG", "PYTHONUNBUFFERED",
                          "PYTHONDONTWRITEBYTECODE", "MPLBACKEND", "PYTHONPATH", "PWD", "SHLVL", "_", "OLDPWD"} | {
        name for name in found if name.endswith("_THREADS")}, found


@everywhere
def test_59_output_without_end(cells):
    code = {"python": "import os\nwhile True: os.write(1, b'x' * 65536)",
            "javascript": "const b = 'x'.repeat(65535); for (;;) console.log(b)",
            "bash": "while :; do printf '%065536d' 1; done"}[cells.language]
    result = cells.run(code, timeout=1)
    assert result["meta"]["timed_out"] and result["meta"]["stdout_truncated"], result["meta"]
    cells.works(result)
