// openai_files.mjs - the containers and files of OpenAI's own JavaScript client; one JSON line says what it saw.
import { createRequire } from "node:module";
const require = createRequire(process.env.MODULES + "/");
const { OpenAI, toFile } = require("openai");

const client = new OpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY, maxRetries: 0 });
const seen = {};
const bytes = async (reply) => Buffer.from(await reply.arrayBuffer());
const all = async (pages, of) => { const list = []; for await (const one of pages) list.push(of(one)); return list; };

const big = Buffer.alloc(2_000_000, "ab");
const file = await client.files.create({ file: await toFile(big, "räport.bin"), purpose: "user_data" });
seen.file = [file.id.slice(0, 5), file.bytes, file.filename, file.purpose, file.status];
seen.same = big.equals(await bytes(await client.files.content(file.id)));
seen.listed = (await all(client.files.list({ purpose: "user_data" }), (f) => f.id)).includes(file.id);
seen.retrieved = (await client.files.retrieve(file.id)).id === file.id;

const made = await client.containers.create({
  name: "data", file_ids: [file.id], memory_limit: "1g",
  expires_after: { anchor: "last_active_at", minutes: 10 },
});
seen.container = [made.id.slice(0, 5), made.name, made.status, made.expires_after.minutes];
const one = await client.containers.files.create(made.id, { file: await toFile(Buffer.from("x\n1\n"), "a.csv") });
seen.path = [one.path, one.source, one.bytes, one.container_id === made.id];
const two = await client.containers.files.create(made.id, { file_id: file.id });
seen.paths = (await all(client.containers.files.list(made.id, { limit: 1 }), (f) => f.path)).sort();
seen.content = (await bytes(await client.containers.files.content.retrieve(one.id, { container_id: made.id }))).toString();
seen.shown = (await client.containers.files.retrieve(two.id, { container_id: made.id })).bytes;
await client.containers.files.delete(one.id, { container_id: made.id });
seen.left = await all(client.containers.files.list(made.id), (f) => f.path);
seen.found = (await all(client.containers.list({ limit: 1 }), (c) => c.id)).includes(made.id);
seen.errors = [];
for (const call of [
  () => client.containers.create({ name: "x", memory_limit: "64g" }),
  () => client.containers.retrieve("cntr_0"),
  () => client.files.content("file-0"),
  () => client.containers.create({ name: "x", file_ids: ["file-0"] }),
]) {
  try { await call(); } catch (error) { seen.errors.push([error.constructor.name, error.status, error.code, error.param]); }
}
await client.containers.delete(made.id);
seen.deleted = (await client.files.delete(file.id)).deleted;
process.stdout.write(JSON.stringify(seen));
