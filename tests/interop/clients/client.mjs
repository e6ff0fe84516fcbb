// client.mjs - the official TypeScript SDKs, either line of it, as a user of `bailey mcp` or of /mcp.
//
//     node client.mjs MODULES SCENARIO.json ERA COMMAND ARGUMENT...   ERA: legacy, auto, or a version
//     node client.mjs MODULES SCENARIO.json ERA URL KEY [SESSION]     over HTTP; all name the session
//
// MODULES is a folder that tools/interop-setup made. Prints what it saw as one JSON object.
import { readFileSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, scenario, era, command, ...args] = process.argv.slice(2);
const plan = JSON.parse(readFileSync(scenario, "utf8"));
const isHttp = command.startsWith("http://");
const session = isHttp && args[1] ? { session: args[1] } : {};
const require = createRequire(modules + "/package.json");
const load = (name) => import(pathToFileURL(require.resolve(name)));
const isNew = existsSync(modules + "/node_modules/@modelcontextprotocol/client");

async function connect() {
    const name = isNew ? "@modelcontextprotocol/client" : "@modelcontextprotocol/sdk/client";
    const { Client } = await load(isNew ? name : name + "/index.js");
    const mode = era === "legacy" || era === "auto" ? era : { pin: era };
    const client = new Client({ name: "interop", version: "1" },
                              isNew ? { versionNegotiation: { mode } } : {});
    await client.connect(await transport(name));
    return client;
}

async function transport(name) {
    if (!isHttp) {
        const { StdioClientTransport } = await load(isNew ? name + "/stdio" : name + "/stdio.js");
        return new StdioClientTransport({ command, args, env: process.env });
    }
    const { StreamableHTTPClientTransport } = await load(isNew ? name : name + "/streamableHttp.js");
    const headers = { Authorization: "Bearer " + args[0] };
    return new StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } });
}

async function failure(promise) {
    try {
        return { unexpected: await promise };
    } catch (problem) {
        return { code: problem.code, message: String(problem) };
    }
}

const client = await connect();
const call = (name, parameters, options) =>
    client.callTool({ name, arguments: { ...parameters, ...session } }, ...(isNew ? [options] : [undefined, options]));
const exec = (words, options) => call("sandbox_exec", { command: words }, options);
const saw = {
    version: client.getNegotiatedProtocolVersion?.() ?? client.transport?._protocolVersion ?? null,
    instructions: client.getInstructions(),
    server: client.getServerVersion()?.name,
};

saw.tools = (await client.listTools()).tools;
saw.tools_again = (await client.listTools()).tools;
saw.no_resources = (await client.listResources()).resources;
saw.written = await call("sandbox_write_file", { file_path: "/tmp/plot.py", content: plan.script });
saw.drawn = await exec(["python3", "/tmp/plot.py"]);
saw.resources = (await client.listResources()).resources;
const links = saw.drawn.content.filter((b) => b.type === "resource_link").map((b) => b.uri);
saw.read = [];
for (const uri of links)
    saw.read.push((await client.readResource({ uri })).contents[0]);
saw.missing = await failure(client.readResource({ uri: links[0] + ".not" }));
saw.templates = (await client.listResourceTemplates()).resourceTemplates;
saw.prompts = (await client.listPrompts()).prompts;
saw.prompt = await client.getPrompt({ name: saw.prompts[0].name });
saw.failed = await exec(plan.fails);
saw.bad_path = await call("sandbox_write_file", { file_path: "/home/x", content: "" });
saw.python = await call("run_python_code", { code: "print(6 * 7)" });
saw.unknown = await failure(call("sandbox_exce", {}));
saw.parallel = await Promise.all([exec(plan.waits), exec(plan.goes)]);

const told = [];
const onprogress = (progress) => {
    told.push([progress.progress, progress.message]);
    if (progress.message.includes("step one")) exec(plan.seen);
};
saw.progress = { result: await exec(plan.steps, { onprogress }), told };

const stop = new AbortController();
const endless = failure(exec(plan.endless, { signal: stop.signal }));
await exec(plan.runs);
stop.abort("enough");
await endless;
saw.cancelled = await exec(plan.gone);

await client.transport?.terminateSession?.();
await client.close();
console.log(JSON.stringify(saw));
process.exit(0);
