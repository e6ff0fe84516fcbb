// interpreter.ts - CodeInterpreterSession: a conversation with a model that may run code.
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { operations, type ChatReply } from "./api.js";
import { CodeBox, type CodeBoxOptions } from "./codebox.js";
import { InvalidRequestError, SandboxError } from "./errors.js";
import type { Execution } from "./results.js";
import { given, pathOf } from "./wire.js";

export interface Message {
    role: "system" | "user" | "assistant";
    content: string;
}

/** Called with the messages so far; returns the reply's text. Any provider's client fits behind it. */
export type Model = (messages: Message[]) => string | Promise<string>;

/** A file with its content. */
export interface NamedFile {
    name: string;
    content: Buffer;
}

export interface CodeInterpreterResponse {
    /** The model's answer. */
    content: string;
    /** What the code made. */
    files: NamedFile[];
    /** Each block of code with its output. */
    codeLog: [code: string, output: string][];
}

export interface CodeInterpreterOptions extends CodeBoxOptions {
    /** A function, or the name of one of the server's models; default: the server's model server (POST /v1/chat). */
    model?: Model | string;
    /** Prints each step to standard error. */
    verbose?: boolean;
    /** Blocks of code that one message may lead to; default 10. Only with a function, as systemPrompt. */
    maxSteps?: number;
    systemPrompt?: string;
}

const SYSTEM_PROMPT = `You answer with the help of a Python interpreter in a sandbox.
To run code, reply with exactly one fenced block that begins with \`\`\`python and nothing behind it. You then
get its output. Variables and files stay between blocks; the working folder is /workspace. The value
of a block's last expression is shown. Save every file that the user should get, plots included, below
/tmp/output. There is no network.
When you know the answer, reply without any fenced Python block: that reply is what the user reads.`;

/** @internal The first fenced Python block of a model's reply. */
export function codeIn(reply: string): string | undefined {
    return /```(?:python|py)[ \t]*\r?\n([\s\S]*?)(?:```|$(?![\s\S]))/.exec(reply)?.[1];
}

/** A model and a sandbox. */
export class CodeInterpreterSession {
    readonly messages: Message[];
    readonly #options: CodeInterpreterOptions;
    readonly #box: CodeBox;
    verbose: boolean;

    constructor(options: CodeInterpreterOptions = {}) {
        const hasFunction = typeof options.model === "function";
        if (!hasFunction && options.model !== undefined && typeof options.model !== "string") {
            throw new InvalidRequestError(
                "model has to be a function (messages in, text out), the name of one of the server's models, or left out", "bad_input");
        }
        if (!hasFunction && (options.maxSteps !== undefined || options.systemPrompt !== undefined)) {
            throw new InvalidRequestError(
                "maxSteps and systemPrompt need a function as model; the server's model server has its own", "bad_input");
        }
        this.#options = options;
        this.#box = new CodeBox(options);
        this.verbose = options.verbose ?? false;
        this.messages = hasFunction ? [{ role: "system", content: options.systemPrompt ?? SYSTEM_PROMPT }] : [];
    }

    async start(): Promise<void> {
        await this.#box.start();
    }

    async stop(): Promise<void> {
        await this.#box.stop();
    }

    async [Symbol.asyncDispose](): Promise<void> {
        await this.stop();
    }

    #say(role: "user" | "assistant", content: string): void {
        this.messages.push({ role, content });
        if (this.verbose) console.error(`[${role}] ${content}`);
    }

    /** Answers a message; `files` (paths, or names with content) are put into the working folder before. */
    async generateResponse(message: string, options: { files?: (string | NamedFile)[] } = {}): Promise<CodeInterpreterResponse> {
        const { model } = this.#options;
        const whole = await Promise.all((options.files ?? []).map(async (file) =>
            typeof file === "string" ? { name: basename(file), content: await readFile(file) } : file));
        if (typeof model !== "function") return this.#chat(model, message, whole);
        const names: string[] = [];
        for (const file of whole) {
            await this.#box.upload(file.name, file.content);
            names.push(file.name);
        }
        this.#say("user", names.length ? `${message}\n\nFiles in /workspace: ${names.join(", ")}` : message);
        const files = new Map<string, NamedFile>();
        const codeLog: [string, string][] = [];
        const steps = this.#options.maxSteps ?? 10;
        for (let step = 0; step < steps; step++) {
            const reply = await model(this.messages.map((one) => ({ ...one })));
            if (typeof reply !== "string") {
                throw new InvalidRequestError(`the model function returned ${typeof reply}; it has to return a text`, "bad_input");
            }
            this.#say("assistant", reply);
            const code = codeIn(reply);
            if (code === undefined) return { content: reply, files: [...files.values()], codeLog };
            const { execution, content } = await this.#box.run(code);
            // The sandbox itself failed: no text of a model repairs that.
            if (!execution) throw new SandboxError(content, "sandbox_failed");
            await this.#collect(execution, files);
            const output = shownToModel(execution);
            codeLog.push([code, output]);
            this.#say("user", output);
        }
        throw new SandboxError(`the model still wanted to run code after ${steps} blocks; raise maxSteps, or ask for less`,
            "too_many_steps");
    }

    /** The server asks its model server and runs the code in our session. */
    async #chat(model: string | undefined, message: string, files: NamedFile[]): Promise<CodeInterpreterResponse> {
        const { client, id } = await this.#box.sandbox();
        this.#say("user", message);
        const reply = await client.call<ChatReply>(operations.chat, {
            body: given({
                message, session: id, model,
                files: files.length ? files.map(({ name, content }) => ({ name, content_base64: content.toString("base64") })) : undefined,
            }),
            makes: true, waits: true,
        });
        const codeLog = reply.code_log.map(({ code, output }): [string, string] => [code, output.content]);
        if (this.verbose) for (const [code, output] of codeLog) console.error(`[code] ${code}\n[output] ${output}`);
        this.#say("assistant", reply.content);
        const made = await Promise.all(reply.files.map(async (file) => ({
            name: file.name,
            content: await client.fetch(operations.getContainerFileContent,
                { path: pathOf(operations.getContainerFileContent, { id: reply.container, file: file.id }) }),
        })));
        return { content: reply.content, files: made, codeLog };
    }

    async #collect(execution: Execution, files: Map<string, NamedFile>): Promise<void> {
        const sandbox = await this.#box.sandbox();
        for (const { name } of execution.outputFiles) files.set(name, { name, content: await sandbox.outputs.read(name) });
        for (const [at, result] of execution.results.entries()) {
            const name = `figure-${execution.executionCount ?? 0}-${at + 1}.png`;
            if (result.png) files.set(name, { name, content: result.png });
        }
    }
}

function shownToModel(execution: Execution, limit = 10_000): string {
    let text = execution.describe() || "(no output)";
    if (text.length > limit) {
        const half = limit / 2;
        text = `${text.slice(0, half)}\n[... ${text.length - limit} characters left out ...]\n${text.slice(-half)}`;
    }
    return `Output:\n${text}`;
}
