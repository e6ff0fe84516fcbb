// files.ts - files of a sandbox, its datasets and its outputs.
import { createReadStream, createWriteStream } from "node:fs";
import { rename, stat, unlink } from "node:fs/promises";
import { basename } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { operations, type Dataset, type Entry, type Operation, type Output } from "./api.js";
import type { Client, EventStream, RequestOptions } from "./client.js";
import type { Owner } from "./commands.js";
import { PathNotFoundError, SandboxError } from "./errors.js";
import type { Change } from "./results.js";
import { absolute, given, pathOf } from "./wire.js";

export type Content = string | Uint8Array | Readable;

const BYTES = { "Content-Type": "application/octet-stream" };

async function send<T>(client: Client, operation: Operation, data: Content, options: RequestOptions): Promise<T> {
    const content = typeof data === "string" ? Buffer.from(data) : data;
    return client.call<T>(operation, { ...options, content, headers: { ...BYTES, ...options.headers }, waits: true });
}

async function sendFile<T>(client: Client, operation: Operation, local: string, options: RequestOptions): Promise<T> {
    const { size } = await stat(local);
    return send<T>(client, operation, createReadStream(local), { ...options, headers: { "Content-Length": String(size) } });
}

/** Writes a body to a file as it comes; the file appears when it is whole. */
async function save(client: Client, operation: Operation, local: string, options: RequestOptions): Promise<string> {
    const reply = await client.request(operation, { ...options, waits: true });
    const draft = `${local}.part`;
    try {
        await pipeline(reply, createWriteStream(draft));
        await rename(draft, local);
    } catch (error) {
        await unlink(draft).catch(() => undefined);
        throw error;
    }
    return local;
}

/** Files of the sandbox. A path that is not absolute is meant from /workspace. */
export class Files {
    readonly #owner: Owner;

    /** @internal */
    constructor(owner: Owner) {
        this.#owner = owner;
    }

    #at(operation: Operation): string {
        return pathOf(operation, { id: this.#owner.id });
    }

    /** A file as text (UTF-8). */
    async read(path: string): Promise<string> {
        return (await this.readBytes(path)).toString("utf8");
    }

    async readBytes(path: string, options: { offset?: number; length?: number } = {}): Promise<Buffer> {
        return this.#owner.client.fetch(operations.readFile,
            { path: this.#at(operations.readFile), query: { path: absolute(path), ...options } });
    }

    /** Writes a file at once or not at all; folders above it have to be there. `mode` is such as "0755". */
    async write(path: string, data: Content, options: { mode?: string; new?: boolean } = {}): Promise<number> {
        const reply = await send<{ bytes: number }>(this.#owner.client, operations.writeFile, data,
            { path: this.#at(operations.writeFile), query: { path: absolute(path), ...options } });
        return reply.bytes;
    }

    /** What is in a folder; depth 0: everything below it. */
    async list(path = "/workspace", options: { depth?: number } = {}): Promise<Entry[]> {
        return (await this.#owner.client.call<{ entries: Entry[] }>(operations.listFiles,
            { path: this.#at(operations.listFiles), query: { path: absolute(path), depth: options.depth ?? 1 } })).entries;
    }

    async stat(path: string): Promise<Entry> {
        return this.#owner.client.call<Entry>(operations.statFile,
            { path: this.#at(operations.statFile), query: { path: absolute(path) } });
    }

    async exists(path: string): Promise<boolean> {
        try {
            await this.stat(path);
            return true;
        } catch (error) {
            if (error instanceof PathNotFoundError) return false;
            throw error;
        }
    }

    /** Makes a folder and those above it. */
    async mkdir(path: string, options: { mode?: string } = {}): Promise<void> {
        await this.#owner.client.call(operations.makeFolder,
            { path: this.#at(operations.makeFolder), body: given({ path: absolute(path), ...options }) });
    }

    async move(from: string, to: string): Promise<void> {
        await this.#owner.client.call(operations.moveFile,
            { path: this.#at(operations.moveFile), body: { from: absolute(from), to: absolute(to) } });
    }

    async chmod(path: string, mode: string): Promise<void> {
        await this.#owner.client.call(operations.changeMode,
            { path: this.#at(operations.changeMode), body: { path: absolute(path), mode } });
    }

    async remove(path: string, options: { recursive?: boolean } = {}): Promise<void> {
        await this.#owner.client.call(operations.deleteFile,
            { path: this.#at(operations.deleteFile), query: { path: absolute(path), ...options } });
    }

    /** Copies a file of this machine into the sandbox; returns where it is there. */
    async upload(local: string, path?: string): Promise<string> {
        const there = absolute(path ?? basename(local));
        await sendFile(this.#owner.client, operations.writeFile, local,
            { path: this.#at(operations.writeFile), query: { path: there } });
        return there;
    }

    /** Copies a file of the sandbox to this machine, whatever its size. */
    async download(path: string, local = basename(path)): Promise<string> {
        return save(this.#owner.client, operations.readFile, local,
            { path: this.#at(operations.readFile), query: { path: absolute(path) } });
    }

    /** Changes below a folder from now on; leaving the loop, or close(), ends it. */
    async watch(path = "/workspace", options: { recursive?: boolean } = {}): Promise<Watch> {
        const events = await this.#owner.client.events(operations.watchFiles,
            { path: this.#at(operations.watchFiles), query: { path: absolute(path), ...options } });
        for (;;) {
            const event = await events.next();
            if (event.done) throw new SandboxError("the watch ended before it began", "connection_failed");
            if (event.value.type === "ready") return new Watch(events);
        }
    }
}

/** Changes as they come. */
export class Watch implements AsyncIterableIterator<Change> {
    readonly #events: EventStream;

    /** @internal */
    constructor(events: EventStream) {
        this.#events = events;
    }

    [Symbol.asyncIterator](): this {
        return this;
    }

    async next(): Promise<IteratorResult<Change>> {
        for (;;) {
            const event = await this.#events.next();
            if (event.done) return { done: true, value: undefined };
            if (event.value.type === "change") return { done: false, value: event.value.data as Change };
        }
    }

    async return(): Promise<IteratorResult<Change>> {
        await this.close();
        return { done: true, value: undefined };
    }

    async close(): Promise<void> {
        await this.#events.close();
    }

    async [Symbol.asyncDispose](): Promise<void> {
        await this.close();
    }
}

/** A path on this machine, or the content itself. */
export type DatasetSource = string | Uint8Array | Readable;

/** Tables and other files in /tmp/data, which the sandbox can read and not change. */
export class Datasets {
    readonly #owner: Owner;

    /** @internal */
    constructor(owner: Owner) {
        this.#owner = owner;
    }

    /** Gives a dataset: a text is a path on this machine. */
    async put(name: string, source: DatasetSource): Promise<Dataset> {
        const options = { path: pathOf(operations.giveDataset, { id: this.#owner.id, name }) };
        return typeof source === "string"
            ? sendFile<Dataset>(this.#owner.client, operations.giveDataset, source, options)
            : send<Dataset>(this.#owner.client, operations.giveDataset, source, options);
    }

    async list(): Promise<Dataset[]> {
        return (await this.#owner.client.call<{ datasets: Dataset[] }>(operations.listDatasets,
            { path: pathOf(operations.listDatasets, { id: this.#owner.id }) })).datasets;
    }
}

/** What the sandbox left in /tmp/output and was saved. */
export class Outputs {
    readonly #owner: Owner;

    /** @internal */
    constructor(owner: Owner) {
        this.#owner = owner;
    }

    async list(): Promise<Output[]> {
        return (await this.#owner.client.call<{ outputs: Output[] }>(operations.listOutputs,
            { path: pathOf(operations.listOutputs, { id: this.#owner.id }) })).outputs;
    }

    async read(name: string): Promise<Buffer> {
        return this.#owner.client.fetch(operations.readOutput, { path: pathOf(operations.readOutput, { id: this.#owner.id, name }) });
    }

    async download(name: string, local = basename(name)): Promise<string> {
        return save(this.#owner.client, operations.readOutput, local,
            { path: pathOf(operations.readOutput, { id: this.#owner.id, name }) });
    }
}
