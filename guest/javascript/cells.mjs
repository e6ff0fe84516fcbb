// cells.mjs - text and value conversions of the JavaScript kernel, which runs nothing:
// rewrites imports of a cell to calls, and values to MIME bundles.
import { createRequire, isBuiltin } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import util from "node:util";

const TEXT_MAX = 1 << 20;
const PICTURE_MAX = 10 << 20; // in base64
const { inspect } = util;
const { stringify: dumps } = JSON;
const JUPYTER = Symbol.for("Jupyter.display");

// JSON that the receiver accepts: no unpaired surrogates, no NUL.
export function stringify(value) {
    return dumps(value, (_, item) => typeof item === "string" ? clean(item) : item);
}

function clean(text) {
    const whole = text.isWellFormed?.() ?? !/[\ud800-\udfff]/.test(text);
    if (!whole) text = Buffer.from(text, "utf8").toString("utf8");
    return text.includes("\0") ? text.replaceAll("\0", "\ufffd") : text;
}

function cutText(text) {
    if (text.length * 3 <= TEXT_MAX || Buffer.byteLength(text) <= TEXT_MAX) return [text, false];
    return [Buffer.from(text).subarray(0, TEXT_MAX).toString("utf8").replace(/\ufffd$/, ""), true];
}

// {data, truncated: {} or {truncated: [MIME types]}}
export function bundle(value, mime) {
    const data = {};
    const cut = [];
    const add = (type, item) => {
        if (item === undefined || item === null) return;
        if (ArrayBuffer.isView(item)) {
            const bytes = Buffer.from(item.buffer, item.byteOffset, item.byteLength);
            item = bytes.toString(type.startsWith("text/") || type.endsWith("xml") ? "utf8" : "base64");
        }
        if (type === "application/json" || type.endsWith("+json")) {
            const text = dumps(item);
            if (text === undefined || text.length > TEXT_MAX) cut.push(type);
            else data[type] = JSON.parse(text);
        } else if (type.startsWith("image/") && type !== "image/svg+xml") {
            if (String(item).length > PICTURE_MAX) cut.push(type);
            else data[type] = String(item);
        } else {
            const [text, isCut] = cutText(String(item));
            data[type] = text;
            if (isCut) cut.push(type);
        }
    };
    if (mime !== undefined) add(String(mime), value);
    else {
        add("text/plain", inspect(value, { maxArrayLength: 1000, maxStringLength: TEXT_MAX }));
        const show = value !== null && typeof value === "object" ? value[JUPYTER] : undefined;
        if (typeof show === "function")
            for (const [type, item] of Object.entries(show.call(value) ?? {})) add(type, item);
    }
    return { data, truncated: cut.length ? { truncated: cut } : {} };
}

// import() and import.meta of cells: names are resolved from the current working directory.
export function importer() {
    const locate = (name) => {
        name = String(name);
        if (isBuiltin(name) || /^(data|file|node|https?):/.test(name)) return name;
        if (/^\.{0,2}\//.test(name)) return pathToFileURL(path.resolve(name)).href;
        try {
            return pathToFileURL(createRequire(`${process.cwd()}/cell.js`).resolve(name)).href;
        } catch {
            return name; // only import() can find a package that has ES modules only
        }
    };
    const load = (name, options) => import(locate(name), options);
    load.meta = {
        get url() { return pathToFileURL(path.resolve("cell.mjs")).href; },
        get dirname() { return process.cwd(); },
        get filename() { return path.resolve("cell.mjs"); },
        resolve: locate,
    };
    return load;
}

// --- imports as calls ---------------------------------------------------------------------------

const WORD = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
// After these a slash begins a regular expression, after other words and closing brackets it divides.
const BEFORE_REGEX = new Set(["return", "typeof", "instanceof", "in", "of", "new", "delete", "void", "throw",
    "case", "do", "else", "yield", "await"]);

// The tokens that matter: {kind: "word" | "string" | "sign" | ..., start, end, depth, isMember}
export function* tokens(code) {
    const braces = []; // the kind of each open bracket: "${" belongs to a template
    let at = code.startsWith("#!") ? lineEnd(code, 0) : 0;
    let last = null;
    const make = (kind, end) => {
        const token = { kind, start: at, end, depth: braces.length, text: code.slice(at, end), last };
        at = end;
        last = { kind, text: token.text };
        return token;
    };
    while (at < code.length) {
        const char = code[at];
        if (/\s/.test(char)) at++;
        else if (code.startsWith("//", at)) at = lineEnd(code, at);
        else if (code.startsWith("/*", at)) at = closing(code, at + 2, "*/");
        else if (char === '"' || char === "'") yield make("string", quoted(code, at));
        else if (char === "`" || (char === "}" && braces[braces.length - 1] === "${")) {
            if (char === "}") braces.pop();
            const end = template(code, at + 1);
            yield make("template", end);
            if (code.startsWith("${", end - 2) && code[end - 1] === "{") braces.push("${");
        } else if (char === "/" && regexMayBegin(last)) yield make("regex", regex(code, at));
        else if ((WORD.lastIndex = at, WORD.test(code))) yield make("word", WORD.lastIndex);
        else if (/[0-9]/.test(char)) yield make("number", at + /^[\w.]+/.exec(code.slice(at, at + 400))[0].length);
        else {
            if ("([{".includes(char)) braces.push(char);
            else if (")]}".includes(char)) braces.pop();
            yield make("sign", at + 1);
        }
    }
}

function lineEnd(code, at) {
    const end = code.indexOf("\n", at);
    return end < 0 ? code.length : end;
}

function closing(code, at, mark) {
    const end = code.indexOf(mark, at);
    return end < 0 ? code.length : end + mark.length;
}

function quoted(code, at) {
    const mark = code[at];
    for (let i = at + 1; i < code.length; i++) {
        if (code[i] === "\\") i++;
        else if (code[i] === mark || code[i] === "\n") return i + 1;
    }
    return code.length;
}

// The end of a template's text: after its ` or its ${
function template(code, at) {
    for (let i = at; i < code.length; i++) {
        if (code[i] === "\\") i++;
        else if (code[i] === "`") return i + 1;
        else if (code[i] === "$" && code[i + 1] === "{") return i + 2;
    }
    return code.length;
}

function regex(code, at) {
    let isClass = false;
    for (let i = at + 1; i < code.length && code[i] !== "\n"; i++) {
        if (code[i] === "\\") i++;
        else if (code[i] === "[") isClass = true;
        else if (code[i] === "]") isClass = false;
        else if (code[i] === "/" && !isClass) return i + 1;
    }
    return at + 1; // it was a division
}

function regexMayBegin(last) {
    if (last === null) return true;
    if (last.kind === "word") return BEFORE_REGEX.has(last.text);
    if (last.kind === "sign") return !")]}".includes(last.text);
    return last.kind === "template" && last.text.endsWith("${");
}

// `import a, {b as c} from "d"` as `const {default: a, b: c} = await __bailey_import__("d")`, import()
// and import.meta as that function's. Line numbers do not change.
export function rewriteImports(code) {
    const all = [...tokens(code)];
    let result = "";
    let done = 0;
    const replace = (start, end, text) => {
        const lines = code.slice(start, end).split("\n").length - 1;
        result += code.slice(done, start) + text + "\n".repeat(lines);
        done = end;
    };
    for (let i = 0; i < all.length; i++) {
        const { kind, text, start, last, depth } = all[i];
        if (kind !== "word" || text !== "import" || (last?.kind === "sign" && last.text === ".")) continue;
        const next = all[i + 1]?.text;
        if (next === "." || (next === "(" && !isMethod(all, i))) replace(start, all[i].end, "__bailey_import__");
        else if (depth === 0) {
            const end = statement(all, i);
            if (end === null) continue;
            const behind = attributes(all, end);
            const options = behind === end ? "" : `, { with: ${code.slice(all[end + 2].start, all[behind].end)} }`;
            replace(start, all[behind].end, asCall(all.slice(i + 1, end + 1), options));
            i = behind;
        }
    }
    return result + code.slice(done);
}

// The index of the module's name in an import statement that begins at `at`.
function statement(all, at) {
    for (let i = at + 1; i < all.length && i < at + 10000; i++) {
        if (all[i].kind === "string" && (i === at + 1 || all[i - 1].text === "from")) return i;
        if (all[i].kind !== "word" && all[i].kind !== "string" && !"{},*".includes(all[i].text)) return null;
    }
    return null;
}

// `import(x) {` defines a method of that name.
function isMethod(all, at) {
    for (let i = at + 2; i < all.length; i++)
        if (all[i].text === ")" && all[i].depth === all[at].depth)
            return all[i + 1]?.text === "{" && all[i + 1].start - all[i].end < 2;
    return false;
}

// The index of the last token of `with { type: "json" }`, or of the module's name.
function attributes(all, end) {
    if (all[end + 1]?.text !== "with" || all[end + 2]?.text !== "{") return end;
    for (let i = end + 3; i < all.length; i++) if (all[i].text === "}") return i;
    return end;
}

function asCall(parts, options) {
    const call = `await __bailey_import__(${parts[parts.length - 1].text}${options});`;
    const words = parts.slice(0, -2).map((part) => part.text);
    if (words.length === 0) return call;
    const names = [];
    let whole = null;
    for (let i = 0; i < words.length; i++) {
        if (words[i] === "*") whole = words[i += 2];
        else if (words[i] === "{") {
            for (i++; words[i] !== "}"; i++) {
                if (words[i] === ",") continue;
                if (words[i + 1] === "as") names.push(`${words[i]}: ${words[i += 2]}`);
                else names.push(words[i]);
            }
        } else if (words[i] !== ",") names.push(`default: ${words[i]}`);
    }
    if (whole === null) return `const {${names.join(", ")}} = ${call}`;
    const rest = names.length ? ` const {${names.join(", ")}} = ${whole};` : "";
    return `const ${whole} = ${call}${rest}`;
}
