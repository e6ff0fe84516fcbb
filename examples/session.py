#!/usr/bin/env python3
# session.py - a session from a Python program, with nothing but http.client: the loop of an agent.
# Write a script, run it, read the traceback, edit one place, run it again, take the result.
#
#   BAILEY=build/bailey examples/session.py
import http.client
import json
import os
import socket
import subprocess

BAILEY = os.environ.get("BAILEY", "bailey")
HERE = os.path.dirname(os.path.abspath(__file__))

SCRIPT = '''\
import csv, json

rows = list(csv.DictReader(open("/tmp/data/sales.csv")))
turnover = {}
for row in rows:
    amount = int(row["pieces"]) * float(row["price"])
    turnover[row["product"]] = turnover.get(row["product"], 0) + amount
json.dump(turnover, open("/tmp/output/turnover.json", "w"))
print(max(turnover, key=turnover.get))
'''


class Daemon(http.client.HTTPConnection):
    """HTTP over the daemon's unix socket."""

    def __init__(self, path):
        super().__init__("bailey")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)

    def call(self, method, path, body=None):
        """Bytes go as they are, anything else as JSON; JSON comes back as what it says."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.request(method, "/v1/" + path, body)
        reply = self.getresponse()
        data = reply.read()
        if reply.getheader("Content-Type") == "application/json":
            data = json.loads(data)
        if reply.status >= 400:
            raise RuntimeError(f"{data['error']['code']}: {data['error']['message']}")
        return data

    def tool(self, session, name, **parameters):
        return self.call("POST", f"tools/{name}?session={session}", parameters)


def find_daemon():
    """The socket. A command that needs the daemon starts it."""
    subprocess.run([BAILEY, "session", "ls"], check=True, stdout=subprocess.DEVNULL)
    status = subprocess.run([BAILEY, "daemon", "status", "--json"], check=True,
                            stdout=subprocess.PIPE)
    return json.loads(status.stdout)["socket"]


def main():
    daemon = Daemon(find_daemon())
    session = daemon.call("POST", "sessions", {})["id"]
    try:
        with open(os.path.join(HERE, "sales.csv"), "rb") as file:
            daemon.call("PUT", f"sessions/{session}/datasets/sales", file.read())
        daemon.tool(session, "sandbox_write_file", file_path="/workspace/turnover.py",
                    content=SCRIPT)

        run = daemon.tool(session, "sandbox_exec", command=["python3", "turnover.py"])
        print(run["exit_code"], run["stderr"].splitlines()[-1])
        print(run["hint"])

        edit = daemon.tool(session, "sandbox_edit_file", file_path="/workspace/turnover.py",
                           old_string='row["pieces"]', new_string='row["pieces"] or 0')
        print(edit["hint"])

        run = daemon.tool(session, "sandbox_exec", command=["python3", "turnover.py"])
        print(run["exit_code"], run["stdout"].strip(), run["output_files"])
        print(daemon.call("GET", f"sessions/{session}/outputs/turnover.json"))
    finally:
        daemon.call("DELETE", f"sessions/{session}")


main()
