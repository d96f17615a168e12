// One range of time: what a function has of it, and what the graph looks like.
import { ViewPage } from "./view.mjs";

export async function run(session, page, p, seen) {
  const view = new ViewPage(session, page);
  await view.goto(`?from=${p.from}&to=${p.to}`);
  seen.processes = await view.filter("process", p.process);
  await session.shot(page, "1-flame");
  seen.found = await view.search(p.function);
  await session.shot(page, "2-search");
  await view.search("");
  await view.tab("Table");
  await session.shot(page, "3-table");
}
