// sdk.test.mjs - the TypeScript SDK against a real server, run by test_sdk_typescript.py with node --test.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import * as http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after, before, test } from "node:test";
import * as bailey from "bailey-sandbox";

const { Sandbox, Client, CodeBox, CodeInterpreterSession } = bailey;
let sandbox;

before(async () => {
    sandbox = await Sandbox.create({ data: { sales: Buffer.from("region,sum\nnorth,3\n") }, env: { COLOUR: "green" } });
});
after(() => sandbox.close());

const living = async () => (await Sandbox.list()).map((one) => one.id);

test("the five lines", async () => {
    const one = await Sandbox.create();
    assert.equal((await one.runCode("1+1")).text, "2");
    assert.ok((await living()).includes(one.id));
    await one.close();
    await one.close();
    assert.ok(!(await living()).includes(one.id));
});

test("asyncDispose ends the session", async () => {
    const one = await Sandbox.create();
    await one[Symbol.asyncDispose]();
    assert.ok(!(await living()).includes(one.id));
});

test("a dataset that cannot be read leaves no session", async () => {
    const before = await living();
    await assert.rejects(Sandbox.create({ data: { x: "/nowhere/x.csv" } }), { code: "ENOENT" });
    assert.deepEqual(await living(), before);
});

test("connect and detach", async () => {
    const name = `again-${process.pid}`;
    const first = await Sandbox.create({ name });
    await first.runCode("x = 7");
    const id = await first.detach();
    const second = await Sandbox.connect(name);
    assert.equal(second.id, id);
    assert.equal((await second.runCode("x")).text, "7");
    await second.close();
    assert.ok((await living()).includes(id));
    await (await Sandbox.connect(id)).kill();
    await assert.rejects(Sandbox.connect(id), bailey.SessionEndedError);
});

test("results of a cell", async () => {
    const execution = await sandbox.runCode(`
import sys
print("printed")
print("wrong", file=sys.stderr)
display({"text/html": "<b>x</b>", "image/svg+xml": "<svg/>", "application/json": {"a": 1}, "image/png": "iVBORw=="}, raw=True)
40 + 2`);
    assert.equal(execution.text, "42");
    assert.equal(execution.html, "<b>x</b>");
    assert.equal(execution.svg, "<svg/>");
    assert.deepEqual(execution.json, { a: 1 });
    assert.deepEqual(execution.png, Buffer.from([0x89, 0x50, 0x4e, 0x47]));
    assert.deepEqual([execution.stdout, execution.stderr, execution.success], ["printed\n", "wrong\n", true]);
});

test("an exception in code is a result, and an error with check", async () => {
    const execution = await sandbox.runCode("1/0");
    assert.equal(execution.error.name, "ZeroDivisionError");
    assert.equal(execution.exitCode, 1);
    await assert.rejects(sandbox.runCode("1/0", { check: true }), { name: "CommandError", code: "code_raised" });
});

test("callbacks", async () => {
    const seen = [];
    const execution = await sandbox.runCode("import sys\nprint('ü')\nprint('bad', file=sys.stderr)\ndisplay(1)\n2", {
        onStdout: (text) => seen.push(["out", text]), onStderr: (text) => seen.push(["err", text]),
        onResult: (result) => seen.push([result.type, result.text]),
    });
    assert.equal(execution.text, "2");
    assert.deepEqual(seen.toSorted?.() ?? [...seen].sort(),
        [["display", "1"], ["err", "bad\n"], ["out", "ü\n"], ["result", "2"]]);
});

test("time limits and other languages", async () => {
    assert.equal((await sandbox.runCode("while True: pass", { timeout: 0.3 })).timedOut, true);
    assert.equal((await sandbox.runCode("echo $((6*7))", { language: "bash" })).stdout, "42\n");
});

test("contexts", async () => {
    const context = await sandbox.createContext({ name: "other" });
    await sandbox.runCode("x = 1");
    assert.equal((await sandbox.runCode("'x' in globals()", { context })).text, "False");
    await sandbox.restartContext();
    assert.equal((await sandbox.runCode("'x' in globals()")).text, "False");
    await sandbox.deleteContext(context);
    assert.ok(!(await sandbox.contexts()).some((one) => one.name === "other"));
});

test("commands", async () => {
    assert.equal((await sandbox.commands.run("echo $COLOUR")).stdout, "green\n");
    const result = await sandbox.commands.run(["sh", "-c", "cat; pwd; exit 3"], { stdin: "in\n", cwd: "/tmp" });
    assert.deepEqual([result.stdout, result.exitCode], ["in\n/tmp\n", 3]);
    const seen = [];
    await sandbox.commands.run("echo one; echo two >&2", { onStdout: (t) => seen.push(t), onStderr: (t) => seen.push(t) });
    assert.deepEqual(seen.sort(), ["one\n", "two\n"]);
    await assert.rejects(sandbox.commands.run(["no-such-program"], { check: true }), { code: "command_not_found" });
    const bytes = await sandbox.commands.run("od -An -tx1", { stdin: Buffer.from([0xff, 0, 0xfe]) });
    assert.deepEqual(bytes.stdout.trim().split(/\s+/), ["ff", "00", "fe"]);
});

test("a handle", async () => {
    const handle = await sandbox.commands.start(["cat"], { stdin: true });
    assert.equal(await handle.sendStdin("first\n"), 6);
    const stream = handle.stream();
    assert.equal((await stream.next()).value.text, "first\n");
    await assert.rejects(handle.wait({ waitMs: 50 }), bailey.SandboxTimeoutError);
    await handle.sendStdin(Buffer.from([0xff]), { end: true });
    assert.deepEqual((await stream.next()).value.data, Buffer.from([0xff]));
    assert.equal((await stream.next()).value.exitCode, 0);
    assert.equal((await handle.wait()).exitCode, 0);
    assert.deepEqual(await handle.read(), Buffer.from("first\n\xff", "latin1"));
    assert.equal(await handle.kill(), false);
});

test("disposing of a handle kills", async () => {
    const handle = await sandbox.commands.start("sleep 1000");
    await handle[Symbol.asyncDispose]();
    assert.equal((await (await sandbox.commands.get(handle.executionId)).wait()).exitCode, 128 + 9);
});

test("much output is whole in the stream", async () => {
    const handle = await sandbox.commands.start("seq 1 200000");
    let bytes = 0;
    for await (const chunk of handle) bytes += chunk.data.length;
    assert.equal(bytes, Number((await sandbox.commands.run("seq 1 200000 | wc -c")).stdout));
    assert.equal(handle.result.truncated, true);
});

test("aborting ends the work", async () => {
    const stop = new AbortController();
    await assert.rejects(sandbox.commands.run("echo up; sleep 1000",
        { timeout: 0, onStdout: () => stop.abort(), signal: stop.signal }), { name: "AbortError" });
    const [{ execution_id }] = await sandbox.commands.list();
    assert.notEqual((await (await sandbox.commands.get(execution_id)).wait()).exitCode, 0);
});

test("files", async () => {
    const { files } = sandbox;
    await files.mkdir("deep/er");
    assert.equal(await files.write("deep/er/a.txt", "grün"), 5);
    assert.equal(await files.read("/workspace/deep/er/a.txt"), "grün");
    assert.equal((await files.readBytes("deep/er/a.txt", { offset: 2, length: 2 })).toString(), "ü");
    await assert.rejects(files.write("deep/er/a.txt", "", { new: true }), bailey.PathExistsError);
    await files.chmod("deep/er/a.txt", "0755");
    assert.equal((await files.stat("deep/er/a.txt")).mode, "0755");
    await files.move("deep/er/a.txt", "b.txt");
    assert.deepEqual([await files.exists("b.txt"), await files.exists("deep/er/a.txt")], [true, false]);
    await assert.rejects(files.remove("deep"), bailey.ConflictError);
    await files.remove("deep", { recursive: true });
    await assert.rejects(files.list("deep"), { name: "PathNotFoundError", code: "path_not_found", status: 404 });
});

test("upload and download", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sdk-"));
    const content = randomBytes(3 * 1024 * 1024 + 7);
    await writeFile(join(folder, "big.bin"), content);
    assert.equal(await sandbox.files.upload(join(folder, "big.bin")), "/workspace/big.bin");
    await sandbox.files.download("big.bin", join(folder, "back.bin"));
    assert.ok(content.equals(await readFile(join(folder, "back.bin"))));
    await assert.rejects(sandbox.files.download("absent", join(folder, "absent")), bailey.PathNotFoundError);
    assert.deepEqual((await readdir(folder)).sort(), ["back.bin", "big.bin"]);
    await rm(folder, { recursive: true });
    await sandbox.files.write("pieces.txt", Readable.from([Buffer.from("one "), Buffer.from("two")]));
    assert.equal(await sandbox.files.read("pieces.txt"), "one two");
});

test("watch", async () => {
    const watch = await sandbox.files.watch();
    await sandbox.files.write("seen.txt", "1");
    for await (const change of watch) {
        assert.deepEqual([change.path, change.type], ["/workspace/seen.txt", "file"]);
        break;
    }
});

test("datasets and outputs", async () => {
    assert.equal((await sandbox.commands.run("cat /tmp/data/sales.csv")).stdout, "region,sum\nnorth,3\n");
    assert.deepEqual((await sandbox.datasets.list()).map((one) => one.name), ["sales"]);
    const result = await sandbox.commands.run("mkdir -p '/tmp/output/of day'; echo 1 > '/tmp/output/of day/r.csv'");
    assert.deepEqual(result.outputFiles.map((one) => one.name), ["of day/r.csv"]);
    assert.equal((await sandbox.outputs.read("of day/r.csv")).toString(), "1\n");
});

test("ports", async () => {
    assert.deepEqual(await sandbox.ports.list(), []);
    const server = await sandbox.commands.start("echo hello >hello.txt; python3 -u -m http.server --bind 127.0.0.1 8000");
    assert.match((await server.stream().next()).value.text, /Serving/);
    assert.deepEqual(await sandbox.ports.list(), [8000]);
    if (process.env.BAILEY_URL?.startsWith("http")) {
        const reply = await fetch(await sandbox.ports.url(8000, { path: "hello.txt", seconds: 60 }));
        assert.equal(await reply.text(), "hello\n");
    } else {
        await assert.rejects(sandbox.ports.url(8000), /bailey port -s/);
    }
    await server.kill();
});

test("a terminal", async () => {
    const terminal = await sandbox.pty({ command: "stty size; read line; echo got:$line; exit 5", rows: 10, columns: 33 });
    await terminal.readUntil("10 33");
    await terminal.send("word\r");
    await terminal.readUntil("got:word");
    assert.equal(await terminal.wait(), 5);
    const left = await sandbox.pty({ command: "cat" });
    await left.send("one\r");
    await left.readUntil("one\r\none");
    await left.detach();
    const again = await sandbox.pty({ execution: left.executionId, offset: left.offset });
    await again.resize(20, 60);
    await again.send("two\r");
    await again.readUntil("two\r\ntwo");
    await again.close();
    assert.notEqual((await (await sandbox.commands.get(left.executionId)).wait()).exitCode, 0);
});

test("install", async () => {
    const lines = [];
    const added = await sandbox.install("castle", { onProgress: (line) => lines.push(line) });
    assert.deepEqual(added.map((one) => one.name).sort(), ["castle", "moat"]);
    assert.ok(lines.length > 0);
    assert.equal((await sandbox.runCode("import castle; castle.walls")).text, "42");
    await assert.rejects(sandbox.install(["no-such-package-anywhere"]), bailey.InstallError);
});

test("errors are typed and carry the server's code", async () => {
    await assert.rejects(Sandbox.create({ template: "no-such" }), { name: "TemplateNotFoundError", code: "template_not_found" });
    await assert.rejects(Sandbox.connect("nobody-here"), bailey.SessionNotFoundError);
    await assert.rejects(Sandbox.create({ url: "unix:///nowhere/x.sock", retries: 0 }),
        { name: "SandboxConnectionError", code: "connection_failed" });
    await assert.rejects(Sandbox.create({ url: "ftp://x" }), { code: "bad_address" });
    await assert.rejects(bailey.getSandbox("no-such-runtime"), (error) => error.field === "type");
});

test("one-shot runs", async () => {
    const client = new Client();
    const result = await client.run("import sys; print(sys.argv[1:]); sys.exit(3)", { arguments: ["a"] });
    assert.deepEqual([result.stdout, result.exitCode], ["['a']\n", 3]);
    client.close();
    assert.equal(await bailey.runPythonCode("print(6*7)"), "42\n");
    assert.match(await bailey.runPythonCode("1/0"), /ZeroDivisionError/);
    assert.match(await bailey.runPythonCode("1", { url: "unix:///nowhere/x.sock" }), /^Error: .*nowhere/);
});

test("CodeBox", async () => {
    const box = new CodeBox();
    assert.equal((await box.run("1/0")).type, "error");
    assert.equal((await box.run("print(6*7)")).content, "42");
    await box.upload("in.txt", "content");
    assert.deepEqual((await box.listFiles()).map((one) => one.name), ["in.txt"]);
    assert.equal((await box.download("in.txt")).content.toString(), "content");
    assert.equal((await box.run("import castle; castle.walls")).content, "42");
    await box.run("x = 1");
    await box.restart();
    assert.equal((await box.run("x")).type, "error");
    assert.equal(await box.status(), "running");
    await box.stop();
    assert.equal(await box.status(), "stopped");
    assert.equal((await new CodeBox({ url: "unix:///nowhere/x.sock", retries: 0 }).run("1")).type, "error");
});

test("CodeInterpreterSession", async () => {
    let calls = 0;
    const session = new CodeInterpreterSession({
        model: async (messages) => calls++ ? `The sum is ${messages.at(-1).content.split("\n").at(-1)}`
            : "```python\ntotal = sum(int(x) for x in open('a.csv').read().split()[1:])\n" +
              "open('/tmp/output/t.txt', 'w').write(str(total))\ntotal\n```",
    });
    const answer = await session.generateResponse("What is the sum?", { files: [{ name: "a.csv", content: Buffer.from("a\n1\n2\n") }] });
    assert.equal(answer.content, "The sum is 3");
    assert.deepEqual(answer.files, [{ name: "t.txt", content: Buffer.from("3") }]);
    assert.deepEqual(answer.codeLog.map(([, output]) => output), ["Output:\n3"]);
    await session.stop();
    const endless = new CodeInterpreterSession({ model: () => "```python\n1\n```", maxSteps: 2 });
    await assert.rejects(endless.generateResponse("loop"), { code: "too_many_steps" });
    await endless.stop();
});

test("CommonJS has the same names", () => {
    const required = createRequire(import.meta.url)("bailey-sandbox");
    assert.deepEqual(Object.keys(required).filter((name) => name !== "__esModule").sort(), Object.keys(bailey).sort());
});

// --- what is tried again: a server of a few lines ---

async function scripted(answers, work) {
    const requests = [];
    const server = http.createServer(async (request, reply) => {
        for await (const _ of request);
        requests.push(request);
        const [status, headers, body] = answers.shift();
        if (status === 0) return request.socket.destroy();
        reply.writeHead(status, headers).end(JSON.stringify(body));
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const client = new Client({ url: `http://127.0.0.1:${server.address().port}` });
    try {
        return [await work(client).catch((error) => error), requests];
    } finally {
        client.close();
        server.close();
    }
}
const BUSY = [503, { "Retry-After": "0" }, { error: { code: "busy", message: "later" } }];
const DONE = [200, {}, { stdout: "", stderr: "", exit_code: 0, duration: 0, meta: {} }];

test("busy is tried again with the same key", async () => {
    const [result, requests] = await scripted([BUSY, BUSY, DONE], (client) => client.run("1"));
    assert.equal(result.exitCode, 0);
    assert.equal(requests.length, 3);
    assert.equal(new Set(requests.map((one) => one.headers["idempotency-key"])).size, 1);
});

test("what makes something is tried again with the same key after a lost connection", async () => {
    const running = [409, { "Retry-After": "0" }, { error: { code: "idempotency_key_running", message: "later" } }];
    const [result, requests] = await scripted([[0], running, DONE], (client) => client.run("1"));
    assert.equal(result.exitCode, 0);
    assert.equal(requests.length, 3);
    assert.equal(new Set(requests.map((one) => one.headers["idempotency-key"])).size, 1);
});

test("ending a session is tried again after a lost connection", async () => {
    const made = [201, {}, { id: "s", state: "running" }];
    const [result, requests] = await scripted([made, [0], [200, {}, {}]], async (client) => (await Sandbox.create({ client })).close());
    assert.equal(result, undefined);
    assert.deepEqual(requests.map((one) => one.method), ["POST", "DELETE", "DELETE"]);
});

test("a package that cannot be installed is named in the output of a CodeBox", async () => {
    const cell = { ...DONE[2], exit_code: 1, results: [], error: { name: "ModuleNotFoundError", value: "No module named 'nothere'", traceback: "" } };
    const answers = [[201, {}, { id: "s", state: "running" }], [200, {}, cell],
        [422, {}, { error: { code: "install_denied", message: "not on the list" } }], [200, {}, {}]];
    const [output] = await scripted(answers, async (client) => {
        const box = new CodeBox({ client });
        const output = await box.run("import nothere");
        await box.stop();
        return output;
    });
    assert.equal(output.type, "error");
    assert.match(output.content, /nothere could not be installed: not on the list/);
});

test("a server at an IPv6 address is named with brackets", async () => {
    const client = new Client({ url: "http://[::1]:9", retries: 0 });
    await assert.rejects(client.info(), /http:\/\/\[::1\]:9/);
    for (const url of ["unix://x.sock", "http://h:port", "ftp://h"]) assert.throws(() => new Client({ url }), { code: "bad_address" });
});

test("a read is tried again after a lost connection", async () => {
    const [result, requests] = await scripted([[0], [200, {}, { sessions: [] }]], (client) => client.sessions());
    assert.deepEqual(result, []);
    assert.equal(requests.length, 2);
});

if (process.env.BAILEY_URL.startsWith("unix:")) { // over TCP the server does not tell its process ids
    test("a stream goes on with a new broker", async () => {
        const client = new Client({ retries: 10 });
        const handle = await sandbox.commands.start(["sh", "-c", "echo first; read x; seq 1 1000"], { stdin: true });
        const stream = handle.stream();
        assert.equal((await stream.next()).value.text, "first\n");
        process.kill((await client.info()).broker_pid, "SIGKILL");
        await client.info(); // a read is tried again until the new one answers
        await handle.sendStdin("go\n", { end: true });
        let text = "";
        for await (const chunk of stream) text += chunk.text;
        assert.equal(text, Array.from({ length: 1000 }, (_, n) => `${n + 1}\n`).join(""));
        client.close();
    });
}
