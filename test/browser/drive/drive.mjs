// Runs one scenario against the real page and prints what it saw as one line of JSON; what that has to be is the Go test's
// affair. Usage: node drive.mjs SCENARIO PARAMETERS-AS-JSON
import { join } from "node:path";
import { Session } from "./session.mjs";

const [name, text] = process.argv.slice(2);
const params = JSON.parse(text);
const { run } = await import(`./${name}.mjs`);
const session = new Session(params);
const out = { seen: {}, problems: session.problems, foreign: session.foreign, failure: "" };
let page;
try {
  page = await session.open();
  await run(session, page, params, out.seen);
} catch (e) {
  out.failure = String(e.stack ?? e);
  // What it looked like tells more than the error does.
  await page?.screenshot({ path: join(params.shots, `${name}-failed.png`) }).catch(() => {});
}
await session.close();
console.log(JSON.stringify(out));
