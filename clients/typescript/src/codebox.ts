// codebox.ts - CodeBox: a sandbox with few words, whose run() never throws.
import { SandboxError } from "./errors.js";
import type { Content } from "./files.js";
import type { Execution } from "./results.js";
import { Sandbox, type SandboxOptions } from "./sandbox.js";

// Modules whose package has another name, for the installation of what code turns out to miss.
const IMPORT_NAMES: Record<string, string> = {
    Crypto: "pycryptodome", PIL: "pillow", bs4: "beautifulsoup4", cv2: "opencv-python-headless",
    dateutil: "python-dateutil", docx: "python-docx", dotenv: "python-dotenv", fitz: "pymupdf",
    jwt: "pyjwt", pptx: "python-pptx", skimage: "scikit-image", sklearn: "scikit-learn", yaml: "pyyaml",
};

export interface CodeBoxOutput {
    type: "text" | "image/png" | "error";
    /** Text; of a picture base64. */
    content: string;
    /** Undefined when the sandbox itself failed. */
    execution: Execution | undefined;
}

export interface CodeBoxFile {
    name: string;
    content: Buffer | undefined;
}

export type CodeBoxStatus = "started" | "running" | "stopped" | "restarted";

export interface CodeBoxOptions extends SandboxOptions {
    /** Install a package that code turns out to miss, and run the code again, once. Default true. */
    autoInstall?: boolean;
}

/** A sandbox for one conversation: start, run, upload, download, install, stop. */
export class CodeBox {
    readonly #options: CodeBoxOptions;
    #sandbox: Promise<Sandbox> | undefined;

    constructor(options: CodeBoxOptions = {}) {
        this.#options = options;
    }

    /** The sandbox inside, started when needed: for everything that a CodeBox does not have. */
    sandbox(): Promise<Sandbox> {
        if (!this.#sandbox) {
            const made = Sandbox.create(this.#options);
            this.#sandbox = made;
            made.catch(() => {
                if (this.#sandbox === made) this.#sandbox = undefined;
            });
        }
        return this.#sandbox;
    }

    async start(): Promise<CodeBoxStatus> {
        await this.sandbox();
        return "started";
    }

    /** "running", or "stopped" when it was not started, was stopped, or has ended by itself. */
    async status(): Promise<CodeBoxStatus> {
        if (!this.#sandbox) return "stopped";
        try {
            const { state } = await (await this.#sandbox).info();
            return state === "ending" || state === "ended" ? "stopped" : "running";
        } catch (error) {
            if (error instanceof SandboxError) return "stopped";
            throw error;
        }
    }

    /** Runs code and says what came of it; an error is output too. */
    async run(code: string, options: { timeout?: number } = {}): Promise<CodeBoxOutput> {
        let execution: Execution;
        try {
            execution = await this.#execute(code, options);
        } catch (error) {
            return { type: "error", content: (error as Error).message, execution: undefined };
        }
        const png = execution.png;
        if (png && !execution.error) return { type: "image/png", content: png.toString("base64"), execution };
        const failed = execution.error !== undefined || execution.exitCode !== 0;
        return { type: failed ? "error" : "text", content: execution.describe(), execution };
    }

    async #execute(code: string, options: { timeout?: number }): Promise<Execution> {
        const sandbox = await this.sandbox();
        const execution = await sandbox.runCode(code, options);
        if (this.#options.autoInstall === false || execution.error?.name !== "ModuleNotFoundError"
            || execution.meta["install_error"]) return execution;
        const module = /No module named '([A-Za-z_]\w*)/.exec(execution.error.value)?.[1];
        if (!module) return execution;
        try {
            await sandbox.install(IMPORT_NAMES[module] ?? module);
        } catch (error) {
            if (!(error instanceof SandboxError)) throw error;
            (execution as { stderr: string }).stderr += `${module} could not be installed: ${error.message}\n`;
            return execution;
        }
        return sandbox.runCode(code, options);
    }

    /** Puts a file into the working folder. */
    async upload(name: string, content: Content): Promise<void> {
        await (await this.sandbox()).files.write(name, content);
    }

    async download(name: string): Promise<CodeBoxFile> {
        return { name, content: await (await this.sandbox()).files.readBytes(name) };
    }

    /** The files of the working folder, without their content. */
    async listFiles(): Promise<CodeBoxFile[]> {
        const entries = await (await this.sandbox()).files.list();
        return entries.filter((one) => one.type === "file").map((one) => ({ name: one.name, content: undefined }));
    }

    async install(...packages: string[]): Promise<void> {
        await (await this.sandbox()).install(packages);
    }

    /** Fresh interpreters: variables are gone, files stay. */
    async restart(): Promise<CodeBoxStatus> {
        await (await this.sandbox()).restartContext();
        return "restarted";
    }

    async stop(): Promise<CodeBoxStatus> {
        const sandbox = this.#sandbox;
        this.#sandbox = undefined;
        await (await sandbox)?.close();
        return "stopped";
    }

    async [Symbol.asyncDispose](): Promise<void> {
        await this.stop();
    }
}
