// wire.ts - addresses, paths, queries and server-sent events; no input or output here.
import type { Operation } from "./api.js";
import { SandboxError } from "./errors.js";

export interface Address {
    readonly socketPath?: string;
    readonly host: string;
    readonly port: number;
    readonly isTls: boolean;
    readonly prefix: string;
}

export function parseAddress(url: string): Address {
    if (url.startsWith("/")) return unixAddress(url);
    let parts: URL;
    try {
        parts = new URL(url);
    } catch {
        throw badAddress(url);
    }
    if (parts.protocol === "unix:" && !parts.host && parts.pathname.startsWith("/")) {
        return unixAddress(decodeURIComponent(parts.pathname));
    }
    if ((parts.protocol !== "http:" && parts.protocol !== "https:") || !parts.hostname) throw badAddress(url);
    const isTls = parts.protocol === "https:";
    return {
        host: parts.hostname.replace(/^\[|\]$/g, ""),
        port: parts.port ? Number(parts.port) : isTls ? 443 : 80,
        isTls,
        prefix: parts.pathname.replace(/\/+$/, ""),
    };
}

function badAddress(url: string): SandboxError {
    return new SandboxError(`the server's address '${url}' is not understood; write http://HOST:PORT, ` +
        "https://HOST:PORT or unix:///PATH/engine.sock", "bad_address");
}

export function unixAddress(socketPath: string): Address {
    return { socketPath, host: "bailey", port: 80, isTls: false, prefix: "" };
}

export function describeAddress(address: Address): string {
    if (address.socketPath !== undefined) return `the unix socket ${address.socketPath}`;
    const host = address.host.includes(":") ? `[${address.host}]` : address.host;
    return `${address.isTls ? "https" : "http"}://${host}:${address.port}${address.prefix}`;
}

/** The path of an operation with its {names} filled in; slashes stay only in an output's name. */
export function pathOf(operation: Operation, parts: Record<string, string | number> = {}): string {
    let path = operation.path;
    for (const [name, value] of Object.entries(parts)) {
        let quoted = encodeURIComponent(String(value));
        if (name === "name" && operation.path.endsWith("/outputs/{name}")) quoted = quoted.replaceAll("%2F", "/");
        path = path.replace(`{${name}}`, quoted);
    }
    return path;
}

export type Query = Record<string, string | number | boolean | undefined>;

export function targetOf(path: string, query: Query = {}): string {
    const pairs = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
        if (value !== undefined) pairs.set(name, String(value));
    }
    const text = pairs.toString();
    return text ? `${path}?${text}` : path;
}

/** The members that are not undefined: what was not asked for is left to the server. */
export function given(members: Record<string, unknown>): Record<string, unknown> {
    return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

/** A path in the sandbox; one that is not absolute is meant from /workspace. */
export function absolute(path: string): string {
    return path.startsWith("/") ? path : `/workspace/${path}`;
}

export interface ServerEvent {
    type: string;
    id: string | undefined;
    data: any;
}

/** Text of a text/event-stream in, events out. */
export class EventParser {
    #rest = "";
    #fields: Record<string, string[]> = {};

    feed(text: string): ServerEvent[] {
        const lines = (this.#rest + text).split("\n");
        this.#rest = lines.pop() ?? "";
        const events: ServerEvent[] = [];
        for (let line of lines) {
            if (line.endsWith("\r")) line = line.slice(0, -1);
            if (line) {
                const colon = line.indexOf(":");
                const name = colon < 0 ? line : line.slice(0, colon);
                let value = colon < 0 ? "" : line.slice(colon + 1);
                if (value.startsWith(" ")) value = value.slice(1);
                if (name) (this.#fields[name] ??= []).push(value);
                continue;
            }
            const fields = this.#fields;
            this.#fields = {};
            if (fields["data"]) {
                events.push({
                    type: fields["event"]?.at(-1) ?? "message",
                    id: fields["id"]?.at(-1),
                    data: JSON.parse(fields["data"].join("\n")),
                });
            }
        }
        return events;
    }
}
