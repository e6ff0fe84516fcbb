"""Python sees what its users expect: threads, processes, files, databases, clocks, numpy."""
import json
import os

import pytest
import support

PROGRAMS = {
    "threads": """
import threading, queue
q = queue.Queue()
ts = [threading.Thread(target=lambda n=n: q.put(n * n)) for n in range(20)]
[t.start() for t in ts]; [t.join() for t in ts]
assert sorted(q.get() for _ in ts) == [n * n for n in range(20)]
""",
    "thread pool": """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as e: assert sum(e.map(abs, range(-50, 50))) == 2500
""",
    "multiprocessing pool": """
import multiprocessing as mp
def f(x): return x * x
if __name__ == '__main__':
    with mp.Pool(3) as p: assert p.map(f, range(10)) == [n * n for n in range(10)]
""",
    "multiprocessing spawn": """
import multiprocessing as mp
def f(q): q.put('spawned')
if __name__ == '__main__':
    c = mp.get_context('spawn'); q = c.Queue()
    p = c.Process(target=f, args=(q,)); p.start()
    assert q.get() == 'spawned'; p.join(); assert p.exitcode == 0
""",
    "multiprocessing manager": """
import multiprocessing as mp
def f(d, n): d[n] = n * 2
if __name__ == '__main__':
    with mp.Manager() as m:
        d = m.dict(); ps = [mp.Process(target=f, args=(d, n)) for n in range(3)]
        [p.start() for p in ps]; [p.join() for p in ps]
        assert dict(d) == {0: 0, 1: 2, 2: 4}
""",
    "shared memory": """
from multiprocessing import shared_memory, Lock, Value
s = shared_memory.SharedMemory(create=True, size=4096); s.buf[0] = 7
t = shared_memory.SharedMemory(name=s.name); assert t.buf[0] == 7
t.close(); s.close(); s.unlink()
with Lock(): Value('i', 3).value += 1
""",
    "process pool": """
from concurrent.futures import ProcessPoolExecutor
if __name__ == '__main__':
    with ProcessPoolExecutor(2) as e: assert list(e.map(len, ['a', 'bb'])) == [1, 2]
""",
    "subprocess": """
import subprocess, sys
assert subprocess.run(['ls', '/usr'], capture_output=True, text=True, check=True).stdout
assert subprocess.check_output([sys.executable, '-c', 'print(6 * 7)']) == b'42\\n'
assert subprocess.run('exit 3', shell=True).returncode == 3
p = subprocess.Popen(['cat'], stdin=-1, stdout=-1); assert p.communicate(b'hi')[0] == b'hi'
""",
    "os.popen and os.system": """
import os
assert os.popen('echo hi').read() == 'hi\\n' and os.system('exit 0') == 0
""",
    "tempfile": """
import tempfile, os
with tempfile.NamedTemporaryFile() as f:
    f.write(b'x'); f.flush(); assert os.path.getsize(f.name) == 1
with tempfile.TemporaryDirectory() as d: open(d + '/a', 'w').close()
tempfile.TemporaryFile().write(b'x'); tempfile.SpooledTemporaryFile().write(b'x')
""",
    "sqlite3 on disk": """
import sqlite3
for name in ('data.db', ':memory:'):
    c = sqlite3.connect(name); c.execute('pragma journal_mode=wal')
    c.execute('create table t(x)')
    c.executemany('insert into t values(?)', [(n,) for n in range(9)])
    c.commit(); assert c.execute('select sum(x) from t').fetchone() == (36,); c.close()
""",
    "os.uname": """
import os, platform
u = os.uname(); assert u.sysname == 'Linux' and u.nodename and u.release and u.machine
assert platform.platform() and platform.machine() == u.machine
""",
    "locale is utf-8": """
import sys, locale, os
assert sys.stdout.encoding.lower() == 'utf-8' and locale.getpreferredencoding().lower() == 'utf-8'
assert sys.getfilesystemencoding() == 'utf-8'
open('日本.txt', 'w').write('ä€'); assert '日本.txt' in os.listdir('.')
assert open('日本.txt').read() == 'ä€'
""",
    "asyncio": """
import asyncio, sys
async def main():
    assert await asyncio.gather(*(asyncio.sleep(0.001, n) for n in range(5))) == list(range(5))
    p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)
    assert (await p.communicate())[0] == b'hi\\n'
    assert await asyncio.to_thread(lambda: 5) == 5
asyncio.run(main())
""",
    "randomness and clocks": """
import os, random, secrets, time, uuid, datetime
assert os.urandom(8) != os.urandom(8) and uuid.uuid4() != uuid.uuid4() and secrets.token_hex()
assert open('/dev/urandom', 'rb').read(4) and time.time() > 1.7e9
assert time.monotonic() <= time.monotonic() and time.process_time() >= 0
assert datetime.datetime.now().year >= 2024
""",
    "devices": """
import os
open('/dev/null', 'w').write('x'); assert open('/dev/zero', 'rb').read(3) == bytes(3)
try: open('/dev/full', 'w', buffering=1).write('x\\n'); raise SystemExit('not full')
except OSError as e: assert e.errno == 28
""",
    "mmap, pipes, select, signals": """
import mmap, os, select, signal, socket
m = mmap.mmap(-1, 8192); m[:2] = b'hi'
r, w = os.pipe(); os.write(w, b'x'); assert select.select([r], [], [], 0)[0]
e = select.epoll(); e.register(r); assert e.poll(0)
a, b = socket.socketpair(); a.send(b'y'); assert b.recv(1) == b'y'
got = []; signal.signal(signal.SIGALRM, lambda *_: got.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.001); signal.pause(); assert got
""",
    "ctypes and compiled modules": """
import ctypes, zlib, hashlib, json, decimal, ssl, lzma, bz2, struct, array
assert ctypes.CDLL(None).abs(-3) == 3
assert hashlib.sha256(zlib.compress(b'x')).digest()
assert json.loads('{"a": 1}') == {'a': 1} and ssl.OPENSSL_VERSION
""",
    "files": """
import os, shutil, pathlib, glob, fcntl, stat
os.makedirs('a/b'); pathlib.Path('a/b/c').write_text('x')
os.symlink('c', 'a/b/l'); os.link('a/b/c', 'd')
assert open('a/b/l').read() == 'x' and glob.glob('a/**/c', recursive=True)
os.rename('d', 'e'); os.truncate('e', 100)
fcntl.flock(open('e'), fcntl.LOCK_EX); shutil.copyfile('e', 'f'); shutil.rmtree('a')
os.mkfifo('g'); assert stat.S_ISFIFO(os.stat('g').st_mode); os.statvfs('.')
""",
    "file modes and times": """
import os, shutil, tarfile
os.makedirs('a/b'); open('a/b/c', 'w').write('x')
os.chmod('a/b/c', 0o640); os.utime('a/b/c', (1, 2)); os.fchmod(os.open('a/b/c', os.O_RDONLY), 0o640)
shutil.copy('a/b/c', 'd'); shutil.copytree('a', 'e'); assert os.stat('e/b/c').st_mtime == 2
tarfile.open(shutil.make_archive('z', 'gztar', 'a')).extractall('f')
assert os.stat('f/b/c').st_mode & 0o777 == 0o640
""",
    "user and home": """
import os, getpass, pathlib
home = pathlib.Path.home(); assert str(home) == os.environ['HOME']
(home / 'x').write_text('1'); assert os.getuid() == os.geteuid()
""",
    "introspection": """
import os, resource, sys, traceback, gc
assert os.cpu_count() >= 1 and len(os.sched_getaffinity(0)) >= 1
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0 and sys.executable
""",
    "faulthandler and warnings": """
import faulthandler, warnings; faulthandler.enable(); warnings.warn('w')
""",
}
PROGRAMS["zoneinfo"] = """
import zoneinfo, datetime
z = zoneinfo.ZoneInfo('Europe/Berlin')
assert datetime.datetime(2024, 7, 1, 12, tzinfo=z).utcoffset() == datetime.timedelta(hours=2)
"""


def check(result):
    assert (result["exit_code"], result["stdout"].splitlines()[-1:]) == (0, ["fine"]), result


# What needs a mount namespace: glibc keeps semaphores in /dev/shm, which is the host's own without
# one, and Landlock does not rule changes of a mode or a time by name, so the filter refuses them.
NEEDS_MOUNTS = ("multiprocessing pool", "multiprocessing spawn", "multiprocessing manager",
          "shared memory", "process pool", "file modes and times")


@pytest.mark.parametrize("name", NEEDS_MOUNTS)
def test_what_cannot_be_private_without_namespaces_is_refused_with_an_error(refused, name):
    result = refused.run_json(PROGRAMS[name], "--timeout", "20")
    assert result["exit_code"] == 1
    assert "PermissionError" in result["stderr"] or "FileNotFoundError" in result["stderr"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_works_inside(way, name):
    if name in NEEDS_MOUNTS and not way.has_namespaces:
        pytest.skip("needs a mount namespace; that it is refused without is tested above")
    if name == "zoneinfo" and not os.path.exists("/usr/share/zoneinfo/Europe/Berlin"):
        pytest.skip("this machine has no time zones (tzdata)")
    code = PROGRAMS[name] + "\nif __name__ == '__main__': print('fine')\n"
    check(way.run_json(code, "--timeout", "20"))


SCIENCE = """
import json, threading
import numpy as np, polars as pl
a = np.random.default_rng(1).random((300, 300))
frame = pl.DataFrame({'g': [1, 1, 2], 'v': [1.0, 2.0, 3.0]})
grouped = frame.group_by('g').agg(pl.col('v').sum()).sort('g')
frame.write_csv('/tmp/x.csv')
print(json.dumps({'trace': float(np.trace(a @ np.linalg.inv(a))), 'fft': len(np.fft.fft(a[0])),
                  'sums': grouped['v'].to_list(), 'csv': pl.read_csv('/tmp/x.csv').shape,
                  'threads': threading.active_count()}))
"""


def need_reachable(program):
    """Without namespaces root's guest, which has an id of its own, has to get there by itself; that it is
    told so is tested in test_interpreter_home.py."""
    closed = [folder for folder in program.absolute().parents if not folder.stat().st_mode & 0o001]
    if support.is_root() and closed:
        pytest.skip(f"without namespaces a guest cannot get to the tests' Python: only the owner of "
                    f"{closed[-1]} may enter it")


def test_numpy_and_polars_work_inside(science):
    code = SCIENCE
    if support.session_refusal():
        need_reachable(science)
        code = SCIENCE.replace("/tmp/x.csv", "x.csv")
    result = support.run_json(code, "--timeout", "20", env={"SANDBOX_PYTHON": science})
    assert result["exit_code"] == 0, result
    got = json.loads(result["stdout"])
    assert round(got["trace"]) == 300 and got["fft"] == 300
    assert got["sums"] == [3.0, 3.0] and got["csv"] == [3, 2]


def test_numpy_works_where_namespaces_are_refused(science):
    need_reachable(science)
    code = SCIENCE.replace("/tmp/x.csv", "x.csv")
    result = support.run_json(code, "--timeout", "20", env={"SANDBOX_PYTHON": science},
                              deny=support.NO_NAMESPACES)
    assert result["exit_code"] == 0, result
