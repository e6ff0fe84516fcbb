"""not_found.py - whether the time of a 404 tells what another tenant has: part of `make load`'s folder, run by hand.

One key asks, in turn, for a session and an output that another tenant has and for ones that nobody has. Prints
percentiles of both, in microseconds, and their difference. Judged are the 5th to the 25th: on a busy machine the
medians differ by more than any cause in the server would. Fails where all of these differ by more than DIFFERENCE_US
in the same direction, three times in a row.

    NOT_FOUND_REQUESTS  3000 of each kind
"""
import http.client
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]
import harness  # noqa: E402  (the path has to be there first)
import own  # noqa: E402
import support  # noqa: E402
import tenants  # noqa: E402

PERCENTILES = (5, 10, 25, 50, 75, 95)
DIFFERENCE_US = 5


def another(name):
    """The same kind of name, which nothing has."""
    return name[:-8] + ("0" * 8 if name[-8:] != "0" * 8 else "1" * 8)


def ask(connection, key, path):
    began = time.perf_counter()
    connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
    reply = connection.getresponse()
    reply.read()
    assert reply.status == 404, (path, reply.status)
    return 1e6 * (time.perf_counter() - began)


def compare(server, key, what, theirs, nobodys, count):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    times = {theirs: [], nobodys: []}
    for number in range(count):
        for path in (theirs, nobodys) if number % 2 else (nobodys, theirs):
            times[path].append(ask(connection, key, path))
    connection.close()
    print(f"  {what}, {count} of each kind, in us")
    differences = []
    for percent in PERCENTILES:
        both = [harness.percentile(times[path], percent) for path in (theirs, nobodys)]
        differences.append(both[0] - both[1])
        print(f"    p{percent:<3} another tenant's {both[0]:8.1f}   nobody's {both[1]:8.1f}   "
              f"difference {differences[-1]:+7.1f}")
    low = differences[:3]
    return min(low) > DIFFERENCE_US or max(low) < -DIFFERENCE_US


def main():
    count = int(os.environ.get("NOT_FOUND_REQUESTS") or 3000)
    own.settle()
    with tenants.Server({}) as server:
        owner, asker = server.caller("owner"), server.caller("asker")
        session = owner.session()["id"]
        owner.post(f"/v1/sessions/{session}/code", {"code": "open('/tmp/output/a.txt', 'w').write('a')"})
        output = owner.get("/v1/artifacts")["artifacts"][0]["id"]
        print("not_found: the time of a 404")
        told = [what for what, theirs, nobodys in (
            ("a session", f"/v1/sessions/{session}", f"/v1/sessions/{another(session)}"),
            ("an output", f"/v1/artifacts/{output}", f"/v1/artifacts/{another(output)}"))
            if all(compare(server, asker.text, what, theirs, nobodys, count) for _ in range(3))]
    own.leave()
    support.remove_base()
    print("not_found: " + (f"the time tells: {', '.join(told)}" if told else "the time does not tell"))
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
