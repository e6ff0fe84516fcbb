"""neighbour.py - a bailey in a separate pid namespace: a daemon and commands that run many boxes.

Started by test_two_baileys.py and soak.py, several at once, over the same control groups, as a machine
and its containers are. As a program (the first process of the namespace): neighbour.py FOLDER RUNS.
Half of the runs are the daemon's, half are commands, whose sweeps meet what the others have made. It
says "ready" when its daemon answers, waits for a line, and says in JSON what went wrong.
"""
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]
import peers  # noqa: E402  (the path has to be there first)
import support  # noqa: E402

NAMESPACE = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--propagation",
             "private", "--"]
SHOWN = 5


class Neighbour:
    """One that runs, seen from outside."""

    def __init__(self, runs):
        self.room = support.Room()
        self.state, self.runtime = self.room.path / "state", self.room.path / "run"
        for folder in (self.state, self.runtime):
            folder.mkdir(mode=0o700)
        self.env = {"BAILEY_STATE_DIR": str(self.state), "XDG_RUNTIME_DIR": str(self.runtime),
                    "SANDBOX_POOL_SIZE": "0", "SANDBOX_LISTEN": "none", "SANDBOX_STORE_CODE": "never",
                    "BAILEY": str(support.BAILEY)}
        self.socket = str(self.runtime / "bailey" / "engine.sock")
        self.process = subprocess.Popen(
            [*NAMESPACE, sys.executable, __file__, str(self.room.path), str(runs)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=support.environment(self.room, self.env))
        said = self.process.stdout.readline()
        assert said == b"ready\n", (said, self.said())

    def said(self):
        log = self.room.path / "serve.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def begin(self):
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def wait(self, timeout):
        """{"runs", "wrong", ...} once its namespace is gone."""
        out, _ = self.process.communicate(timeout=timeout)
        assert self.process.returncode == 0, (self.process.returncode, self.said())
        return json.loads(out)

    def kill(self):
        """As a container that is killed: nothing in it does anything any more. Its first process is
        our orphan then."""
        inside = set(support.descendants(self.process.pid))
        self.process.kill()
        self.process.communicate()
        support.wait_until(lambda: support.reap_orphans() or not inside & set(support.descendants()),
                           "its namespace is gone")


# --- inside --------------------------------------------------------------------------------------


class Inside:
    def __init__(self, folder, runs):
        self.folder, self.runs = Path(folder), runs
        self.lock, self.count, self.wrong = threading.Lock(), 0, []
        self.socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "bailey", "engine.sock")

    def note(self, result, what):
        """A run that lost its control group still runs; its limits say so."""
        limits = result["meta"]["resource_limits"]
        is_right = result["exit_code"] == 0 and limits["memory_by"].startswith("cgroup") and \
            limits["pids_by"].startswith("cgroup")
        with self.lock:
            self.count += 1
            if not is_right:
                self.wrong.append(f"{what}: {json.dumps(result)[:600]}")

    def fail(self, problem, what):
        with self.lock:
            self.count += 1
            self.wrong.append(f"{what}: {problem}"[:600])

    def run_in_daemon(self, count):
        with peers.Connection(self.socket) as connection:
            for _ in range(count):
                try:
                    self.note(connection.ask("POST", "/v1/run", {"code": "print('Hello')"}), "daemon")
                except peers.Failed as problem:
                    self.fail(problem, "daemon")

    def run_commands(self, count):
        argv = [os.environ["BAILEY"], "exec", "--json", "--", "/bin/true"]
        for _ in range(count):
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
            try:
                self.note(json.loads(done.stdout), "command")
            except (ValueError, KeyError):
                self.fail(f"status {done.returncode}: {done.stdout[-300:]} {done.stderr[-300:]}", "command")

    def work(self):
        threads = [threading.Thread(target=self.run_in_daemon, args=(self.runs // 2,)),
                   threading.Thread(target=self.run_commands, args=(self.runs - self.runs // 2,))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def serve(self):
        with open(self.folder / "serve.log", "ab") as log:
            daemon = subprocess.Popen([os.environ["BAILEY"], "serve"], stdin=subprocess.DEVNULL, stdout=log,
                                      stderr=log)

        def answers():
            assert daemon.poll() is None, "the daemon has ended"
            try:
                with peers.Connection(self.socket) as connection:
                    return connection.ask("GET", "/v1/info")
            except (OSError, peers.Failed):
                return None

        support.wait_until(answers, "the daemon answers")
        with peers.Connection(self.socket) as connection:  # a box that stays
            session = connection.ask("POST", "/v1/sessions", {})["id"]
            connection.ask("POST", f"/v1/sessions/{session}/exec", {"argv": ["true"]})
        return daemon

    def main(self):
        daemon = self.serve()
        print("ready", flush=True)
        if not sys.stdin.readline():
            return
        self.work()
        stopped = subprocess.run([os.environ["BAILEY"], "daemon", "stop", "--force"], capture_output=True, timeout=120)
        if stopped.returncode != 0 or daemon.wait(60) != 0:
            self.wrong.append(f"stop: {stopped.stderr} {daemon.returncode}")
        json.dump({"runs": self.count, "wrong": len(self.wrong), "shown": self.wrong[:SHOWN]}, sys.stdout)


if __name__ == "__main__":
    Inside(sys.argv[1], int(sys.argv[2])).main()
