"""docs/deploy.md, "Backup and restore": what a tar of the state folder brings back on another machine."""
import subprocess

import support
import tenants


def test_a_restored_server_has_keys_kept_outputs_and_the_audit():
    first, second = support.Room(), support.Room()
    archive = second.path / "state.tar"
    with tenants.Server(room=first) as server:
        acme = server.caller("acme")
        made = acme.post("/v1/sessions", {"name": "kept"}, 201)["id"]
        acme.post(f"/v1/sessions/{made}/exec",
                  {"argv": ["sh", "-c", "echo a,b > /tmp/output/table.csv"]})
        kept = acme.get(f"/v1/sessions/{made}/outputs")["outputs"][0]["id"]
        acme.post(f"/v1/artifacts/{kept}/keep", {})
        number = len(server.audit())
    subprocess.run(["tar", "--numeric-owner", "-C", first.path / "state", "-cf", archive, "."], check=True)
    first.remove()

    state = second.path / "state"
    state.mkdir(mode=0o700)
    subprocess.run(["tar", "--numeric-owner", "-C", state, "-xpf", archive], check=True)
    with tenants.Server(room=second) as server:
        again = tenants.Caller(server, acme.text)
        assert again.get(f"/v1/sessions/{made}")["state"] == "ended"
        assert again.asked("GET", f"/v1/artifacts/{kept}").body == b"a,b\n"
        assert again.post("/v1/run", {"code": "print(6 * 7)"})["stdout"] == "42\n"
        assert len(server.audit()) > number
        assert server.bailey("audit", "verify").status == 0
    second.remove()
