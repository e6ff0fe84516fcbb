// index.ts - everything that `import { ... } from "bailey-sandbox"` has.
export type { Context, Dataset, Entry, ErrorCode, Info, Output, Package, Process, Session, Template } from "./api.js";
export { VERSION } from "./api.js";
export { Client, EventStream, type ClientOptions } from "./client.js";
export { CodeBox, type CodeBoxFile, type CodeBoxOptions, type CodeBoxOutput, type CodeBoxStatus } from "./codebox.js";
export { CommandHandle, Commands, type Command, type OutputCallbacks, type RunOptions, type StartOptions } from "./commands.js";
export * from "./errors.js";
export { Datasets, Files, Outputs, Watch, type Content, type DatasetSource } from "./files.js";
export {
    CodeInterpreterSession, type CodeInterpreterOptions, type CodeInterpreterResponse, type Message, type Model, type NamedFile,
} from "./interpreter.js";
export { Ports } from "./ports.js";
export { Pty } from "./pty.js";
export {
    CommandResult, Execution, ExecutionResult, Result, type Change, type Chunk, type ExecutionError, type OutputFile,
} from "./results.js";
export { Sandbox, type RunCodeOptions, type SandboxOptions } from "./sandbox.js";
export { getSandbox, runPythonCode } from "./shortcuts.js";
export type { ServerEvent } from "./wire.js";
