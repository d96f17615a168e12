// A browser with everything that goes wrong in it written down.
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

/** patience is for a loaded machine with two cores. */
export const patience = 30_000;

export class Session {
  constructor(params) {
    this.base = params.base;
    this.shots = params.shots;
    this.chromium = params.chromium;
    this.playwright = createRequire(join(params.web, "package.json"))("playwright-core");
    this.problems = [];
    this.foreign = [];
    mkdirSync(this.shots, { recursive: true });
  }

  async open() {
    this.browser = await this.playwright.chromium.launch({
      executablePath: this.chromium,
      args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
      timeout: 60_000,
    });
    return this.fresh();
  }

  close() {
    return this.browser?.close();
  }

  /** fresh is a page in a context of its own: nothing is known there of other pages. */
  async fresh() {
    const context = await this.browser.newContext({
      viewport: { width: 1440, height: 900 },
      acceptDownloads: true,
      timezoneId: "UTC",
      colorScheme: "light",
      reducedMotion: "reduce",
    });
    const page = await context.newPage();
    page.setDefaultTimeout(patience);
    this.watch(page);
    return page;
  }

  watch(page) {
    const wrong = (what) => this.problems.push(what);
    page.on("pageerror", (e) => wrong(`error in the page: ${e.stack ?? e}`));
    page.on("console", (m) => ["error", "warning"].includes(m.type()) && wrong(`console: ${m.type()}: ${m.text()}`));
    page.on("dialog", (d) => {
      wrong(`dialog: ${d.message()}`);
      d.dismiss();
    });
    page.on("crash", () => wrong("the page crashed"));
    page.on("response", (r) => r.status() >= 400 && wrong(`${r.status()} for ${r.url()}`));
    page.on("popup", (p) => wrong(`a window opened: ${p.url()}`));
    page.underway = new Set();
    page.on("request", (r) => {
      if (!r.url().startsWith(this.base)) this.foreign.push(r.url());
      // The status is asked for all the time; it is no sign of work.
      if (r.url().includes("/api/") && !r.url().includes("/api/status")) page.underway.add(r);
    });
    page.on("requestfinished", (r) => page.underway.delete(r));
    page.on("requestfailed", (r) => {
      page.underway.delete(r);
      // A question is given up when another one takes its place.
      if (r.failure()?.errorText !== "net::ERR_ABORTED") wrong(`${r.failure()?.errorText} for ${r.url()}`);
    });
  }

  /** shot keeps what the page looks like, light and dark. */
  async shot(page, name) {
    await page.screenshot({ path: join(this.shots, `${name}.png`) });
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    await page.screenshot({ path: join(this.shots, `${name}-dark.png`) });
    await page.emulateMedia({ colorScheme: "light" });
    await page.waitForFunction(() => document.documentElement.dataset.theme === "light");
  }
}
