// docs_page.mjs - a person on /docs in a real browser: finds an operation, gives a key, tries it.
//
//   node docs_page.mjs PLAYWRIGHT-FOLDER CHROMIUM ADDRESS KEY    prints one JSON object
import { createRequire } from "node:module";

const [folder, executablePath, address, key] = process.argv.slice(2);
const { chromium } = createRequire(folder + "/")("playwright-core");

async function tryIt(page, path, method, fill) {
    const box = page.locator("details").filter({ has: page.locator("code", { hasText: path }) })
        .filter({ has: page.locator(".method", { hasText: method }) }).first();
    await box.locator("summary").click();
    if (fill) await fill(box);
    const shown = box.locator("pre");
    await box.getByRole("button", { name: "Try it" }).click();
    await page.waitForFunction((pre) => /^\d{3} /.test(pre.textContent) && pre.textContent.trim().endsWith("}"),
        await shown.elementHandle());
    const text = await shown.textContent();
    return { status: Number(text.slice(0, 3)), body: JSON.parse(text.slice(text.indexOf("\n\n"))) };
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
    const page = await browser.newPage();
    const said = [], elsewhere = [];
    page.on("console", (message) => message.type() === "error" && said.push(message.text()));
    page.on("pageerror", (error) => said.push(String(error)));
    page.on("request", (request) => request.url().startsWith(address) || elsewhere.push(request.url()));
    await page.goto(address + "/docs");
    await page.locator("details").first().waitFor();
    const found = { operations: await page.locator("details").count() };
    found.stranger = await tryIt(page, "/v1/info", "GET");
    found.complaints_before = said.splice(0); /* of the 401, which the browser tells */
    await page.locator("#find").fill("v1/run");
    found.visible = await page.locator("details:visible").count();
    await page.locator("#key").fill(key);
    found.run = await tryIt(page, "/v1/run", "POST", (box) => box.locator("textarea").fill(
        JSON.stringify({ language: "python", code: "print(6 * 7)" })));
    found.said = said;
    found.elsewhere = elsewhere;
    console.log(JSON.stringify(found));
} finally {
    await browser.close();
}
