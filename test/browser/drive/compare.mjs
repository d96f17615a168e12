// Comparing two processes, and two ranges of time; the heatmap.
import { ViewPage } from "./view.mjs";

export async function run(session, page, p, seen) {
  const view = new ViewPage(session, page);
  await processes(session, view, p, seen);
  await ranges(session, view, p, seen);
  await heatmap(session, view, p, seen);
}

async function readDiff(session, view, p, shot) {
  const out = { bar: await view.page.getByRole("region", { name: "Comparison" }).innerText() };
  out.found = await view.search(p.function);
  out.frame = (await view.select()).label;
  await session.shot(view.page, shot);
  await view.tab("Table");
  out.row = (await view.row(p.function)).cells;
  return out;
}

async function processes(session, view, p, seen) {
  const { page } = view;
  await view.goto(`?from=${p.from}&to=${p.to}`);
  await view.filter("process", p.process);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Compare" });
  await session.shot(page, "8-compare");
  // The baseline starts as what is looked at; another process takes the place of this one.
  await view.pick(dialog, "process", p.other);
  await dialog.waitFor({ state: "detached" });
  await view.settled();
  seen.processes = await readDiff(session, view, p, "8-diff-processes");
  await session.shot(page, "8-diff-table");
}

async function ranges(session, view, p, seen) {
  const { page } = view;
  const both = [p.process, p.other]
    .map((n) => `filter=${encodeURIComponent(`process.executable.name=${n}`)}`)
    .join("&");
  await view.goto(`?from=${p.from}&to=${p.half}&${both}`);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Compare" });
  await dialog.getByRole("textbox", { name: "From" }).fill(clock(p.half));
  await dialog.getByRole("textbox", { name: "To" }).fill(clock(p.to));
  await dialog.getByRole("button", { name: "Compare with this range" }).click();
  await view.settled();
  seen.ranges = await readDiff(session, view, p, "8-diff-ranges");
}

/** clock is a time as the page reads it, in UTC, which is the browser's zone here. */
const clock = (ms) => new Date(ms).toISOString().replace("T", " ").slice(0, 23);

async function heatmap(session, view, p, seen) {
  const { page } = view;
  await view.goto(
    `?tab=heatmap&from=${p.from}&to=${p.to}&filter=${encodeURIComponent(`process.executable.name=${p.process}`)}&filter=${encodeURIComponent(`process.executable.name=${p.other}`)}`,
  );
  await session.shot(page, "9-heatmap");
  await view.mark("Heatmap: mark a range of time", p.half, p.to);
  const actions = page.getByRole("group", { name: "The marked range" });
  await actions.waitFor();
  await view.settled();
  seen.heatmap = {
    actions: await actions.innerText(),
    hottest: await page.locator("table.heatmap-hottest tbody tr").allInnerTexts(),
  };
  await session.shot(page, "9-heatmap-marked");
  await actions.getByRole("button", { name: "Flame graph of it" }).click();
  await view.settled();
  seen.heatmap.from = Number(view.query("from"));
  seen.heatmap.to = Number(view.query("to"));
  seen.heatmap.found = await view.search(p.function);
  seen.heatmap.foundOther = await view.search(p.otherFunction);
}
