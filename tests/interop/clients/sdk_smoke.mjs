// sdk_smoke.mjs - the TypeScript SDK in another runtime: HTTP, streams, input, a terminal, errors.
import { Sandbox } from "bailey-sandbox";
const sandbox = await Sandbox.create();
try {
    const seen = [];
    const execution = await sandbox.runCode("print('streamed')\n1+1", { onStdout: (text) => seen.push(text) });
    const handle = await sandbox.commands.start(["cat"], { stdin: true });
    await handle.sendStdin("fed", { end: true });
    let fed = "";
    for await (const chunk of handle) fed += chunk.text;
    await sandbox.files.write("a.txt", "text");
    const terminal = await sandbox.pty({ command: "read line; echo got:$line; exit 5" });
    await terminal.send("word\r");
    await terminal.readUntil("got:word");
    const code = await terminal.wait();
    let missing;
    await sandbox.files.read("b.txt").catch((error) => (missing = error.code));
    console.log(JSON.stringify([execution.text, seen.join(""), fed, await sandbox.files.read("a.txt"), code, missing]));
} finally {
    await sandbox.close();
}
