"""execute.py - POST /execute, /v1 and /docs as httpx sees them: URL KEY, the order on standard input.

Prints one JSON object with what it saw.
"""
import json
import sys

import httpx

URL, KEY = sys.argv[1:]
ORDER = json.load(sys.stdin)

with httpx.Client(base_url=URL, timeout=60, headers={"Authorization": f"Bearer {KEY}"},
                  trust_env=False) as client:
    made = client.post("/v1/sessions", json={}).raise_for_status().json()["id"]
    saw = {
        "execute": client.post("/execute", json=ORDER).raise_for_status().json(),
        "health": client.get("/health").raise_for_status().json(),
        "exec": client.post(f"/v1/sessions/{made}/exec",
                            json={"argv": ["echo", "hi"]}).raise_for_status().json(),
        "ended": client.delete(f"/v1/sessions/{made}").status_code,
        "docs": client.get("/docs").raise_for_status().headers["content-type"],
        "paths": sorted(client.get("/openapi.json").raise_for_status().json()["paths"]),
    }
    bad = client.post("/execute", content=b"{")
    saw["bad"] = [bad.status_code, bad.json()]
    with httpx.Client(base_url=URL, timeout=60, trust_env=False) as nobody:
        refused = nobody.post("/execute", json=ORDER)
        saw["refused"] = [refused.status_code, refused.json()]
print(json.dumps(saw))
