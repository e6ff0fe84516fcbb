// sandbox.ts - one sandbox from its making to its end.
import { operations, type Context, type Package, type Session } from "./api.js";
import { Client, type ClientOptions, type EventStream } from "./client.js";
import { Commands, follow, type OutputCallbacks } from "./commands.js";
import { errorFrom, NotFoundError, SandboxConnectionError, SandboxError, SessionEndedError } from "./errors.js";
import { Datasets, Files, Outputs, type DatasetSource } from "./files.js";
import { Ports } from "./ports.js";
import { openWebSocket, Pty } from "./pty.js";
import { Execution, Result } from "./results.js";
import { absolute, given, pathOf, targetOf } from "./wire.js";

export interface SandboxOptions extends ClientOptions {
    /** What is installed: "python", "data", or one of your own. */
    template?: string | undefined;
    /** A name for it; `Sandbox.connect(name)` finds it again. */
    name?: string | undefined;
    /** The runtime: "local", "docker", ... */
    type?: string | undefined;
    /** Limits: sizes as text ("2g") or bytes. */
    memory?: string | number | undefined;
    cpus?: number | undefined;
    pids?: number | undefined;
    disk?: string | number | undefined;
    /** Seconds that each execution may take, unless it says otherwise. */
    timeout?: number | undefined;
    /** Variables of everything that runs in it. */
    env?: Record<string, string> | undefined;
    /** Datasets by name: a path on this machine, or bytes; `sales` is /tmp/data/sales.csv. */
    data?: Record<string, DatasetSource> | undefined;
    /** Seconds without use after which the server ends it. */
    idleTimeout?: number | undefined;
    /** Seconds after which the server ends it in any case. */
    maxAge?: number | undefined;
    /** Texts of your own, kept with the session. */
    metadata?: Record<string, string> | undefined;
    /** A client of your own; it stays open. */
    client?: Client | undefined;
}

export interface RunCodeOptions extends OutputCallbacks {
    /** "python" (default), "javascript", "bash". */
    language?: "python" | "javascript" | "bash" | (string & {});
    /** An interpreter of createContext(); default: the language's first. */
    context?: string | Context;
    /** Seconds; 0: as long as the session lives; default: the server's (60). */
    timeout?: number;
    stdin?: string;
    env?: Record<string, string>;
    onResult?: ((result: Result) => unknown) | undefined;
    /** Throw CommandError when the code raises; else the result's `error` says it. */
    check?: boolean;
    collect?: boolean;
    signal?: AbortSignal;
}

/**
 * A sandbox that keeps files, processes and variables until it is closed.
 *
 *     await using sandbox = await Sandbox.create();
 *     console.log((await sandbox.runCode("1+1")).text);
 */
export class Sandbox {
    /** @internal */
    readonly client: Client;
    readonly commands: Commands;
    readonly files: Files;
    readonly datasets: Datasets;
    readonly outputs: Outputs;
    readonly ports: Ports;
    readonly id: string;
    readonly name: string | undefined;
    readonly #ownsClient: boolean;
    #ownsSession: boolean;
    #isClosed = false;

    private constructor(client: Client, ownsClient: boolean, session: Session, ownsSession: boolean) {
        this.client = client;
        this.#ownsClient = ownsClient;
        this.#ownsSession = ownsSession;
        this.id = session.id;
        this.name = session.name ?? undefined;
        this.commands = new Commands(this);
        this.files = new Files(this);
        this.datasets = new Datasets(this);
        this.outputs = new Outputs(this);
        this.ports = new Ports(this);
    }

    /** Makes a sandbox. Members that are not given are left to the server; one that the server does not know
     *  is an InvalidRequestError that names it. */
    static async create(options: SandboxOptions = {}): Promise<Sandbox> {
        const { memory, cpus, pids, disk, timeout } = options;
        const limits = given({ memory, cpus, pids, disk, timeout });
        const body = given({
            name: options.name, template: options.template, type: options.type, env: options.env,
            idle_timeout_s: options.idleTimeout, max_age_s: options.maxAge, metadata: options.metadata,
            limits: Object.keys(limits).length ? limits : undefined,
        });
        const client = options.client ?? new Client(options);
        let sandbox: Sandbox | undefined;
        try {
            const session = await client.call<Session>(operations.createSession, { body, makes: true });
            sandbox = new Sandbox(client, !options.client, session, true);
            for (const [name, source] of Object.entries(options.data ?? {})) await sandbox.datasets.put(name, source);
            return sandbox;
        } catch (error) {
            await sandbox?.close().catch(() => undefined);
            if (!options.client) client.close();
            throw error;
        }
    }

    /** A sandbox that exists, by id or name. Closing it leaves the session alive; kill() ends it. */
    static async connect(session: string, options: ClientOptions & { client?: Client } = {}): Promise<Sandbox> {
        const client = options.client ?? new Client(options);
        try {
            const found = await client.call<Session>(operations.getSession, { path: pathOf(operations.getSession, { id: session }) });
            if (found.state === "ended") {
                throw new SessionEndedError(`the session ${session} has ended (${found.end_reason}); make a new one`,
                    "session_ended", undefined, { ...found });
            }
            return new Sandbox(client, !options.client, found, false);
        } catch (error) {
            if (!options.client) client.close();
            throw error;
        }
    }

    /** The sessions of the server. */
    static async list(options: ClientOptions & { ended?: boolean } = {}): Promise<Session[]> {
        const client = new Client(options);
        try {
            return await client.sessions(options.ended ? { ended: true } : {});
        } finally {
            client.close();
        }
    }

    get isClosed(): boolean {
        return this.#isClosed;
    }

    /** Ends the session (unless it was connected to) and the connections. Safe twice. */
    async close(): Promise<void> {
        if (this.#isClosed) return;
        this.#isClosed = true;
        try {
            if (this.#ownsSession) await this.#end();
        } catch (error) {
            if (!(error instanceof SessionEndedError || error instanceof NotFoundError)) throw error;
        } finally {
            if (this.#ownsClient) this.client.close();
        }
    }

    async #end(): Promise<void> {
        try {
            await this.client.endSession(this.id);
        } catch (error) {
            if (!(error instanceof SandboxConnectionError)) throw error;
            await this.client.endSession(this.id); // ending it twice does no harm
        }
    }

    /** Ends the session, also one that was connected to. */
    async kill(): Promise<void> {
        this.#ownsSession = true;
        await this.close();
    }

    /** Closes the connections and leaves the session alive; returns its id for connect(). */
    async detach(): Promise<string> {
        this.#ownsSession = false;
        await this.close();
        return this.id;
    }

    async [Symbol.asyncDispose](): Promise<void> {
        await this.close();
    }

    /** The session as it is now: state, limits, isolation, when it ends. */
    async info(): Promise<Session> {
        return this.client.call<Session>(operations.getSession, { path: pathOf(operations.getSession, { id: this.id }) });
    }

    /** Lets the session live that much longer, idle or not. */
    async extend(seconds: number): Promise<Session> {
        return this.client.call<Session>(operations.extendSession,
            { path: pathOf(operations.extendSession, { id: this.id }), body: { seconds } });
    }

    /** Stops everything in the session where it is, until resume(); memory is kept, no CPU time used. */
    async pause(): Promise<Session> {
        return this.client.call<Session>(operations.pauseSession, { path: pathOf(operations.pauseSession, { id: this.id }) });
    }

    /** Lets the same processes go on. */
    async resume(): Promise<Session> {
        return this.client.call<Session>(operations.resumeSession, { path: pathOf(operations.resumeSession, { id: this.id }) });
    }

    /** What happens in the session from now on, or behind `lastId` ("0": from the beginning). */
    async events(options: { lastId?: string } = {}): Promise<EventStream> {
        return this.client.events(operations.sessionEvents, { path: pathOf(operations.sessionEvents, { id: this.id }), ...options });
    }

    /** Runs a cell; variables stay for the next one. */
    async runCode(code: string, options: RunCodeOptions = {}): Promise<Execution> {
        const body = given({
            code, language: options.language, timeout: options.timeout, stdin: options.stdin, env: options.env,
            context: idOf(options.context), collect: options.collect,
        });
        const path = pathOf(operations.runCell, { id: this.id });
        const { onStdout, onStderr, onResult, signal } = options;
        const show = onResult && ((event: any) => onResult(new Result(event)));
        const raw = onStdout || onStderr || onResult
            ? await follow(this.client, this.id, operations.runCell, path, body,
                { stdout: onStdout, stderr: onStderr, result: show, display: show }, signal)
            : await this.client.call(operations.runCell, { path, body, makes: true, waits: true, signal });
        const execution = new Execution(raw);
        if (options.check) execution.check();
        return execution;
    }

    /** Another interpreter with variables of its own. */
    async createContext(options: { language?: string; name?: string; cwd?: string } = {}): Promise<Context> {
        return this.client.call<Context>(operations.createContext, {
            path: pathOf(operations.createContext, { id: this.id }), makes: true,
            body: given({ language: options.language, name: options.name, cwd: options.cwd && absolute(options.cwd) }),
        });
    }

    async contexts(): Promise<Context[]> {
        return (await this.client.call<{ contexts: Context[] }>(operations.listContexts,
            { path: pathOf(operations.listContexts, { id: this.id }) })).contexts;
    }

    /** A fresh interpreter: variables are gone. Default: all of the session's. */
    async restartContext(context?: string | Context): Promise<void> {
        for (const one of await this.#which(context)) {
            await this.client.call(operations.restartContext, { path: pathOf(operations.restartContext, { id: this.id, context: one }) });
        }
    }

    /** Interrupts what runs in a context (default: in all of them); variables stay. */
    async interrupt(context?: string | Context): Promise<void> {
        for (const one of await this.#which(context)) {
            await this.client.call(operations.interruptContext, { path: pathOf(operations.interruptContext, { id: this.id, context: one }) });
        }
    }

    async deleteContext(context: string | Context): Promise<void> {
        for (const one of await this.#which(context)) {
            await this.client.call(operations.deleteContext, { path: pathOf(operations.deleteContext, { id: this.id, context: one }) });
        }
    }

    async #which(context: string | Context | undefined): Promise<string[]> {
        const id = idOf(context);
        return id === undefined ? (await this.contexts()).map((one) => one.id) : [id];
    }

    /** Installs packages of Python for this session; returns what is new. */
    async install(packages: string | readonly string[], options: { onProgress?: (line: string) => unknown } = {}): Promise<Package[]> {
        const path = pathOf(operations.installPackages, { id: this.id });
        const body = { packages: typeof packages === "string" ? [packages] : [...packages] };
        if (!options.onProgress) {
            return (await this.client.call<{ installed: Package[] }>(operations.installPackages,
                { path, body, makes: true, waits: true })).installed;
        }
        for await (const event of await this.client.events(operations.installPackages, { path, body, makes: true })) {
            if (event.type === "progress") await options.onProgress(event.data.line);
            if (event.type === "installed") return event.data.installed as Package[];
            if (event.type === "error") throw errorFrom(event.data.error);
        }
        throw new SandboxError("the installation ended without a result", "connection_failed");
    }

    /** What install() has added to the template. */
    async packages(): Promise<Package[]> {
        return (await this.client.call<{ packages: Package[] }>(operations.listPackages,
            { path: pathOf(operations.listPackages, { id: this.id }) })).packages;
    }

    /** A terminal with a shell, or `command`, in it; with `execution` one that runs already. */
    async pty(options: { command?: string; rows?: number; columns?: number; execution?: string; offset?: number } = {}): Promise<Pty> {
        const { execution, offset, command, rows = 24, columns = 80 } = options;
        const target = targetOf(pathOf(operations.openTerminal, { id: this.id }),
            execution ? { execution, offset } : { rows, columns, command });
        return new Pty(...await openWebSocket(this.client, target)).started();
    }
}

function idOf(context: string | Context | undefined): string | undefined {
    return typeof context === "object" ? context.id : context;
}
