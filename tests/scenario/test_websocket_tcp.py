"""WebSockets over TCP and TLS: keys as pages send them, origins, scopes, tenants."""
import ssl

import pytest

import serve
import wsclient
from test_server_tcp import Server, certificate


@pytest.fixture(scope="module")
def server():
    with Server() as daemon:
        yield daemon


def make_key(server, **members):
    return server.post("/v1/keys", members, 201)["key"]


def open_ws(server, path="/v1/ws", key=None, **rest):
    return wsclient.connect_tcp(server.address(), path,
                                protocols=["bailey.v1", f"bailey.key.{key or server.key}"], **rest)


def refused(server, path="/v1/ws", **rest):
    with pytest.raises(wsclient.Refused) as answer:
        wsclient.connect_tcp(server.address(), path, **rest)
    return answer.value


def test_a_page_offers_its_key_as_a_protocol(server):
    with open_ws(server) as ws:
        assert ws.protocol == "bailey.v1"
        ws.ask("ping")


def test_headers_do_too(server):
    for headers in ({"Authorization": f"Bearer {server.key}"}, {"X-API-Key": server.key}):
        with wsclient.connect_tcp(server.address(), "/v1/ws", headers=headers) as ws:
            assert ws.protocol is None
            ws.ask("ping")


def test_without_a_good_key(server):
    id_of = server.key.split(".")[0]
    for protocols in (None, ["bailey.v1"], ["bailey.v1", "bailey.key."], ["bailey.v1", "bailey.key.x"],
                      ["bailey.v1", f"bailey.key.{id_of}.wrong"], ["bailey.v1", "bailey.key." + "x" * 500],
                      [f"BAILEY.KEY.{server.key}"]):
        answer = refused(server, protocols=protocols)
        assert answer.status == 401 and answer.error["code"] == "unauthorized"
        assert server.key not in answer.body.decode()


def test_a_key_in_the_address_is_not_looked_at(server):
    for name in ("key", "api_key", "access_token", "token"):
        assert refused(server, f"/v1/ws?{name}={server.key}").status == 401


def test_a_protocol_is_a_key_for_websockets_only(server):
    reply = server.tcp("GET", "/v1/sessions", key=False,
                       headers={"Sec-WebSocket-Protocol": f"bailey.key.{server.key}"})
    assert reply.status == 401


def test_scopes(server):
    key = make_key(server, tenant="small", scopes=["run"])
    answer = refused(server, protocols=[f"bailey.key.{key}"])
    assert answer.status == 403
    key = make_key(server, tenant="small", scopes=["sessions"])
    made = server.tcp("POST", "/v1/sessions", {}, key=key).json()["id"]
    with open_ws(server, f"/v1/sessions/{made}/ws", key=key) as ws:
        assert ws.refused("subscribe", what="files", path="/workspace")["code"] == "forbidden"
        ws.ask("subscribe", what="events")


def test_pages_of_another_origin(server):
    host, port = server.address()
    own = f"http://{host}:{port}"
    protocols = ["bailey.v1", f"bailey.key.{server.key}"]
    for origin in ("https://evil.example", "null", f"https://{host}:{port}.evil.example"):
        answer = refused(server, protocols=protocols,
                         headers={"Origin": origin, "Host": f"{host}:{port}"})
        assert answer.status == 403
    ws = wsclient.connect_tcp(server.address(), "/v1/ws", protocols=protocols,
                              headers={"Origin": own, "Host": f"{host}:{port}"})
    ws.close()
    answer = refused(server, protocols=protocols, headers={"Host": "rebound.example"})
    assert answer.status in (403, 421)


def test_one_tenant_sees_nothing_of_another(server):
    keys = [make_key(server, tenant=name, scopes=["sessions", "files"]) for name in ("one", "two")]
    mine, theirs = (server.tcp("POST", "/v1/sessions", {}, key=key).json()["id"] for key in keys)
    nobody = refused(server, "/v1/sessions/s_nobody/ws", protocols=[f"bailey.key.{keys[0]}"])
    other = refused(server, f"/v1/sessions/{theirs}/ws", protocols=[f"bailey.key.{keys[0]}"])
    assert other.status == nobody.status == 404
    assert other.error["message"].replace(theirs, "s_nobody") == nobody.error["message"]
    with open_ws(server, key=keys[0]) as ws:
        told = ws.ask("subscribe", what="events", last_id=0)["subscription"]
        assert ws.refused("exec", session=theirs, argv=["true"])["code"] == "session_not_found"
        assert ws.refused("subscribe", what="events", session=theirs)["code"] == "session_not_found"
        assert ws.refused("stdin", execution=f"{theirs}.1", data="x")["code"] == "session_not_found"
        server.exec(theirs, "true")
        reply = ws.ask("exec", session=mine, argv=["true"])
        ws.until("exit", reply["subscription"])
        seen = ws.until("exec.exited", told)
    # "From the beginning" begins with a gap: there may have been more once.
    assert {event["data"]["session_id"] for event in seen if event["event"] != "gap"} == {mine}
    for session in (mine, theirs):
        server.end(session)


def test_behind_tls(tmp_path):
    paths = certificate(tmp_path, "localhost")
    context = ssl.create_default_context(cafile=paths[0])
    with Server({"SANDBOX_TLS_CERTIFICATE": paths[0], "SANDBOX_TLS_KEY": paths[1]}) as secure:
        made = secure.tcp("POST", "/v1/sessions", {}, context=context).json()["id"]
        path, sockets = f"/v1/sessions/{made}/ws", []
        for _ in range(5):
            ws = open_ws(secure, path, context=context)
            sockets.append(ws)
            reply = ws.ask("exec", argv=["sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x"])
            seen = ws.until("exit", reply["subscription"])
            assert sum(len(serve.decoded(event["data"])) for event in seen
                       if event["event"] == "stdout") == 200000
            assert ws.event(reply["subscription"])["type"] == "end"
        sockets.pop().vanish()
        sockets.pop().close()
        broken = sockets.pop()
        broken.send_frame(0x81, b"x", masked=False)
        with pytest.raises(wsclient.Closed) as closed:
            broken.receive()
        assert closed.value.code == 1002
        broken.vanish()
        secure.bailey("daemon", "stop", "--force")
        with pytest.raises((wsclient.Closed, ssl.SSLError)) as closed:
            sockets[0].receive()
        for ws in sockets:
            ws.vanish()
