// build.mjs - dist/esm and dist/cjs with their types.
//
//     node scripts/build.mjs [TSC] [OUTPUT FOLDER]
//
// Without arguments: the tsc of node_modules, into dist.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const tsc = resolve(process.argv[2] ?? join(root, "node_modules", "typescript", "bin", "tsc"));
const out = resolve(process.argv[3] ?? join(root, "dist"));
const typeRoots = join(dirname(tsc), "..", "..", "@types");

rmSync(out, { recursive: true, force: true });
for (const [project, kind] of [["tsconfig.json", "esm"], ["tsconfig.cjs.json", "cjs"]]) {
    execFileSync(process.execPath,
        [tsc, "-p", join(root, project), "--outDir", join(out, kind), "--typeRoots", typeRoots,
            ...(kind === "cjs" ? ["--noCheck"] : [])], // the first pass has checked the same sources
        { stdio: "inherit" });
    mkdirSync(join(out, kind), { recursive: true });
    writeFileSync(join(out, kind, "package.json"),
        JSON.stringify({ type: kind === "esm" ? "module" : "commonjs" }) + "\n");
}
