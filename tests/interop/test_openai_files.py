"""OpenAI's own clients (Python, JavaScript) with containers and files."""
import json
import subprocess

import pytest

import sdk_server
import support
import tenants

HERE = support.REPO / "tests" / "interop" / "clients"


@pytest.fixture(scope="module")
def server():
    with tenants.Server() as running:
        yield running


def command(row):
    folder = sdk_server.interop_cache(row) / row
    if row.endswith("py"):
        return [folder / "bin" / "python", HERE / "openai_files.py"], {}
    return [sdk_server.newest_node(), HERE / "openai_files.mjs"], {"MODULES": folder}


@pytest.mark.parametrize("row", ["openai-py", "openai-js"])
def test_containers_and_files_work_with_openais_own_client(server, row):
    argv, more = command(row)
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "OPENAI_BASE_URL": f"http://127.0.0.1:{server.port}/v1",
           "OPENAI_API_KEY": server.caller(f"tenant-of-{row}").text, **more}
    done = subprocess.run(argv, env={k: str(v) for k, v in env.items()}, capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    seen.pop("version", None)
    assert seen == {
        "file": ["file-", 2_000_000, "räport.bin", "user_data", "processed"],
        "same": True, "listed": True, "retrieved": True,
        "container": ["cntr_", "data", "running", 10],
        "path": ["/mnt/data/a.csv", "user", 4, True],
        "paths": ["/mnt/data/a.csv", "/mnt/data/räport.bin"],
        "content": "x\n1\n", "shown": 2_000_000, "left": ["/mnt/data/räport.bin"], "found": True,
        "errors": [["BadRequestError", 400, "bad_input", "memory_limit"],
                   ["NotFoundError", 404, "container_not_found", None],
                   ["NotFoundError", 404, "file_not_found", None],
                   ["NotFoundError", 404, "file_not_found", "file_ids"]],
        "deleted": True,
    }
