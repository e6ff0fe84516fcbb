// results.ts - what comes back: results of code and commands, pieces of output, files.
import { StringDecoder } from "node:string_decoder";
import { CommandError, errorFrom, type ErrorDetails } from "./errors.js";

const CHART = "application/vnd.bailey.chart+json";
const DATA = "application/vnd.bailey.data+json";

/** A piece of output as it comes. */
export interface Chunk {
    stream: "stdout" | "stderr";
    data: Buffer;
    text: string;
}

/** Makes chunks of the events `stdout` and `stderr`; a character cut in two comes whole. */
export class ChunkDecoder {
    readonly #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };

    chunk(stream: "stdout" | "stderr", raw: { data: string; encoding?: string }): Chunk {
        const data = Buffer.from(raw.data, raw.encoding === "base64" ? "base64" : "utf8");
        return { stream, data, text: this.#decoders[stream].write(data) };
    }
}

/** A file that was left in /tmp/output and saved. */
export interface OutputFile {
    name: string;
    bytes: number | undefined;
    path: string | undefined;
}

/** How a program ended: the same for every language and every runtime. */
export class ExecutionResult {
    readonly stdout: string;
    readonly stderr: string;
    /** The program's own; -1 after a timeout; 128 + n when signal n ended it. */
    readonly exitCode: number;
    /** Seconds. */
    readonly duration: number;
    readonly meta: Record<string, any>;

    constructor(raw: any) {
        this.stdout = raw.stdout;
        this.stderr = raw.stderr;
        this.exitCode = raw.exit_code;
        this.duration = raw.duration;
        this.meta = raw.meta ?? {};
    }

    get success(): boolean {
        return this.exitCode === 0;
    }

    get executionId(): string | undefined {
        return this.meta["execution_id"] ?? undefined;
    }

    get timedOut(): boolean {
        return Boolean(this.meta["timed_out"]);
    }

    get oomKilled(): boolean {
        return Boolean(this.meta["oom_killed"]);
    }

    /** Whether stdout or stderr was cut; streams and `CommandHandle.read` have all of it. */
    get truncated(): boolean {
        return Boolean(this.meta["truncated"]);
    }

    /** What this execution left in /tmp/output and was saved. */
    get outputFiles(): OutputFile[] {
        const listed: any[] = this.meta["files"] ?? this.meta["output_files"] ?? [];
        return listed.map((raw) => typeof raw === "string" ? { name: raw, bytes: undefined, path: undefined }
            : { name: raw.name, bytes: raw.bytes, path: raw.path ?? undefined });
    }

    /** Throws CommandError unless the exit code is 0. */
    check(): void {
        if (this.exitCode === 0) return;
        const failed = this.meta["error"] as ErrorDetails | undefined;
        if (failed?.code) throw new CommandError(failed.message ?? failed.code, failed.code, this);
        if (this.timedOut) throw new CommandError("the time limit passed", "timed_out", this);
        if (this.oomKilled) throw new CommandError("the memory limit was reached", "oom_killed", this);
        const last = this.stderr.trim().split("\n").at(-1) || "no text on stderr";
        throw new CommandError(`exit code ${this.exitCode}: ${last}`, "command_failed", this);
    }
}

/** How a command ended. */
export class CommandResult extends ExecutionResult {}

/** An exception that code in the sandbox raised. */
export interface ExecutionError {
    name: string;
    value: string;
    traceback: string;
}

/** One value that a cell showed: its last expression, or something it displayed. */
export class Result {
    readonly type: "result" | "display";
    /** By MIME type; pictures are base64. */
    readonly data: Record<string, any>;
    readonly truncated: string[];

    constructor(raw: any) {
        this.type = raw.type ?? "display";
        this.data = raw.data ?? {};
        this.truncated = raw.truncated ?? [];
    }

    /** Whether it is the value of the cell's last expression. */
    get isMain(): boolean {
        return this.type === "result";
    }

    get text(): string | undefined {
        return this.data["text/plain"];
    }
    get html(): string | undefined {
        return this.data["text/html"];
    }
    get markdown(): string | undefined {
        return this.data["text/markdown"];
    }
    get svg(): string | undefined {
        return this.data["image/svg+xml"];
    }
    get latex(): string | undefined {
        return this.data["text/latex"];
    }
    get png(): Buffer | undefined {
        return bytes(this.data["image/png"]);
    }
    get jpeg(): Buffer | undefined {
        return bytes(this.data["image/jpeg"]);
    }
    get json(): any {
        return this.data["application/json"];
    }
    /** What a Matplotlib figure shows, as numbers and labels. */
    get chart(): Record<string, any> | undefined {
        return this.data[CHART];
    }
    /** A data frame as column to list of values; of a large one the first rows. */
    get columns(): Record<string, unknown[]> | undefined {
        return this.data[DATA];
    }

    formats(): string[] {
        return Object.keys(this.data);
    }
}

function bytes(value: string | undefined): Buffer | undefined {
    return value === undefined ? undefined : Buffer.from(value, "base64");
}

/** What a cell printed, showed and raised. `text`, `png` and so on are those of the last expression's
 *  value where it has one of that kind, else of the last value that was displayed. */
export class Execution extends ExecutionResult {
    readonly results: Result[];
    readonly error: ExecutionError | undefined;
    readonly executionCount: number | undefined;

    constructor(raw: any) {
        super(raw);
        if (!raw.error && this.meta["error"] && !raw.results?.length && !raw.stdout) {
            throw errorFrom(this.meta["error"]); // the cell could not be begun: that is no result
        }
        this.results = (raw.results ?? []).map((one: any) => new Result(one));
        this.error = raw.error ?? undefined;
        this.executionCount = raw.execution_count ?? undefined;
    }

    /** The value of the last expression. */
    get result(): Result | undefined {
        return this.results.find((one) => one.isMain);
    }

    #first(mime: string): Result | undefined {
        const main = this.result;
        return [...(main ? [main] : []), ...[...this.results].reverse()].find((one) => mime in one.data);
    }

    /** The last expression's value as text; undefined when there is none (see stdout). */
    get text(): string | undefined {
        return this.#first("text/plain")?.text;
    }
    get html(): string | undefined {
        return this.#first("text/html")?.html;
    }
    get markdown(): string | undefined {
        return this.#first("text/markdown")?.markdown;
    }
    get svg(): string | undefined {
        return this.#first("image/svg+xml")?.svg;
    }
    get latex(): string | undefined {
        return this.#first("text/latex")?.latex;
    }
    get png(): Buffer | undefined {
        return this.#first("image/png")?.png;
    }
    get jpeg(): Buffer | undefined {
        return this.#first("image/jpeg")?.jpeg;
    }
    get json(): any {
        return this.#first("application/json")?.json;
    }
    get chart(): Record<string, any> | undefined {
        return this.#first(CHART)?.chart;
    }
    get columns(): Record<string, unknown[]> | undefined {
        return this.#first(DATA)?.columns;
    }

    /** Throws CommandError when the code raised, timed out or lost its interpreter. */
    override check(): void {
        if (this.error) throw new CommandError(`${this.error.name}: ${this.error.value}`, "code_raised", this);
        super.check();
    }

    /** All of it as one text: what a model, or a log, should read. */
    describe(): string {
        const parts = [this.stdout, this.stderr, ...this.results.map((one) => one.text ?? `[${one.formats().join(", ")}]`)];
        if (this.error) parts.push(this.error.traceback || `${this.error.name}: ${this.error.value}`);
        else if (this.timedOut) parts.push("the time limit passed");
        else if (this.exitCode !== 0 && !this.stderr) parts.push(`exit code ${this.exitCode}`);
        return parts.filter(Boolean).map((part) => part.replace(/\n+$/, "")).join("\n");
    }
}

/** A change of a watched folder. */
export interface Change {
    kind: "created" | "written" | "removed" | "renamed_from" | "renamed_to" | "attributes" | "overflow" | (string & {});
    path: string;
    type?: "file" | "folder";
}
