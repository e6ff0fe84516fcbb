// shortcuts.ts - one call and nothing to hold.
import { Client, type ClientOptions } from "./client.js";
import { SandboxError } from "./errors.js";
import { Sandbox, type SandboxOptions } from "./sandbox.js";

/** Runs Python in a sandbox of its own: what it printed, or what went wrong, as text. Never throws. */
export async function runPythonCode(code: string, options: ClientOptions & { timeout?: number } = {}): Promise<string> {
    const client = new Client(options);
    try {
        const reply = await client.tool("run_python_code", { code, timeout: options.timeout ?? 30 });
        return String(reply["output"] || reply["error"] || reply["hint"] || "The code ran and printed nothing.");
    } catch (error) {
        if (error instanceof SandboxError) return `Error: ${error.message}`;
        throw error;
    } finally {
        client.close();
    }
}

/** A sandbox of a runtime: "local", "docker", ... */
export async function getSandbox(type?: string, options: SandboxOptions = {}): Promise<Sandbox> {
    return Sandbox.create({ ...options, type });
}
