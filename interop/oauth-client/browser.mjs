// A browser and its user: opens a page of oidc-provider, signs in, agrees, and follows the redirect to the program.
//
//   node browser.mjs URL
//
// It takes the place of xdg-open in the tests. With DENY=1 the user does not agree. Each run is a line in $PAGES.
import { appendFileSync } from "node:fs";

if (process.env.PAGES) appendFileSync(process.env.PAGES, "opened\n");
const cookies = new Map();
let [url, body] = [process.argv[2], undefined];
for (let step = 0; step < 20; step++) {
  const headers = { cookie: [...cookies.values()].join("; ") };
  if (body) headers["content-type"] = "application/x-www-form-urlencoded";
  const response = await fetch(url, { method: body ? "POST" : "GET", body, headers, redirect: "manual" });
  for (const cookie of response.headers.getSetCookie()) cookies.set(cookie.split("=")[0], cookie.split(";")[0]);
  const location = response.headers.get("location");
  const text = await response.text();
  if (location) {
    [url, body] = [new URL(location, url).href, undefined];
    continue;
  }
  const action = text.match(/<form[^>]*action="([^"]+)"/)?.[1];
  if (!action || response.url.includes("/callback")) {
    console.log(response.status, text.replace(/<style[\s\S]*?<\/style>/g, "").replace(/<[^>]*>/g, " ").replace(/\s+/g, " ").trim().slice(0, 200));
    process.exit(0);
  }
  const abort = text.match(/href="([^"]*\/abort)"/)?.[1];
  if (process.env.DENY && abort && text.includes('value="consent"')) {
    [url, body] = [new URL(abort, url).href, undefined];
    continue;
  }
  const fields = new URLSearchParams();
  for (const input of text.matchAll(/<input[^>]*>/g)) {
    const [name, value] = ["name", "value"].map((key) => input[0].match(new RegExp(`\\b${key}="([^"]*)"`))?.[1]);
    if (name) fields.set(name, value ?? "");
  }
  if (fields.has("login")) [fields.set("login", "ada"), fields.set("password", "any")];
  if (text.includes('name="confirm"')) fields.set("confirm", "yes");
  [url, body] = [new URL(action, url).href, fields.toString()];
}
console.error("the page never ended at", url);
process.exit(1);
