// client.ts - requests to one server over node:http: finding it, trying again where that is safe, events.
import { randomUUID } from "node:crypto";
import * as http from "node:http";
import * as https from "node:https";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { operations, VERSION, type Info, type Operation, type Session, type Template } from "./api.js";
import { errorFrom, errorFromReply, SandboxConnectionError, SandboxError, SandboxTimeoutError } from "./errors.js";
import { configured, local, settings } from "./find.js";
import { CommandResult } from "./results.js";
import { describeAddress, EventParser, given, pathOf, targetOf, type Address, type Query, type ServerEvent } from "./wire.js";

export const RETRIES = 3;
const LONGEST_PAUSE_S = 10;

export interface ClientOptions {
    /** http://HOST:PORT, https://HOST:PORT, unix:///PATH; default $BAILEY_URL, else the local daemon. */
    url?: string | undefined;
    /** Default $BAILEY_API_KEY; a unix socket needs none. */
    apiKey?: string | undefined;
    /** Milliseconds for an answer of the server; what runs code has the time limit of that code instead. */
    requestTimeoutMs?: number | undefined;
    /** How often a request is tried again where that is safe. */
    retries?: number | undefined;
    /** For servers with a certificate of your own. */
    tls?: { ca?: string | Buffer; rejectUnauthorized?: boolean } | undefined;
}

export interface RequestOptions {
    path?: string;
    query?: Query;
    body?: unknown;
    content?: Uint8Array | Readable;
    headers?: Record<string, string>;
    /**
     * The request makes something: it gets an Idempotency-Key, the same on every try, so that the server does it
     * once; it is sent again also when the connection was lost.
     */
    makes?: boolean;
    /** The reply may take as long as the work takes, so there is no time limit here. */
    waits?: boolean;
    signal?: AbortSignal | undefined;
}

/** A server: the one at `url`, at $BAILEY_URL, or the local daemon, which is started when needed. */
export class Client {
    readonly #named: Address | undefined;
    readonly #options: ClientOptions;
    readonly #headers: Record<string, string>;
    #address: Promise<Address> | undefined;
    #settings: Promise<string | undefined> | undefined;
    #agent: http.Agent | undefined;
    readonly #sockets = new Set<Socket>();

    constructor(options: ClientOptions = {}) {
        this.#options = options;
        this.#named = configured(options.url);
        this.#headers = { Accept: "application/json", "User-Agent": `bailey-sandbox/${VERSION} node/${process.versions.node}` };
        const key = options.apiKey ?? process.env["BAILEY_API_KEY"];
        if (key && this.#named && this.#named.socketPath === undefined) this.#headers["Authorization"] = `Bearer ${key}`;
    }

    /** @internal */
    get headers(): Record<string, string> {
        return { ...this.#headers };
    }

    /**
     * @internal The same for what does something: what this process's environment sets (SANDBOX_MEMORY_LIMIT, ...) goes
     * along, as with the command line. Looking and ending ask for no settings.
     */
    async actingHeaders(): Promise<Record<string, string>> {
        const text = await (this.#settings ??= settings(this.#named));
        return text === undefined ? this.headers : { ...this.headers, "Bailey-Settings": text };
    }

    /** @internal Where the server is; for the local daemon the first call finds or starts it. */
    address(): Promise<Address> {
        if (!this.#address) {
            const found = this.#named ? Promise.resolve(this.#named) : local();
            this.#address = found;
            found.catch(() => {
                if (this.#address === found) this.#address = undefined;
            });
        }
        return this.#address;
    }

    /** @internal What node:http and node:https need to reach the address. */
    reach(address: Address): https.RequestOptions {
        if (address.socketPath !== undefined) return { socketPath: address.socketPath, host: "bailey" };
        return { host: address.host, port: address.port, ...(address.isTls ? this.#options.tls : {}) };
    }

    /** Sends a request and returns its reply, not read yet; a status of 400 and more is thrown. */
    async request(operation: Operation, options: RequestOptions = {}): Promise<http.IncomingMessage> {
        const isActing = operation.method === "POST" || operation.method === "PUT";
        const headers: Record<string, string> = { ...(isActing ? await this.actingHeaders() : this.#headers), ...options.headers };
        let content = options.content;
        if (options.body !== undefined) {
            content = Buffer.from(JSON.stringify(options.body));
            headers["Content-Type"] = "application/json";
        }
        if (content instanceof Uint8Array) headers["Content-Length"] = String(content.byteLength);
        else if (!content && operation.method !== "GET") headers["Content-Length"] = "0";
        if (options.makes) headers["Idempotency-Key"] = randomUUID();
        const target = targetOf(options.path ?? operation.path, options.query);
        const isRepeatable = !content || content instanceof Uint8Array;
        for (let tries = 0; ; tries++) {
            try {
                const address = await this.address();
                const reply = await this.#send(address, operation.method, address.prefix + target, headers, content, options);
                if ((reply.statusCode ?? 0) < 400) return reply;
                const body = (await readAll(reply)).toString("utf8");
                throw errorFromReply(reply.statusCode ?? 0, body, reply.headers["retry-after"]);
            } catch (error) {
                const pause = this.#pauseMs(operation, error, tries, options.makes ?? false);
                if (pause === undefined || !isRepeatable || options.signal?.aborted) throw error;
                if (error instanceof SandboxConnectionError && !error.wasSent && !this.#named) this.#address = undefined;
                await sleep(pause);
            }
        }
    }

    /** Milliseconds before another try; undefined: another try is not safe, or has no point. */
    #pauseMs(operation: Operation, error: unknown, tries: number, makes: boolean): number | undefined {
        if (tries >= (this.#options.retries ?? RETRIES)) return undefined;
        if (error instanceof SandboxConnectionError) {
            return !error.wasSent || operation.method === "GET" || makes ? Math.min(2000, 50 * 4 ** tries) : undefined;
        }
        const isRunning = makes && error instanceof SandboxError && error.code === "idempotency_key_running";
        if (error instanceof SandboxError && (error.status === 503 || isRunning) && error.retryAfterSeconds !== undefined) {
            return error.retryAfterSeconds <= LONGEST_PAUSE_S ? error.retryAfterSeconds * 1000 : undefined;
        }
        return undefined;
    }

    #send(address: Address, method: string, path: string, headers: Record<string, string>,
        content: Uint8Array | Readable | undefined, options: RequestOptions): Promise<http.IncomingMessage> {
        const library = address.isTls ? https : http;
        this.#agent ??= new library.Agent({ keepAlive: true, maxFreeSockets: 8 });
        const limit = options.waits ? 0 : (this.#options.requestTimeoutMs ?? 60_000);
        return new Promise((resolve, reject) => {
            const request = library.request({
                ...this.reach(address), method, path, headers, agent: this.#agent,
                ...(options.signal ? { signal: options.signal } : {}),
            });
            let isConnected = false;
            const timer = limit ? setTimeout(() => request.destroy(
                new SandboxTimeoutError(`${describeAddress(address)} did not answer in time`)), limit) : undefined;
            request.on("socket", (socket) => {
                socket.setKeepAlive(true, 30_000);
                isConnected = !socket.connecting; // a kept one is
                if (!isConnected) socket.once("connect", () => (isConnected = true));
            });
            request.on("response", (reply) => {
                clearTimeout(timer);
                resolve(reply);
            });
            request.on("error", (error: NodeJS.ErrnoException) => {
                clearTimeout(timer);
                reject(asOurs(error, address, isConnected));
            });
            if (content && !(content instanceof Uint8Array)) {
                content.on("error", (error) => request.destroy(error));
                content.pipe(request);
            } else {
                request.end(content);
            }
        });
    }

    /** A request whose answer is JSON. */
    async call<T = any>(operation: Operation, options: RequestOptions = {}): Promise<T> {
        const body = await this.fetch(operation, options);
        try {
            return JSON.parse(body.toString("utf8")) as T;
        } catch {
            throw new SandboxConnectionError("the server's answer is not JSON; is this address that of a Bailey server?");
        }
    }

    /** A request whose answer is bytes. */
    async fetch(operation: Operation, options: RequestOptions = {}): Promise<Buffer> {
        return readAll(await this.request(operation, options));
    }

    /** A request whose answer is a stream of events. */
    async events(operation: Operation, options: RequestOptions & { lastId?: string | undefined } = {}): Promise<EventStream> {
        const headers: Record<string, string> = { ...options.headers, Accept: "text/event-stream" };
        if (options.lastId !== undefined) headers["Last-Event-ID"] = options.lastId;
        return new EventStream(await this.request(operation, { ...options, headers, waits: true }));
    }

    async info(): Promise<Info> {
        return this.call<Info>(operations.info);
    }

    /** The sessions that live; with `ended` also those that have ended. */
    async sessions(options: { ended?: boolean } = {}): Promise<Session[]> {
        return (await this.call<{ sessions: Session[] }>(operations.listSessions, { query: { all: options.ended } })).sessions;
    }

    /** Ends a session by id or name. */
    async endSession(id: string): Promise<Session> {
        return this.call<Session>(operations.deleteSession, { path: pathOf(operations.deleteSession, { id }) });
    }

    async templates(): Promise<Template[]> {
        return (await this.call<{ templates: Template[] }>(operations.listTemplates)).templates;
    }

    /** Runs code once, in a sandbox of its own that is gone afterwards. */
    async run(code: string, options: {
        language?: string; timeout?: number; env?: Record<string, string>; stdin?: string; template?: string;
        arguments?: string[]; limits?: Record<string, string | number>; type?: string; signal?: AbortSignal;
    } = {}): Promise<CommandResult> {
        const { signal, ...members } = options;
        return new CommandResult(await this.call(operations.run,
            { body: given({ code, ...members }), makes: true, waits: true, signal }));
    }

    /** Calls one of the tools that agents have over MCP; a failure is a reply too. */
    async tool(name: string, parameters: Record<string, unknown>, session?: string): Promise<Record<string, any>> {
        return this.call(operations.callTool,
            { path: pathOf(operations.callTool, { name }), query: { session }, body: parameters, waits: true });
    }

    /** @internal A terminal's connection, which close() ends too. */
    adopt(socket: Socket): void {
        this.#sockets.add(socket);
        socket.once("close", () => this.#sockets.delete(socket));
    }

    /** Closes every connection, also those of streams and terminals that were left open. */
    close(): void {
        for (const socket of this.#sockets) socket.destroy();
        this.#agent?.destroy();
        this.#agent = undefined;
    }

    [Symbol.dispose](): void {
        this.close();
    }
}

function asOurs(error: NodeJS.ErrnoException, address: Address, isConnected: boolean): Error {
    if (error instanceof SandboxError || error.name === "AbortError") return error;
    const what = isConnected ? `the connection to ${describeAddress(address)} was lost` : `no connection to ${describeAddress(address)}`;
    return new SandboxConnectionError(`${what}: ${error.message}`, isConnected, "connection_failed", { cause: error });
}

export async function readAll(reply: http.IncomingMessage): Promise<Buffer> {
    const pieces: Buffer[] = [];
    try {
        for await (const piece of reply) pieces.push(piece as Buffer);
    } catch (error) {
        throw lost(error);
    }
    return Buffer.concat(pieces);
}

function lost(error: unknown): Error {
    if (error instanceof SandboxError || (error as Error).name === "AbortError") return error as Error;
    return new SandboxConnectionError(`the connection was lost: ${(error as Error).message}`, true, "connection_failed", { cause: error });
}

/** Events as they come; leaving the loop, or close(), closes the connection. */
export class EventStream implements AsyncIterableIterator<ServerEvent> {
    readonly #reply: http.IncomingMessage;
    readonly #pieces: AsyncIterator<string>;
    readonly #parser = new EventParser();
    #ready: ServerEvent[] = [];

    constructor(reply: http.IncomingMessage) {
        this.#reply = reply;
        reply.setEncoding("utf8");
        this.#pieces = reply[Symbol.asyncIterator]() as AsyncIterator<string>;
    }

    header(name: string): string | undefined {
        const value = this.#reply.headers[name.toLowerCase()];
        return Array.isArray(value) ? value[0] : value;
    }

    [Symbol.asyncIterator](): this {
        return this;
    }

    async next(): Promise<IteratorResult<ServerEvent>> {
        while (this.#ready.length === 0) {
            let piece: IteratorResult<string>;
            try {
                piece = await this.#pieces.next();
            } catch (error) {
                throw lost(error);
            }
            if (piece.done) return { done: true, value: undefined };
            this.#ready = this.#parser.feed(piece.value);
        }
        const event = this.#ready.shift()!;
        if (event.type === "closed") {
            await this.close();
            throw errorFrom(event.data);
        }
        return { done: false, value: event };
    }

    async return(): Promise<IteratorResult<ServerEvent>> {
        await this.close();
        return { done: true, value: undefined };
    }

    /** @internal Reads to the end, so that the connection can be used again. */
    async drain(): Promise<void> {
        while (!(await this.next()).done);
    }

    async close(): Promise<void> {
        this.#reply.destroy();
    }

    async [Symbol.asyncDispose](): Promise<void> {
        await this.close();
    }
}

/** The events of one execution to its end, over lost connections: none twice, none left out. */
export class Follower implements AsyncIterableIterator<ServerEvent> {
    #isOver = false;

    constructor(
        private readonly client: Client,
        private readonly session: string,
        private readonly execution: string | undefined,
        private events?: EventStream | undefined,
        private lastId?: string | undefined,
        private readonly signal?: AbortSignal | undefined,
    ) {}

    [Symbol.asyncIterator](): this {
        return this;
    }

    async next(): Promise<IteratorResult<ServerEvent>> {
        for (let tries = 0; !this.#isOver; tries++) {
            let failure: unknown = new SandboxConnectionError("the stream ended before the execution did");
            try {
                this.events ??= await this.client.events(operations.followProcess, {
                    path: pathOf(operations.followProcess, { id: this.session, execution: this.execution ?? "" }),
                    lastId: this.lastId,
                });
                const one = await this.events.next();
                if (!one.done) {
                    this.lastId = one.value.id ?? this.lastId;
                    this.#isOver = one.value.type === "exit";
                    if (this.#isOver) await this.events.drain(); // nothing follows: the connection can be kept
                    return one;
                }
            } catch (error) {
                if (!(error instanceof SandboxConnectionError)) throw error;
                failure = error;
            }
            await this.close();
            this.signal?.throwIfAborted(); // it was the caller who left
            if (this.execution === undefined || tries >= RETRIES) throw failure;
            await sleep(100 * 4 ** tries);
        }
        return { done: true, value: undefined };
    }

    async return(): Promise<IteratorResult<ServerEvent>> {
        this.#isOver = true;
        await this.close();
        return { done: true, value: undefined };
    }

    async close(): Promise<void> {
        const events = this.events;
        this.events = undefined;
        await events?.close();
    }
}
