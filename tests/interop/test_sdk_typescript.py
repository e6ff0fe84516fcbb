"""The TypeScript SDK against a real server: built as the package is, used by name from ESM and CommonJS.

The scenarios are in clients/sdk.test.mjs; they run once over TCP with a key on this machine's Node, and
once over the unix socket on the newest Node that the cache has.
"""
import json
import re
import shutil
import subprocess

import model_server
import pytest
import serve
import support
import tcp

from sdk_server import CLIENTS, SdkServer, interop_cache

NEWEST_NODE = "mcp-inspector/node_modules/node/bin/node"  # in the cache
SCENARIOS = support.REPO / "tests" / "interop" / "clients" / "sdk.test.mjs"
SMOKE = SCENARIOS.with_name("sdk_smoke.mjs")

USING = """
import { Sandbox, type Execution } from "bailey-sandbox";
async function main(): Promise<string> {
    await using sandbox = await Sandbox.create();
    const execution: Execution = await sandbox.runCode("1+1");
    return `${sandbox.id} ${execution.text}`;
}
main().then((text) => console.log(text));
"""


@pytest.fixture(scope="module")
def server():
    with SdkServer() as running:
        yield running


@pytest.fixture(scope="module")
def cache():
    """Compiler and a new Node; skips only when the registry cannot be reached."""
    if not shutil.which("npm"):
        pytest.skip("no npm: the TypeScript SDK is built with packages that it fetches")
    return interop_cache("sdk-typescript", "mcp-inspector")


@pytest.fixture(scope="module")
def project(cache, tmp_path_factory):
    """A folder whose node_modules has the package as npm would put it there."""
    folder = tmp_path_factory.mktemp("project")
    package = folder / "node_modules" / "bailey-sandbox"
    package.mkdir(parents=True)
    source = CLIENTS / "typescript"
    shutil.copy(source / "package.json", package)
    tsc = cache / "sdk-typescript/node_modules/typescript/bin/tsc"
    run([shutil.which("node"), source / "scripts" / "build.mjs", tsc, package / "dist"])
    shutil.copy(SCENARIOS, folder / "sdk.test.mjs")
    (folder / "package.json").write_text('{"type": "module", "dependencies": {"bailey-sandbox": "*"}}')
    return folder


def run(command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **kwargs)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_scenarios(server, cache, project, way):
    node = shutil.which("node") if way == "tcp" else cache / NEWEST_NODE
    before = server.names()
    out = run([node, "--test", "--test-reporter=tap", "sdk.test.mjs"], cwd=project,
              env=server.client_env(way))
    assert "# fail 0" in out and "# pass 0" not in out and "# skipped 0" in out, out[-3000:]
    assert server.names() == before


def test_await_using_in_typescript(server, cache, project):
    """Types fit a strict program, and the block's end closes the sandbox."""
    modules = cache / "sdk-typescript" / "node_modules"
    (project / "using.mts").write_text(USING)
    run([shutil.which("node"), modules / "typescript/bin/tsc", "--strict", "--target", "ES2022", "--module",
         "NodeNext", "--lib", "ES2022,ESNext.Disposable", "--typeRoots", modules / "@types", "--types", "node",
         "--skipLibCheck", "false", "--exactOptionalPropertyTypes", "using.mts"], cwd=project)
    session, text = run([shutil.which("node"), "using.mjs"], cwd=project, env=server.client_env("tcp")).split()
    assert text == "2" and session not in server.names()


CHAT = """
import assert from "node:assert/strict";
import { CodeInterpreterSession, Sandbox } from "bailey-sandbox";

const session = new CodeInterpreterSession({ model: process.env.MODEL });
const reply = await session.generateResponse("How many?", { files: [{ name: "a.txt", content: Buffer.from("1 2") }] });
assert.equal(reply.content, "Two.");
assert.deepEqual(reply.codeLog.map(([, output]) => output), ["2\\n"]);
assert.deepEqual(reply.files.map(({ name, content }) => [name, content.toString()]), [["made.txt", "x"]]);
assert.deepEqual(session.messages.map(({ role }) => role), ["user", "assistant"]);
await session.stop();
assert.throws(() => new CodeInterpreterSession({ maxSteps: 3 }), /need a function/);

const sandbox = await Sandbox.create();
await sandbox.runCode("x = 6");
assert.equal((await sandbox.pause()).state, "paused");
await assert.rejects(sandbox.runCode("x"), { code: "session_paused" });
await sandbox.resume();
assert.equal((await sandbox.runCode("x * 7")).text, "42");
await sandbox.close();
console.log("good");
"""


def test_the_servers_model_answers_and_a_paused_sandbox_goes_on(project):
    with model_server.Server() as model, serve.Daemon({"BAILEY_UPSTREAM_URL": model.url}) as daemon:
        name = model.script("ts", [
            model_server.code("print(len(open('/mnt/data/a.txt').read().split()))\n"
                              "with open('/tmp/output/made.txt', 'w') as file: count = file.write('x')"),
            model_server.text("Two.")])
        (project / "chat.mjs").write_text(CHAT)
        env = {**support.environment(daemon.room), "BAILEY_URL": f"unix://{daemon.socket}", "MODEL": name}
        assert run([shutil.which("node"), "chat.mjs"], cwd=project, env=env) == "good\n"
        assert daemon.get("/v1/sessions")["sessions"] == []


def test_the_lock_file_fits_the_package():
    package = json.loads((CLIENTS / "typescript" / "package.json").read_text())
    lock = json.loads((CLIENTS / "typescript" / "package-lock.json").read_text())
    assert lock["packages"][""]["devDependencies"] == package["devDependencies"]
    assert "dependencies" not in package and lock["version"] == package["version"]
    for name, version in package["devDependencies"].items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == version


PRINTED = ["2\n", "green\n3\nas it comes\ntext\ntrue path_not_found\n"]


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_block_of_the_document(server, project, number):
    text = (support.REPO / "docs" / "sdk.md").read_text()
    blocks = re.findall(r"^```js\n(.*?)^```$", text, re.M | re.S)
    assert len(blocks) == len(PRINTED)
    (project / f"block{number}.mjs").write_text(blocks[number])
    assert run([shutil.which("node"), f"block{number}.mjs"], cwd=project,
               env=server.client_env("unix")) == PRINTED[number]


def test_https(project, tmp_path):
    shutil.copy(SMOKE, project / "smoke.mjs")
    with tcp.Server(tls=tcp.certificate(tmp_path, "localhost")) as server:
        env = support.environment(server.room, {"BAILEY_URL": f"https://localhost:{server.port}",
                                                "BAILEY_API_KEY": server.key,
                                                "NODE_EXTRA_CA_CERTS": tmp_path / "localhost.pem"})
        out = run([shutil.which("node"), "smoke.mjs"], cwd=project, env=env)
    assert json.loads(out) == ["2", "streamed\n", "fed", "text", 5, "path_not_found"]


@pytest.mark.parametrize("runtime", ["deno", "bun"])
@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_other_runtimes(server, cache, project, runtime, way):
    words = {"deno": ["deno", "run", "-A", "--node-modules-dir=manual"], "bun": ["bun", "run"]}[runtime]
    program = interop_cache("sdk-runtimes") / "sdk-runtimes" / "node_modules" / ".bin" / words[0]
    shutil.copy(SMOKE, project / "smoke.mjs")
    out = run([program, *words[1:], "smoke.mjs"], cwd=project, env=server.client_env(way))
    assert json.loads(out) == ["2", "streamed\n", "fed", "text", 5, "path_not_found"]


SETTINGS = """
import { Sandbox } from "bailey-sandbox";
try {
    const sandbox = await Sandbox.create();
    const blocked = await sandbox.runCode("import socket").catch((error) => error);
    console.log(JSON.stringify({ id: sandbox.id, blocked: blocked.code }));
    await sandbox.detach();
} catch (error) {
    console.log(JSON.stringify({ error: error.message }));
}
process.exit(0);
"""


@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_what_the_environment_sets_goes_along(server, project, way):
    (project / "settings.mjs").write_text(SETTINGS)
    command = [shutil.which("node"), "settings.mjs"]
    env = server.client_env(way, SANDBOX_MEMORY_LIMIT="96m", SANDBOX_BLOCK_DANGEROUS_IMPORTS="true")
    said = json.loads(run(command, cwd=project, env=env))
    made = server.get(f"/v1/sessions/{said['id']}")
    assert made["settings"]["SANDBOX_MEMORY_LIMIT"] == "96m" and made["limits"]["memory_bytes"] == 96 << 20
    assert said["blocked"] == "blocked_import", said
    server.end(said["id"])
    said = json.loads(run(command, cwd=project, env=server.client_env(way, SANDBOX_MEMORY_LIMIT="999g")))
    assert "SANDBOX_MEMORY_LIMIT" in said["error"] and "999g" in said["error"], said
