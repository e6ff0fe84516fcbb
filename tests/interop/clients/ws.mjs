// ws.mjs - the door as npm's `ws` and Node's own WebSocket see it: FOLDER URL KEY SESSION [own].
// Prints one JSON object with what it saw.
import { createRequire } from "node:module";

const [folder, url, key, session, own] = process.argv.slice(2);
const Client = own ? WebSocket : createRequire(`${folder}/x.js`)("ws");
const protocols = ["bailey.v1", `bailey.key.${key}`];
const saw = { stdout: "", terminal: "" };

function messages(path, hear) {
    return new Promise((resolve, reject) => {
        const ws = new Client(url + path, protocols);
        ws.binaryType = "arraybuffer";
        ws.onerror = error => reject(new Error(`${path}: ${error.message}`));
        ws.onclose = event => resolve(event.code);
        ws.onopen = () => hear(ws, null);
        ws.onmessage = event => hear(ws, event.data);
    });
}

saw.code = await messages(`/v1/sessions/${session}/ws`, (ws, data) => {
    if (data === null) {
        saw.protocol = ws.protocol;
        ws.send(JSON.stringify({ type: "exec", id: "a", argv: ["sh", "-c", "cat; exit 4"], stdin: true }));
        return;
    }
    const message = JSON.parse(data);
    if (message.id === "a") {
        // Larger than one frame's short lengths, and no ASCII.
        saw.sent = "\u00e4\u{1f600}".repeat(20000);
        ws.send(JSON.stringify({ type: "stdin", execution: message.execution_id, data: saw.sent, end: true }));
    }
    if (message.event === "stdout") saw.stdout += message.data.data;
    if (message.event === "exit") {
        saw.exit_code = message.data.exit_code;
        ws.close(1000, "done");
    }
});
saw.is_same = saw.sent === saw.stdout;
delete saw.sent;
delete saw.stdout;

saw.terminal_code = await messages(`/v1/sessions/${session}/pty/ws?rows=33&columns=99`, (ws, data) => {
    if (data === null) return ws.send(new TextEncoder().encode("stty size; exit 6\n"));
    if (typeof data !== "string") saw.terminal += new TextDecoder().decode(data);
    else if (JSON.parse(data).type === "exit") saw.terminal_exit = JSON.parse(data).exit_code;
});
console.log(JSON.stringify(saw));
