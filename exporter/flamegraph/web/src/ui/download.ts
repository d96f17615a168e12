// Downloads: fetched by the page, so that it can show the collector's sentence where there is none.

/** save fetches a file and hands it to the browser under a name. It fails with the collector's reason. */
export async function save(path: string, name: string): Promise<void> {
  let response: Response;
  let body: Blob;
  try {
    response = await fetch(path);
    body = await response.blob();
  } catch {
    throw new Error("The collector does not answer, or its answer ended early.");
  }
  if (!response.ok) throw new Error(await reason(response.status, body));
  const url = URL.createObjectURL(body);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser has its own hold on it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

async function reason(status: number, body: Blob): Promise<string> {
  try {
    const said = (JSON.parse(await body.text()) as { error?: unknown }).error;
    if (typeof said === "string") return said;
  } catch {
    // No sentence: the status has to do.
  }
  return `The collector answered ${status}.`;
}
