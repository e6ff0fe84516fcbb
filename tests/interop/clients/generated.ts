// generated.ts - uses the types that openapi-typescript wrote, with openapi-fetch; prints what it got as JSON.
//
// api.d.ts is beside this file. BAILEY_URL and BAILEY_API_KEY name the server.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { env: Record<string, string> };
type Schemas = components["schemas"];

const client = createClient<paths, "application/json">({
    baseUrl: process.env.BAILEY_URL,
    headers: { Authorization: `Bearer ${process.env.BAILEY_API_KEY}` },
});

function got<T>(answer: { data?: T; error?: unknown }): T {
    if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
    return answer.data;
}

async function main(): Promise<void> {
    const made: Schemas["Session"] = got(await client.POST("/v1/sessions", {
        body: { name: "generated", datasets: [{ name: "sales", content: "month,total\nJan,42\n" }] },
    }));
    const datasets: Schemas["Dataset"][] = made.datasets ?? [];
    // @ts-expect-error: a member that sessions do not have
    void made.data_sets;
    // @ts-expect-error: a body without the code
    const wrong: paths["/v1/sessions/{id}/code"]["post"]["requestBody"]["content"]["application/json"] = {};
    void wrong;
    const params = { path: { id: made.id } };

    const cell = got(await client.POST("/v1/sessions/{id}/code", {
        params, body: { language: "python", timeout: 60,
            code: "import csv\nint(list(csv.DictReader(open('/tmp/data/sales.csv')))[0]['total']) * 2" },
    })) as Schemas["CellResult"]; // 202 is a Process, when the body asks for it
    const value: unknown = cell.results[0]?.data?.["text/plain"];
    const found = got(await client.GET("/v1/sessions/{id}", { params: { path: { id: "generated" } } }));
    const state: Schemas["Session"]["state"] = found.state;
    const command = got(await client.POST("/v1/sessions/{id}/exec", {
        params, body: { argv: ["/bin/sh", "-c", "wc -l < /tmp/data/sales.csv"], timeout: 60 },
    })) as Schemas["Result"];

    // The output of a command as events: the document has the type of their data.
    const stream = await fetch(`${process.env.BAILEY_URL}/v1/run`, {
        method: "POST", body: JSON.stringify({ code: "print('a line')" }),
        headers: { Authorization: `Bearer ${process.env.BAILEY_API_KEY}`, Accept: "text/event-stream",
            "Content-Type": "application/json" },
    });
    const events = await stream.text();
    const first = /^event: stdout\ndata: (.*)$/m.exec(events);
    const printed: Schemas["RunOutputEvent"] = JSON.parse(first?.[1] ?? "{}");
    if (printed.encoding !== "utf8" || printed.data !== "a line\n") throw new Error(events);

    const listed = got(await client.GET("/v1/sessions"));
    const file = { params: { ...params, query: { path: "/workspace/a.txt" } } };
    got(await client.PUT("/v1/sessions/{id}/files", {
        ...file, body: "hello\n", bodySerializer: (body) => body, headers: { "Content-Type": "application/octet-stream" },
    }));
    const read = await client.GET("/v1/sessions/{id}/files", { ...file, parseAs: "text" });
    const missing = await client.GET("/v1/sessions/{id}", { params: { path: { id: "no-such-one" } } });
    const refused: Schemas["Error"]["error"]["code"] | undefined = missing.error?.error.code;
    const ended = got(await client.DELETE("/v1/sessions/{id}", { params }));
    const left = got(await client.GET("/v1/sessions"));

    console.log(JSON.stringify({
        created: made.name, datasets: datasets.map((one) => one.path), value, state, lines: command.stdout,
        listed: listed.sessions.map((one) => one.name), file: read.data, refused, ended: ended.state,
        left: left.sessions.map((one) => one.name),
    }));
}

await main();
