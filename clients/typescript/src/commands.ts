// commands.ts - programs in a sandbox: run to the end, or started and held by a handle.
import { isUtf8 } from "node:buffer";
import { operations, type Operation, type Process } from "./api.js";
import { Follower, type Client } from "./client.js";
import { ConflictError, SandboxError, SandboxTimeoutError } from "./errors.js";
import { ChunkDecoder, CommandResult, type Chunk } from "./results.js";
import { absolute, given, pathOf } from "./wire.js";

/** A text is a line for the shell, a list is a program and its arguments. */
export type Command = string | readonly string[];
const LONGEST_WAIT_S = 30; // of one request

export interface OutputCallbacks {
    onStdout?: ((text: string) => unknown) | undefined;
    onStderr?: ((text: string) => unknown) | undefined;
}

export interface RunOptions extends OutputCallbacks {
    env?: Record<string, string>;
    cwd?: string;
    stdin?: string | Uint8Array;
    /** Seconds; 0: as long as the session lives; default: the server's (60). */
    timeout?: number;
    /** Throw CommandError unless it ends with 0. */
    check?: boolean;
    /** False leaves /tmp/output alone. */
    collect?: boolean;
    signal?: AbortSignal;
}

export interface StartOptions {
    env?: Record<string, string>;
    cwd?: string;
    /** True keeps it open for sendStdin. */
    stdin?: string | boolean;
    /** Seconds; 0, the default: as long as the session lives. */
    timeout?: number;
    collect?: boolean;
}

/** @internal What the parts of a sandbox need of it. */
export interface Owner {
    readonly id: string;
    readonly client: Client;
}

function argvOf(command: Command): string[] {
    return typeof command === "string" ? ["/bin/sh", "-c", command] : [...command];
}

export class Commands {
    readonly #owner: Owner;

    /** @internal */
    constructor(owner: Owner) {
        this.#owner = owner;
    }

    /** Runs a command to its end. */
    async run(command: Command, options: RunOptions = {}): Promise<CommandResult> {
        const { client, id } = this.#owner;
        let stdin = options.stdin;
        if (stdin instanceof Uint8Array) {
            // The request is JSON: bytes that are no text go over the open input instead.
            if (!isUtf8(stdin)) return this.#runWithBytes(command, stdin, options);
            stdin = Buffer.from(stdin).toString("utf8");
        }
        const body = given({
            argv: argvOf(command), env: options.env, cwd: options.cwd && absolute(options.cwd), stdin,
            timeout: options.timeout, collect: options.collect,
        });
        const path = pathOf(operations.exec, { id });
        const raw = options.onStdout || options.onStderr
            ? await follow(client, id, operations.exec, path, body,
                { stdout: options.onStdout, stderr: options.onStderr }, options.signal)
            : await client.call(operations.exec, { path, body, makes: true, waits: true, signal: options.signal });
        const result = new CommandResult(raw);
        if (options.check) result.check();
        return result;
    }

    async #runWithBytes(command: Command, stdin: Uint8Array, options: RunOptions): Promise<CommandResult> {
        const handle = await this.start(command, {
            ...(options.env && { env: options.env }), ...(options.cwd && { cwd: options.cwd }), stdin: true,
            timeout: options.timeout ?? 60,
        });
        try {
            await handle.sendStdin(stdin, { end: true });
            return await handle.wait(options);
        } finally {
            await handle.close();
        }
    }

    /** Starts a command in the background. */
    async start(command: Command, options: StartOptions = {}): Promise<CommandHandle> {
        const { client, id } = this.#owner;
        const body = given({
            argv: argvOf(command), env: options.env, cwd: options.cwd && absolute(options.cwd),
            stdin: options.stdin || undefined, timeout: options.timeout ?? 0, collect: options.collect, background: true,
        });
        const process = await client.call<Process>(operations.exec, { path: pathOf(operations.exec, { id }), body, makes: true });
        return new CommandHandle(client, id, process);
    }

    /** Commands and cells of the session, newest first. */
    async list(): Promise<Process[]> {
        const { client, id } = this.#owner;
        return (await client.call<{ processes: Process[] }>(operations.listProcesses,
            { path: pathOf(operations.listProcesses, { id }) })).processes;
    }

    /** A handle of something that was started before, by its id or number. */
    async get(execution: string | number): Promise<CommandHandle> {
        const { client, id } = this.#owner;
        return new CommandHandle(client, id, await client.call<Process>(operations.getProcess,
            { path: pathOf(operations.getProcess, { id, execution }) }));
    }
}

type Calls = Record<string, ((value: any) => unknown) | undefined>;

/** @internal Starts an execution as a stream and hands its events on; returns the data of `exit`. */
export async function follow(client: Client, session: string, operation: Operation, path: string, body: unknown,
    calls: Calls, signal?: AbortSignal): Promise<any> {
    const events = await client.events(operation, { path, body, makes: true, signal });
    return handOn(new Follower(client, session, events.header("Bailey-Execution"), events, undefined, signal), calls);
}

async function handOn(follower: Follower, calls: Calls): Promise<any> {
    const decoder = new ChunkDecoder();
    for await (const event of follower) {
        if (event.type === "exit") return event.data;
        const callback = calls[event.type];
        if (event.type === "stdout" || event.type === "stderr") {
            const { text } = decoder.chunk(event.type, event.data);
            if (text) await callback?.(text);
        } else {
            await callback?.({ type: event.type, ...event.data });
        }
    }
    throw new SandboxError("the stream ended without a result", "connection_failed");
}

/** A command that was started. `await using` kills it at the end of the block if it still runs. */
export class CommandHandle {
    readonly #client: Client;
    readonly #session: string;
    process: Process;
    /** There once wait() or the stream has seen the end. */
    result: CommandResult | undefined;

    /** @internal */
    constructor(client: Client, session: string, process: Process) {
        this.#client = client;
        this.#session = session;
        this.process = process;
    }

    get executionId(): string {
        return this.process.execution_id;
    }

    /** As of the last answer of the server; refresh() asks again. */
    get isRunning(): boolean {
        return this.process.state === "waiting" || this.process.state === "running";
    }

    #at(operation: Operation): string {
        return pathOf(operation, { id: this.#session, execution: this.executionId });
    }

    #ended(raw: any): CommandResult {
        this.process = { ...this.process, state: "exited" };
        return (this.result = new CommandResult(raw));
    }

    async refresh(): Promise<Process> {
        return (this.process = await this.#client.call<Process>(operations.getProcess, { path: this.#at(operations.getProcess) }));
    }

    /** Waits for the end. After `waitMs` SandboxTimeoutError is thrown; the command goes on. */
    async wait(options: OutputCallbacks & { waitMs?: number; check?: boolean } = {}): Promise<CommandResult> {
        if (!this.result) {
            if (options.onStdout || options.onStderr) {
                this.#ended(await handOn(new Follower(this.#client, this.#session, this.executionId),
                    { stdout: options.onStdout, stderr: options.onStderr }));
            } else {
                await this.#waitForEnd(options.waitMs);
                const at = `${this.process.stdout_bytes ?? 0}-${this.process.stderr_bytes ?? 0}`;
                this.#ended(await handOn(new Follower(this.#client, this.#session, this.executionId, undefined, at), {}));
            }
        }
        const result = this.result!;
        if (options.check) result.check();
        return result;
    }

    async #waitForEnd(waitMs: number | undefined): Promise<void> {
        const deadline = waitMs === undefined ? Infinity : Date.now() + waitMs;
        for (;;) {
            const left = Math.min(LONGEST_WAIT_S, Math.max(0, (deadline - Date.now()) / 1000)).toFixed(3);
            this.process = await this.#client.call<Process>(operations.getProcess,
                { path: this.#at(operations.getProcess), query: { wait: left }, waits: true });
            if (!this.isRunning) return;
            if (Date.now() >= deadline) {
                throw new SandboxTimeoutError(`${this.executionId} still runs after ${waitMs} ms; kill() ends it`);
            }
        }
    }

    /** Its output from the first byte that is kept, until it ends. */
    async *stream(): AsyncGenerator<Chunk, CommandResult> {
        const decoder = new ChunkDecoder();
        for await (const event of new Follower(this.#client, this.#session, this.executionId)) {
            if (event.type === "exit") return this.#ended(event.data);
            if (event.type === "stdout" || event.type === "stderr") yield decoder.chunk(event.type, event.data);
        }
        throw new SandboxError("the stream ended without a result", "connection_failed");
    }

    [Symbol.asyncIterator](): AsyncGenerator<Chunk, CommandResult> {
        return this.stream();
    }

    /** Output that is there now; the server keeps the newest 64 MiB of each stream. */
    async read(stream: "stdout" | "stderr" = "stdout", options: { offset?: number; length?: number } = {}): Promise<Buffer> {
        return this.#client.fetch(operations.getOutput, { path: this.#at(operations.getOutput), query: { stream, ...options } });
    }

    /** Writes to its standard input (`start(..., { stdin: true })`); `end` closes it behind the data. */
    async sendStdin(data: string | Uint8Array, options: { end?: boolean } = {}): Promise<number> {
        const reply = await this.#client.call<{ bytes: number }>(operations.writeInput, {
            path: this.#at(operations.writeInput), query: { end: options.end || undefined },
            content: typeof data === "string" ? Buffer.from(data) : data, waits: true,
        });
        return reply.bytes;
    }

    async closeStdin(): Promise<void> {
        await this.sendStdin("", { end: true });
    }

    /** Sends a signal: "TERM", "INT", a number. */
    async signal(signal: string | number): Promise<void> {
        this.process = await this.#client.call<Process>(operations.signalProcess,
            { path: this.#at(operations.signalProcess), body: { signal } });
    }

    /** Kills it; false when it has ended before. */
    async kill(): Promise<boolean> {
        try {
            await this.signal("KILL");
        } catch (error) {
            if (error instanceof ConflictError && error.code === "execution_ended") return false;
            throw error;
        }
        return true;
    }

    /** Kills it unless its end was seen. */
    async close(): Promise<void> {
        if (this.result) return;
        try {
            await this.kill();
        } catch (error) {
            if (!(error instanceof SandboxError)) throw error; // else the session has ended, and with it the command
        }
    }

    async [Symbol.asyncDispose](): Promise<void> {
        await this.close();
    }
}
