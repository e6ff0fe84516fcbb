// execute.mjs - POST /execute, /v1 and /docs as Node's own fetch sees them: URL KEY, the order on
// standard input. Then the page of /docs is used: its script runs on the little of a browser that it
// needs, a key is typed in, and "Try it" of POST /execute is pressed. Prints one JSON object.
import { readFileSync } from "node:fs";

const [url, key] = process.argv.slice(2);
const order = readFileSync(0, "utf8");

async function ask(method, path, body, isNobody) {
    const headers = { "Content-Type": "application/json" };
    if (!isNobody) headers["X-API-Key"] = key;
    return fetch(url + path, { method, headers, body });
}

async function good(method, path, body) {
    const reply = await ask(method, path, body);
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`);
    return reply;
}

// ---- a page

class Element {
    constructor(name) {
        Object.assign(this, { name, children: [], dataset: {}, listeners: {}, value: "", textContent: "" });
    }
    append(...nodes) { this.children.push(...nodes); }
    replaceChildren(...nodes) { this.children = nodes; }
    addEventListener(kind, listener) { this.listeners[kind] = listener; }
    setAttribute() {}
    find(name) {
        return this.children.filter((child) => child instanceof Element)
            .flatMap((child) => (child.name === name ? [child] : []).concat(child.find(name)));
    }
}

async function tryIt(page, path) {
    const parts = { key: new Element("input"), find: new Element("input"), list: new Element("main"), groups: new Element("nav") };
    const document = {
        getElementById: (id) => parts[id], createElement: (name) => new Element(name),
        createDocumentFragment: () => new Element("fragment"),
    };
    const calls = [];
    const browse = (address, options) => {
        calls.push(address);
        return fetch(url + address, options);
    };
    new Function("document", "fetch", "location", "addEventListener", page.split("<script>")[1].split("</script>")[0])(
        document, browse, { hash: "", origin: url }, () => {});
    while (!parts.find.listeners.input && parts.list.textContent === "")
        await new Promise((done) => { setTimeout(done, 5); });
    if (parts.list.textContent) throw new Error(parts.list.textContent);
    parts.key.value = key;
    parts.find.value = "post " + path;
    parts.find.listeners.input({ target: parts.find });
    const all = parts.list.find("details");
    const box = all.find((each) => !each.hidden && each.dataset.words.startsWith(`post ${path} `));
    box.open = true;
    box.listeners.toggle();
    const body = box.find("textarea")[0].value;
    await box.find("button").find((each) => each.textContent === "Try it").listeners.click();
    const show = box.find("pre").find((each) => each.className === "shown");
    while (show.textContent === "..." || show.textContent === "")
        await new Promise((done) => { setTimeout(done, 5); });
    return { operations: all.length, body: JSON.parse(body), shown: show.textContent, calls };
}

const made = (await (await good("POST", "/v1/sessions", "{}")).json()).id;
const docs = await good("GET", "/docs");
const bad = await ask("POST", "/execute", "{");
const refused = await ask("POST", "/execute", order, true);
console.log(JSON.stringify({
    execute: await (await good("POST", "/execute", order)).json(),
    health: await (await good("GET", "/health")).json(),
    exec: await (await good("POST", `/v1/sessions/${made}/exec`, '{"argv":["echo","hi"]}')).json(),
    ended: (await ask("DELETE", `/v1/sessions/${made}`)).status,
    docs: docs.headers.get("content-type"),
    paths: Object.keys((await (await good("GET", "/openapi.json")).json()).paths).sort(),
    bad: [bad.status, await bad.json()],
    refused: [refused.status, await refused.json()],
    page: await tryIt(await docs.text(), "/execute"),
}));
