// find.ts - which server is meant, and starting the local daemon when none was named.
import { execFile } from "node:child_process";
import { access, constants, readFile } from "node:fs/promises";
import { connect } from "node:net";
import { delimiter, join } from "node:path";
import { CALLER_SETTINGS, DAEMON_SETTINGS } from "./api.js";
import { NoServerError } from "./errors.js";
import { parseAddress, unixAddress, type Address } from "./wire.js";

const START_TIMEOUT_MS = 60_000;
const ELSE = "give a server's address (url, or BAILEY_URL and BAILEY_API_KEY), or install bailey so that it is on PATH";

type Environment = Record<string, string | undefined>;

/** The server that was named; undefined: the local daemon. */
export function configured(url: string | undefined, env: Environment = process.env): Address | undefined {
    const chosen = url ?? env["BAILEY_URL"];
    return chosen ? parseAddress(chosen) : undefined;
}

/**
 * The header Bailey-Settings: what the environment sets, as the command line sends it. Keys of the daemon only
 * go to the local one, which has to agree with them; paths of interpreters only to a server of this machine.
 */
export async function settings(named: Address | undefined, env: Environment = process.env): Promise<string | undefined> {
    const found: Record<string, string> = {};
    const isElsewhere = named !== undefined && named.socketPath === undefined;
    for (const name of named === undefined ? [...CALLER_SETTINGS, ...DAEMON_SETTINGS] : CALLER_SETTINGS) {
        const value = env[name];
        const isProgram = name === "SANDBOX_PYTHON" || name === "SANDBOX_NODE";
        if (!value || (isProgram && isElsewhere)) continue;
        found[name] = isProgram && !value.includes("/") ? ((await onPath(value, env)) ?? value) : value;
    }
    if (Object.keys(found).length === 0) return undefined;
    // a header is ASCII
    return JSON.stringify(found).replace(/[\u007f-\uffff]/g, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
}

function stateFolder(env: Environment): string | undefined {
    if (env["BAILEY_STATE_DIR"]) return env["BAILEY_STATE_DIR"];
    if (env["XDG_STATE_HOME"]?.startsWith("/")) return join(env["XDG_STATE_HOME"], "bailey");
    if (env["HOME"]?.startsWith("/")) return join(env["HOME"], ".local/state/bailey");
    return process.geteuid?.() === 0 ? "/var/lib/bailey" : undefined;
}

/** Where the daemon's socket may be: as the daemon wrote it down, then the default places. */
async function sockets(env: Environment): Promise<string[]> {
    const found: string[] = [];
    const state = stateFolder(env);
    if (state) {
        try {
            const record = JSON.parse(await readFile(join(state, "daemon.json"), "utf8")) as { socket?: unknown };
            if (typeof record.socket === "string") found.push(record.socket);
        } catch {
            // no daemon was here
        }
    }
    if (env["XDG_RUNTIME_DIR"]?.startsWith("/")) found.push(join(env["XDG_RUNTIME_DIR"], "bailey/engine.sock"));
    else if (state) found.push(join(state, "run/engine.sock"));
    return found;
}

function answers(path: string): Promise<boolean> {
    return new Promise((resolve) => {
        const probe = connect(path);
        probe.once("connect", () => {
            probe.destroy();
            resolve(true);
        });
        probe.once("error", () => resolve(false));
    });
}

async function onPath(name: string, env: Environment): Promise<string | undefined> {
    for (const folder of (env["PATH"] ?? "").split(delimiter)) {
        try {
            if (!folder) continue;
            await access(join(folder, name), constants.X_OK);
            return join(folder, name);
        } catch {
            // not in this one
        }
    }
    return undefined;
}

function bailey(program: string, words: string[], env: Environment): Promise<{ stdout: string; stderr: string; failed: boolean }> {
    return new Promise((resolve) => {
        execFile(program, words, { timeout: START_TIMEOUT_MS, env: env as NodeJS.ProcessEnv }, (error, stdout, stderr) => {
            resolve({ stdout, stderr: stderr || (error ? error.message : ""), failed: error !== null });
        });
    });
}

/** The local daemon's address; starts the daemon when nothing listens there. */
export async function local(env: Environment = process.env): Promise<Address> {
    const tried = await sockets(env);
    for (const path of tried) {
        if (await answers(path)) return unixAddress(path);
    }
    const program = await onPath("bailey", env);
    if (!program) {
        const where = tried[0] ? ` (nothing listens on ${tried[0]})` : "";
        throw new NoServerError(`no server is configured and no local daemon is running${where}; ${ELSE}`);
    }
    const started = await bailey(program, ["session", "ls", "--json"], env);
    if (started.failed) throw new NoServerError(`the local daemon could not be started: ${started.stderr.trim()}`);
    const status = await bailey(program, ["daemon", "status", "--json"], env);
    try {
        return unixAddress((JSON.parse(status.stdout) as { socket: string }).socket);
    } catch {
        throw new NoServerError(`the local daemon does not say where its socket is: ${status.stderr.trim()}`);
    }
}
