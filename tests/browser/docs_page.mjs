// docs_page.mjs - a person on /docs in a real browser: finds an operation, reads what it takes, copies its
// line for curl, gives a key, tries it.
//
//   node docs_page.mjs PLAYWRIGHT-FOLDER CHROMIUM ADDRESS KEY [PICTURE]    prints one JSON object
import { createRequire } from "node:module";

const [folder, executablePath, address, key, picture] = process.argv.slice(2);
const { chromium } = createRequire(folder + "/")("playwright-core");

async function open(page, name) {
    const box = page.locator("#" + name);
    await box.locator("summary").click();
    await page.locator(`#${name}[data-made]`).waitFor();
    return box;
}

/* The cells of a table, a row each. */
async function rows(box, kind) {
    return box.locator(`table.${kind} tr`).evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
}

async function tryIt(page, box) {
    const shown = box.locator("pre.shown");
    await box.getByRole("button", { name: "Try it" }).click();
    await page.waitForFunction((pre) => /^\d{3} /.test(pre.textContent) && pre.textContent.trim().endsWith("}"),
        await shown.elementHandle());
    const text = await shown.textContent();
    return { status: Number(text.slice(0, 3)), body: text.slice(text.indexOf("\n\n") + 2) };
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
    const context = await browser.newContext({ permissions: ["clipboard-read", "clipboard-write"] });
    const page = await context.newPage();
    const said = [], elsewhere = [], found = {};
    page.on("console", (message) => message.type() === "error" && said.push(message.text()));
    page.on("pageerror", (error) => said.push(String(error)));
    page.on("request", (request) => request.url().startsWith(address) || elsewhere.push(request.url()));
    await page.goto(address + "/docs");
    await page.locator("details.operation").first().waitFor();
    found.operations = await page.locator("details.operation").count();
    found.groups = await page.locator("section").evaluateAll((all) => all.map((one) => (
        [one.querySelector("h2").textContent, one.querySelectorAll("details.operation").length])));
    found.links = await page.locator("nav a").allTextContents();
    found.scopes = Object.fromEntries(await page.locator("details.operation").evaluateAll((all) => all.map((one) => (
        [one.id, one.querySelector(".scope").textContent]))));

    found.stranger = await tryIt(page, await open(page, "info"));
    found.complaints_before = said.splice(0); /* of the 401, which the browser tells */

    const made = await open(page, "createSession");
    found.fields = await rows(made, "body");
    found.example = await made.locator("textarea").inputValue();
    await made.getByRole("button", { name: "Copy" }).click();
    await made.getByRole("button", { name: "Copied" }).waitFor();
    found.curl = await page.evaluate(() => navigator.clipboard.readText());
    if (picture) await page.screenshot({ path: picture, fullPage: true });

    const file = await open(page, "readFile");
    await file.getByLabel("id").fill("an analysis");
    await file.getByLabel("path").fill("/workspace/it's.txt");
    found.parameters = await rows(file, "parameters");
    found.file_curl = await file.locator("pre.curl").textContent();

    await page.locator("#find").fill("v1/run");
    found.visible = await page.locator("details.operation:visible").count();
    found.visible_groups = await page.locator("section:visible").count();
    await page.locator("#key").fill(key);
    const run = await open(page, "run");
    await run.locator("textarea").fill(JSON.stringify({ language: "python", code: "print(6 * 7)" }));
    found.run = await tryIt(page, run);
    found.events = await rows(run, "events");
    await run.getByLabel("as events").check();
    found.run_events = await tryIt(page, run);
    found.overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    found.said = said;
    found.elsewhere = elsewhere;
    await page.goto(address + "/docs#createKey");
    await page.locator("#createKey table.body").waitFor(); /* a link to an operation opens it */
    console.log(JSON.stringify(found));
} finally {
    await browser.close();
}
