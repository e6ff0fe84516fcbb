// kernel.mjs - the JavaScript kernel: runs the cells that come over descriptor 3 in one global scope.
//
//   node kernel.mjs        (Node 18 or later, no packages)
//
// The protocol is in docs/kernels.md. Cells are evaluated by V8 itself in the mode of a console
// (Runtime.evaluate with replMode, over an inspector session to this same thread): top-level await,
// the value of the last expression, and const, let and class that stay and may be declared again, as
// in any browser's console. What that mode lacks is import: cells.mjs rewrites it to a function.
//
// A busy loop ends at SIGINT because the evaluation begins inside of vm's breakOnSigint, which has a
// thread that watches for the signal. That watch is kept for the kernel's whole life, so that there is
// no moment without it; signals that it saw while no such script ran are polled while a cell waits. The signal
// handler only wakes the thread, so a signal that was sent before a cell can reach the thread after the
// cell began: a cell begins when the thread is asleep again. Only a loop that a timer or an await began
// cannot be ended this way: its kernel is.
import fs from "node:fs";
import inspector from "node:inspector";
import { createRequire } from "node:module";
import net from "node:net";
import { Readable, Writable } from "node:stream";
import util from "node:util";
import vm from "node:vm";
import { bundle, importer, rewriteImports, stringify } from "./cells.mjs";

const TEXT_MAX = 1 << 20; // bytes of code points, near enough
const EVENTS_MAX = 1000; // of one cell
const WATCH_MS = 20; // how often a cell that waits looks for SIGINT
const LOST_THEN = "the cell replaced Promise.prototype.then by something that is not a function; this version of Node " +
    "needs it to tell the value or the error of a cell, so both are unknown for this cell, and the kernel has put it back";
const { inspect } = util;
const { isPromise } = util.types;
const { writeSync, fstatSync, openSync, readSync, closeSync } = fs;
const { from: bytesFrom, concat } = Buffer;
// The kernel's own references to methods: a cell may remove them from their prototypes.
const own = (method) => Function.prototype.call.bind(method);
const split = own(String.prototype.split);
const slice = own(String.prototype.slice);
const replace = own(String.prototype.replace);
const indexOf = own(String.prototype.indexOf);
const exec = own(RegExp.prototype.exec);
const filter = own(Array.prototype.filter);
const join = own(Array.prototype.join);
const decode = own(Buffer.prototype.toString);
const find = own(Buffer.prototype.indexOf);
const findLast = own(Buffer.prototype.lastIndexOf);
const part = own(Buffer.prototype.subarray);
const then = own(Promise.prototype.then);
const promises = { prototype: Promise.prototype, then: Promise.prototype.then };
const realExit = process.reallyExit.bind(process);
const { setImmediate, setInterval, clearInterval } = globalThis;

const control = new net.Socket({ fd: 3, readable: true, writable: true });
const session = new inspector.Session();
session.connect();
const kept = [identity(1), identity(2)];

let current = null; // the running cell
let count = 0;
let isHalf = false; // a line was begun and not ended
const clock = new Int32Array(new SharedArrayBuffer(4));
let waiting = bytesFrom(""); // bytes of messages that are not whole yet

// process.binding is deprecated and its replacement is internal to Node; these have existed since Node 6.
const { startSigintWatchdog, stopSigintWatchdog } = process.binding("contextify");
const watchStat = startWatch();
const statText = Buffer.alloc(512);

function threads() {
    try {
        return fs.readdirSync("/proc/self/task");
    } catch {
        return []; // no /proc here
    }
}

// Starts the thread that watches for SIGINT; returns the path of its stat file, or null without /proc.
function startWatch() {
    const before = new Set(threads());
    startSigintWatchdog();
    const added = threads().filter((thread) => !before.has(thread));
    return added.length === 1 ? `/proc/self/task/${added[0]}/stat` : null;
}

// Whether the thread has handled every signal that the handler woke it for: it sleeps (state S).
function isWatchIdle() {
    let fd = -1;
    try {
        fd = openSync(watchStat);
        const length = readSync(fd, statText, 0, statText.length, 0);
        return statText[findLast(statText, 41, length - 1) + 2] === 83; // "TID (name) S ..."
    } catch {
        return true; // unknown, and no cell waits for it
    } finally {
        if (fd >= 0) closeSync(fd);
    }
}

// Whether SIGINT arrived since the last call; of two watches one ends here, so the signal stays caught.
function wasInterrupted() {
    startSigintWatchdog();
    return stopSigintWatchdog();
}

// Discards signals that were sent before this call.
function forgetInterrupts() {
    while (watchStat !== null && !isWatchIdle()) Atomics.wait(clock, 0, 0, 0.05);
    wasInterrupted();
}

class Exit {
    constructor(status) {
        this.status = status;
    }
}

function identity(fd) {
    try {
        const stat = fstatSync(fd);
        return `${stat.dev}:${stat.ino}`;
    } catch {
        return null;
    }
}

// --- messages ----------------------------------------------------------------------------------

// Without streams: SIGINT may stop any JavaScript of a cell halfway, and a stream would be left inconsistent.
function writeAll(fd, data) {
    data = typeof data === "string" ? bytesFrom(data) : data;
    for (let at = 0; at < data.length;) {
        try {
            at += writeSync(fd, data, at);
        } catch (problem) {
            if (problem.code !== "EAGAIN") throw problem;
            Atomics.wait(clock, 0, 0, 1);
        }
    }
}

function put(text) {
    try {
        if (isHalf) writeAll(3, "\n"); // an interrupt cut the line before
        isHalf = true;
        writeAll(3, text);
        isHalf = false;
    } catch (problem) {
        if (problem.code === "EPIPE" || problem.code === "EBADF") realExit(1); // the other end has gone
        throw problem;
    }
}

function send(cell, event) {
    if (cell === null || cell.isOver) return; // it belongs to no cell
    cell.events++;
    cell.hasFailed ||= event.type === "error";
    if (cell.events < EVENTS_MAX || event.type === "error") put(stringify(event) + "\n");
    else if (cell.events === EVENTS_MAX)
        process.stderr.write(`bailey: this cell has shown ${EVENTS_MAX - 1} values; the rest is left out\n`);
}

// The whole message at the front of `waiting`, or null.
function nextMessage() {
    const at = find(waiting, 10);
    if (at < 0) {
        if (waiting.length > 200) realExit(1);
        return null;
    }
    const match = exec(/^cell (\d+) ([a-z-]+) (\d+) (\d+) (\d+)$/, decode(waiting, "latin1", 0, at));
    if (match === null) realExit(1);
    const ends = [at + 1, 0, 0, 0];
    for (let i = 0; i < 3; i++) ends[i + 1] = ends[i] + Number(match[i + 3]);
    if (waiting.length < ends[3]) return null;
    const message = {
        id: match[1],
        flags: match[2],
        code: decode(waiting, "utf8", ends[0], ends[1]),
        input: bytesFrom(part(waiting, ends[1], ends[2])),
        env: decode(waiting, "utf8", ends[2], ends[3]),
    };
    waiting = part(waiting, ends[3]);
    return message;
}

let parts = [];
control.on("data", (data) => {
    parts[parts.length] = data;
    if (parts.length === 1) setImmediate(receive); // one concat for everything received
});
control.on("end", () => realExit(0));
control.on("error", () => realExit(0));

function receive() {
    waiting = concat([waiting, ...parts]);
    parts = [];
    if (current !== null) return;
    const message = nextMessage();
    if (message === null) return;
    try {
        run(message);
    } catch (problem) { // an earlier cell broke something the kernel needs: this one gets the error
        if (current === null) return;
        current.isOver = true;
        current = null;
        put(`{"type":"error","name":"KernelError","value":"a cell broke the kernel","traceback":""}\nend ${message.id} 1\n`);
    }
}

// --- a cell ------------------------------------------------------------------------------------

function setEnvironment(text) {
    const before = [];
    if (text === "") return before;
    for (const pair of split(text, "\0")) {
        const at = indexOf(pair, "=");
        if (at <= 0) continue;
        const name = slice(pair, 0, at);
        before[before.length] = [name, process.env[name]];
        process.env[name] = slice(pair, at + 1);
    }
    return before;
}

function run(message) {
    count++;
    current = { id: message.id, count, events: 0, isOver: false, hasFailed: false, before: setEnvironment(message.env) };
    input.give(indexOf(message.flags, "i") >= 0 ? message.input : null);
    const cell = current;
    forgetInterrupts();
    let code = message.code;
    try {
        if (exec(/\bimport\b/, code) !== null) code = rewriteImports(code);
    } catch {
        // the parser will report it
    }
    evaluate(cell, `${code}\n//# sourceURL=cell-in-${count}`);
}

// Runs `step` so that SIGINT ends it; its exceptions are thrown here.
function within(step) {
    starting = step;
    return guarded.runInThisContext({ breakOnSigint: true, displayErrors: false });
}

function evaluate(cell, expression) {
    let answered = null;
    let isWithin = true;
    try {
        within(() => session.post("Runtime.evaluate", { expression, replMode: true }, (problem, answer) => {
            answered = [problem, answer];
            if (!isWithin) onAnswer(cell, problem, answer);
        }));
    } catch (problem) {
        failed(cell, problem);
    }
    isWithin = false;
    if (answered !== null) onAnswer(cell, ...answered);
    if (!cell.isOver) {
        cell.watch = setInterval(() => { if (wasInterrupted()) interrupted(cell); }, WATCH_MS);
    }
}

let starting = null;
Object.defineProperty(globalThis, "__bailey_start__", { value: () => starting() });
const guarded = new vm.Script("__bailey_start__()", { filename: "node:kernel" });

// The inspector returns references to values; this gets the value itself.
function take(object) {
    let value;
    sink = (given) => { value = given; };
    const argument = {};
    for (const name of ["objectId", "value", "unserializableValue"])
        if (object[name] !== undefined) argument[name] = object[name];
    if (object.subtype === "null") argument.value = null;
    session.post("Runtime.callFunctionOn", {
        functionDeclaration: "function (value) { this(value); }",
        objectId: sinkId, arguments: [argument], silent: true,
    }, () => {});
    if (object.objectId !== undefined) session.post("Runtime.releaseObject", { objectId: object.objectId });
    return value;
}

let sink = null;
let sinkId = null;
globalThis.__bailey_sink__ = (value) => sink(value);
session.post("Runtime.evaluate", { expression: "__bailey_sink__" },
    (_, answer) => { sinkId = answer.result.objectId; });
delete globalThis.__bailey_sink__;

function onAnswer(cell, problem, answer) {
    if (cell.isOver) return; // it was interrupted before
    if (problem) return isGone() ? finish(cell, 1) : failed(cell, new Error(problem.message));
    if (answer.exceptionDetails) return failed(cell, take(answer.exceptionDetails.exception));
    const value = take(answer.result);
    if (value === undefined && typeof promises.prototype.then !== "function") return withoutThen(cell);
    if (!isPromise(value)) return succeeded(cell, value);
    // A cell whose last value is a promise, such as `main()`, lasts until it is settled.
    then(value, (final) => succeeded(cell, final), (reason) => failed(cell, reason));
}

// Whether a cell removed Promise.prototype.then. V8 10 (Node 18) looks it up to get a cell's value, and
// without it returns `undefined` for everything; V8 11 (Node 20) does not. Tested by a cell whose value is 0.
function withoutThen(cell) {
    session.post("Runtime.evaluate", { expression: "0", replMode: true }, (_, answer) => {
        if (answer?.result.type === "number") return succeeded(cell, undefined);
        promises.prototype.then = promises.then;
        if (cell.isOver) return;
        send(cell, { type: "error", name: "KernelError", value: LOST_THEN, traceback: "" });
        finish(cell, 1);
    });
}

function succeeded(cell, value) {
    if (cell.isOver) return;
    if (cell.exit !== undefined) return exited(cell);
    let shown = null;
    try {
        if (value !== undefined) {
            Reflect.set(globalThis, "_", value);
            within(() => { shown = bundle(value); });
        }
    } catch (problem) {
        return failed(cell, problem);
    }
    if (shown !== null) send(cell, { type: "result", count: cell.count, data: shown.data, ...shown.truncated });
    finish(cell, 0);
}

function failed(cell, problem) {
    if (cell.isOver) return;
    if (problem instanceof Exit || cell.exit !== undefined) return exited(cell);
    if (problem?.code === "ERR_SCRIPT_EXECUTION_INTERRUPTED") return interrupted(cell);
    send(cell, { type: "error", ...describe(problem, cell) });
    finish(cell, 1);
}

function exited(cell) {
    if (cell.exit !== 0)
        send(cell, { type: "error", name: "ExitStatus", value: String(cell.exit),
            traceback: `Cell In[${cell.count}]: process.exit(${cell.exit})` });
    finish(cell, cell.exit === 0 ? 0 : 1);
}

function interrupted(cell) {
    if (cell.isOver) return;
    send(cell, { type: "error", name: "Interrupted", value: "the cell was interrupted",
        traceback: `Cell In[${cell.count}]: the cell was interrupted` });
    finish(cell, 1);
}

// Whether the inspector has lost its context: process.kill() on itself, even by a signal that does nothing, does
// that. An answer that SIGINT interrupted proves nothing.
function isGone() {
    let isSo = false;
    session.post("Runtime.evaluate", { expression: "0" }, (problem) => {
        isSo = problem !== null && indexOf(problem.message, "Cannot find context") >= 0;
    });
    return isSo;
}

// Why no cell can run here any more, or null.
function lossOf(status) {
    if (identity(1) !== kept[0] || identity(2) !== kept[1])
        return "the cell closed descriptor 1 or 2, and its kernel ends with it";
    if (status !== 0 && isGone())
        return "process.kill() on the kernel itself ended what runs cells, and the kernel with it";
    return null;
}

function finish(cell, status) {
    const loss = lossOf(status);
    if (loss !== null) { // a new kernel is better; the end of this one ends the cell
        if (!cell.hasFailed) send(cell, { type: "error", name: "KernelError", value: loss, traceback: "" });
        realExit(1);
    }
    cell.isOver = true;
    for (const [name, value] of cell.before) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
    }
    clearInterval(cell.watch);
    input.give(null);
    current = null;
    put(`end ${cell.id} ${status}\n`);
    if (waiting.length > 0) setImmediate(receive);
}

// --- errors ------------------------------------------------------------------------------------

function nameCells(text) {
    return replace(text, /cell-in-(\d+):(\d+)(?::\d+)?/g, "Cell In[$1], line $2");
}

// Frames of the kernel, of the inspector and of Node itself below the cell are left out.
function trim(stack) {
    const ours = /^\s+at .*(node:(inspector|vm|internal|events|kernel)|kernel\.mjs|cells\.mjs)/;
    return join(filter(split(stack, "\n"), (line) => exec(ours, line) === null), "\n");
}

function describe(problem, cell) {
    let name = "Error";
    let value = "";
    let traceback = "";
    try {
        if (util.types.isNativeError(problem) || problem instanceof Error) {
            name = String(problem.name);
            value = String(problem.message);
            traceback = nameCells(trim(String(problem.stack ?? `${name}: ${value}`)));
            if (indexOf(traceback, "Cell In[") < 0) traceback += syntaxPlace(problem, cell);
        } else {
            value = typeof problem === "string" ? problem : inspect(problem);
            traceback = `Cell In[${cell.count}]: Uncaught ${value}`;
        }
    } catch {
        // a getter of the thrown value threw
    }
    return { name: slice(name, 0, 1000), value: slice(value, 0, TEXT_MAX), traceback: slice(traceback, 0, TEXT_MAX) };
}

// V8 reports the line of a syntax error only when the code is compiled again.
function syntaxPlace(problem, cell) {
    return problem.name === "SyntaxError" ? `\n    at Cell In[${cell.count}]` : "";
}

// --- globals of cells ----------------------------------------------------------------------------

const input = {
    lines: null,
    give(data) {
        this.lines = data === null ? null : split(decode(data, "utf8"), "\n");
        if (data !== null && this.lines[this.lines.length - 1] === "") this.lines.pop();
        const stream = data === null ? null : Readable.from(data.length ? [data] : []);
        if (stream === null) {
            delete process.stdin;
            Object.defineProperty(process, "stdin", { configurable: true, enumerable: true, get: realStdin });
        } else Object.defineProperty(process, "stdin", { configurable: true, enumerable: true, value: stream });
    },
    next() {
        if (this.lines === null)
            throw new Error("this cell was given no standard input; pass the text to read with the cell " +
                "(stdin in the API), or put the values in the code");
        return this.lines.length ? this.lines.shift() : null;
    },
};
const realStdin = Object.getOwnPropertyDescriptor(process, "stdin").get;

Object.assign(globalThis, {
    require: createRequire(`${process.cwd()}/cell.js`),
    display(value, mime) {
        const { data, truncated } = bundle(value, mime);
        send(current, { type: "display", data, ...truncated });
    },
    readline: () => input.next(),
    prompt(text = "") {
        if (text !== "") process.stdout.write(String(text));
        return input.next();
    },
});
Object.defineProperty(globalThis, "__bailey_import__", { value: importer() });
globalThis.module = { exports: {} };
globalThis.exports = globalThis.module.exports;
for (const name of ["require", "display", "readline", "prompt", "module", "exports"])
    Object.defineProperty(globalThis, name, { enumerable: false });

// Written synchronously and completely, without a stream's state.
function output(fd) {
    const stream = new Writable({ decodeStrings: true, write(data, _, done) { writeAll(fd, data); done(); } });
    stream.fd = fd;
    stream.isTTY = false;
    stream.write = (data, encoding, done) => {
        writeAll(fd, typeof data === "string" && typeof encoding === "string" ? bytesFrom(data, encoding) : data);
        for (const called of [encoding, done]) if (typeof called === "function") process.nextTick(called);
        return true;
    };
    return stream;
}
for (const [name, fd] of [["stdout", 1], ["stderr", 2]])
    Object.defineProperty(process, name, { configurable: true, enumerable: true, value: output(fd) });

// process.exit() ends the cell, not the kernel: most code does not catch what it throws, and if it
// does, the cell still ends with that status.
process.exit = (status = process.exitCode ?? 0) => {
    if (current === null) return undefined;
    current.exit = Number(status) & 255;
    throw new Exit(current.exit);
};

function stray(problem) {
    if (problem instanceof Exit) {
        if (current !== null) exited(current);
        return;
    }
    const { traceback } = describe(problem, current ?? { count });
    process.stderr.write(`Uncaught ${traceback}\n`);
}
process.on("uncaughtException", stray);
process.on("unhandledRejection", stray);

// Cells cannot handle SIGINT: libuv would take the signal from the watch.
for (const name of ["on", "addListener", "once", "prependListener", "prependOnceListener"]) {
    const original = process[name];
    process[name] = function (event, ...rest) {
        return event === "SIGINT" ? this : original.call(this, event, ...rest);
    };
}
