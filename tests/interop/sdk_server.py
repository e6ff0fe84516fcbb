"""sdk_server.py - one server for a whole file of SDK tests: TCP with a key, unix socket, packages made by hand."""
import install
import support
import tenants
import wheels

CLIENTS = support.REPO / "clients"


class SdkServer(tenants.Server):
    def __init__(self):
        room = support.Room()
        shelf = room.path / "wheels"
        wheels.folder(shelf, install.CASTLE, install.MOAT)
        super().__init__({**install.settings(shelf),
                          "SANDBOX_AUTO_INSTALL": "false"}, room=room)
        self.owns = True
        self.key = self.caller("sdk").text
        self.url = f"http://127.0.0.1:{self.port}"
        self.unix = f"unix://{self.socket}"

    def way(self, name):
        """url and key of "unix" or "tcp"."""
        return (self.unix, None) if name == "unix" else (self.url, self.key)

    def client_env(self, name="tcp", **more):
        """Variables for a client in a process of its own."""
        url, key = self.way(name)
        given = {"BAILEY_URL": url, **({"BAILEY_API_KEY": key} if key else {}), **more}
        return {**support.environment(self.room, given)}

    def names(self):
        """Ids of the sessions that live, of everybody."""
        return [one["id"] for one in self.get("/v1/sessions")["sessions"]]
