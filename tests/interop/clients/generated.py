"""generated.py - uses the client that openapi-python-client wrote; prints what it got as JSON.

The package bailey_client is beside this file. BAILEY_URL and BAILEY_API_KEY name the server.
"""
import json
import os
from io import BytesIO

from bailey_client import AuthenticatedClient
from bailey_client.api.cells import run_cell
from bailey_client.api.commands import exec_
from bailey_client.api.files import read_file, write_file
from bailey_client.api.sessions import create_session, delete_session, get_session, list_sessions
from bailey_client.models import (CreateSessionBody, CreateSessionBodyDatasetsItem, Dataset, Error, ExecBody,
                                  ListSessionsResponse200, RunCellBody, Session)
from bailey_client.types import File

client = AuthenticatedClient(base_url=os.environ["BAILEY_URL"], token=os.environ["BAILEY_API_KEY"])


def of(kind, value):
    """The value, if the client gave it the type that the document promises."""
    assert isinstance(value, kind), value
    return value


told = {}
made = of(Session, create_session.sync(client=client, body=CreateSessionBody(
    name="generated", datasets=[CreateSessionBodyDatasetsItem(name="sales", content="month,total\nJan,42\n")])))
told["created"] = made.name
told["datasets"] = [of(Dataset, each).path for each in made.datasets]
cell = run_cell.sync(made.id, client=client, body=RunCellBody(
    code="import csv\nint(list(csv.DictReader(open('/tmp/data/sales.csv')))[0]['total']) * 2"))
told["value"] = cell.results[0].data["text/plain"]
told["state"] = of(Session, get_session.sync("generated", client=client)).state.value
told["lines"] = exec_.sync(made.id, client=client, body=ExecBody(
    argv=["/bin/sh", "-c", "wc -l < /tmp/data/sales.csv"])).stdout
listed = of(ListSessionsResponse200, list_sessions.sync(client=client))
told["listed"] = [of(Session, each).name for each in listed.sessions]
write_file.sync(made.id, client=client, path="/workspace/a.txt", body=File(payload=BytesIO(b"hello\n")))
told["file"] = of(File, read_file.sync(made.id, client=client, path="/workspace/a.txt")).payload.read().decode()
told["refused"] = of(Error, get_session.sync("no-such-one", client=client)).error.code.value
told["ended"] = of(Session, delete_session.sync(made.id, client=client)).state.value
told["left"] = [each.name for each in list_sessions.sync(client=client).sessions]
print(json.dumps(told))
