// pty.ts - a terminal in a sandbox, over a WebSocket of our own making: the one of Node knows no unix
// sockets and sends no headers.
import { createHash, randomBytes } from "node:crypto";
import * as http from "node:http";
import * as https from "node:https";
import type { Socket } from "node:net";
import type { Client } from "./client.js";
import { readAll } from "./client.js";
import { errorFrom, errorFromReply, SandboxConnectionError, type SandboxError } from "./errors.js";
import { describeAddress } from "./wire.js";

const TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10;
const MAX_MESSAGE = 64 * 1024 * 1024;
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

interface Frame {
    kind: number;
    isLast: boolean;
    data: Buffer;
}

/** @internal One whole masked frame. */
export function encodeFrame(kind: number, data: Uint8Array): Buffer {
    const size = data.byteLength;
    const wide = size < 126 ? 0 : size < 65536 ? 2 : 8;
    const head = Buffer.alloc(2 + wide + 4);
    head[0] = 0x80 | kind;
    head[1] = 0x80 | (wide === 0 ? size : wide === 2 ? 126 : 127);
    if (wide === 2) head.writeUInt16BE(size, 2);
    if (wide === 8) head.writeBigUInt64BE(BigInt(size), 2);
    const key = randomBytes(4);
    key.copy(head, 2 + wide);
    const masked = Buffer.from(data);
    for (let i = 0; i < size; i++) masked[i]! ^= key[i & 3]!;
    return Buffer.concat([head, masked]);
}

/** @internal Bytes in, frames out. */
export class FrameParser {
    #rest: Buffer = Buffer.alloc(0);

    feed(data: Buffer): Frame[] {
        this.#rest = this.#rest.length ? Buffer.concat([this.#rest, data]) : data;
        const frames: Frame[] = [];
        for (;;) {
            const rest = this.#rest;
            if (rest.length < 2) return frames;
            if (rest[1]! & 0x80) throw new SandboxConnectionError("the server masked a frame of its WebSocket");
            let size = rest[1]! & 0x7f;
            let at = 2;
            if (size >= 126) {
                at = size === 126 ? 4 : 10;
                if (rest.length < at) return frames;
                size = at === 4 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2));
            }
            if (size > MAX_MESSAGE) throw new SandboxConnectionError("a frame of the WebSocket is too large");
            if (rest.length - at < size) return frames;
            frames.push({ kind: rest[0]! & 0x0f, isLast: (rest[0]! & 0x80) !== 0, data: rest.subarray(at, at + size) });
            this.#rest = rest.subarray(at + size);
        }
    }
}

/** @internal Opens a WebSocket; resolves to its socket and the bytes that came with the answer. */
export async function openWebSocket(client: Client, target: string): Promise<[Socket, Buffer]> {
    const address = await client.address();
    const key = randomBytes(16).toString("base64");
    const { Accept: _accept, ...headers } = await client.actingHeaders();
    return new Promise((resolve, reject) => {
        const request = (address.isTls ? https : http).request({
            ...client.reach(address), path: address.prefix + target, agent: false,
            headers: {
                ...headers, Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": key, "Sec-WebSocket-Protocol": "bailey.v1",
            },
        });
        request.on("upgrade", (reply, socket, head) => {
            if (reply.headers["sec-websocket-accept"] !== createHash("sha1").update(key + GUID).digest("base64")) {
                socket.destroy();
                reject(new SandboxConnectionError("the server's answer to the WebSocket's opening is wrong"));
                return;
            }
            client.adopt(socket as Socket);
            resolve([socket as Socket, head]);
        });
        request.on("response", (reply) => {
            readAll(reply).then((body) => reject(errorFromReply(reply.statusCode ?? 0, body.toString("utf8"),
                reply.headers["retry-after"])), reject);
        });
        request.on("error", (error) => reject(new SandboxConnectionError(
            `no WebSocket to ${describeAddress(address)}: ${error.message}`, false, "connection_failed", { cause: error })));
        request.end();
    });
}

/** A program on a terminal. close(), or `await using`, hangs up, and the program ends; detach() leaves it
 *  running, and `sandbox.pty({ execution, offset })` comes back to it. Iterate over it for its bytes. */
export class Pty implements AsyncIterableIterator<Buffer> {
    readonly #socket: Socket;
    readonly #parser = new FrameParser();
    #ready: Buffer[] = [];
    #pieces: Buffer[] = [];
    #kind = 0;
    #wake: (() => void) | undefined;
    #isOver = false;
    #failure: SandboxError | undefined;
    executionId: string | undefined;
    /** Of the next byte. */
    offset = 0;
    exit: Record<string, any> | undefined;

    /** @internal */
    constructor(socket: Socket, head: Buffer) {
        this.#socket = socket;
        socket.setNoDelay(true);
        socket.on("data", (data: Buffer) => this.#take(data));
        socket.on("close", () => this.#end(this.exit || this.#isOver ? undefined : new SandboxConnectionError(
            `the terminal's connection was lost; it goes on as ${this.executionId} from offset ${this.offset}`)));
        socket.on("error", () => undefined); // close follows
        if (head.length) this.#take(head);
    }

    /** The program's, once it has ended. */
    get exitCode(): number | undefined {
        return this.exit?.["exit_code"];
    }

    #end(failure?: SandboxError): void {
        this.#failure ??= failure;
        this.#isOver = true;
        this.#socket.destroy();
        this.#wake?.();
    }

    #take(data: Buffer): void {
        try {
            for (const frame of this.#parser.feed(data)) this.#frame(frame);
        } catch (error) {
            this.#end(error as SandboxError);
        }
        this.#wake?.();
    }

    #frame(frame: Frame): void {
        if (frame.kind === PING) this.#socket.write(encodeFrame(PONG, frame.data));
        else if (frame.kind === CLOSE) {
            const code = frame.data.length >= 2 ? frame.data.readUInt16BE(0) : 1005;
            this.#end(code === 1000 ? undefined : new SandboxConnectionError(
                `the terminal was closed with ${code}: ${frame.data.subarray(2).toString("utf8")}`));
        } else if (frame.kind !== PONG) {
            this.#kind = frame.kind || this.#kind;
            this.#pieces.push(frame.data);
            if (!frame.isLast) return;
            const whole = Buffer.concat(this.#pieces);
            this.#pieces = [];
            if (this.#kind === BINARY) {
                this.offset += whole.length;
                this.#ready.push(whole);
            } else this.#learn(JSON.parse(whole.toString("utf8")));
        }
    }

    #learn(message: Record<string, any>): void {
        if (message["type"] === "started") {
            this.executionId = message["execution_id"];
            this.offset = message["offset"] ?? 0;
        } else if (message["type"] === "exit") this.exit = message;
        else if (message["type"] === "error") throw errorFrom(message["error"]);
    }

    async #until(isThere: () => boolean): Promise<void> {
        while (!isThere() && !this.#isOver) {
            await new Promise<void>((resolve) => (this.#wake = resolve));
            this.#wake = undefined;
        }
    }

    /** @internal */
    async started(): Promise<this> {
        await this.#until(() => this.executionId !== undefined);
        if (this.executionId === undefined) {
            throw this.#failure ?? new SandboxConnectionError("the terminal ended before it was there");
        }
        return this;
    }

    /** Types something; Ctrl-C is "\x03", Ctrl-D is "\x04". */
    async send(data: string | Uint8Array): Promise<void> {
        await this.#write(encodeFrame(BINARY, typeof data === "string" ? Buffer.from(data) : data));
    }

    async resize(rows: number, columns: number): Promise<void> {
        await this.#write(encodeFrame(TEXT, Buffer.from(JSON.stringify({ type: "resize", rows, columns }))));
    }

    async signal(signal: string | number): Promise<void> {
        await this.#write(encodeFrame(TEXT, Buffer.from(JSON.stringify({ type: "signal", signal }))));
    }

    #write(frame: Buffer): Promise<void> {
        return new Promise((resolve, reject) => this.#socket.write(frame, (error) => error
            ? reject(new SandboxConnectionError(`the WebSocket was lost: ${error.message}`)) : resolve()));
    }

    /** Some of what the program wrote; undefined when it has ended. */
    async receive(): Promise<Buffer | undefined> {
        await this.#until(() => this.#ready.length > 0);
        const piece = this.#ready.shift();
        if (!piece && this.#failure) throw this.#failure;
        return piece;
    }

    /** Everything up to and with `marker`, or up to the end. */
    async readUntil(marker: string | Uint8Array): Promise<Buffer> {
        const wanted = Buffer.from(marker as string);
        let seen: Buffer = Buffer.alloc(0);
        while (!seen.includes(wanted)) {
            const piece = await this.receive();
            if (!piece) break;
            seen = Buffer.concat([seen, piece]);
        }
        return seen;
    }

    /** Reads on to the end and returns the exit code. */
    async wait(): Promise<number | undefined> {
        while (await this.receive());
        return this.exitCode;
    }

    [Symbol.asyncIterator](): this {
        return this;
    }

    async next(): Promise<IteratorResult<Buffer>> {
        const piece = await this.receive();
        return piece ? { done: false, value: piece } : { done: true, value: undefined };
    }

    /** Leaves the terminal; its program runs on. */
    async detach(): Promise<void> {
        this.#end();
    }

    /** Hangs up: the program ends. */
    async close(): Promise<void> {
        if (this.#isOver) return;
        const code = Buffer.from([0x03, 0xe8]); // 1000
        await this.#write(encodeFrame(CLOSE, code)).catch(() => undefined);
        const timer = setTimeout(() => this.#end(), 5000);
        await this.#until(() => false);
        clearTimeout(timer);
    }

    async [Symbol.asyncDispose](): Promise<void> {
        await this.close();
    }
}
