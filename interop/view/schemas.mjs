// Values that do not match the schema that the server has listed: marked at the member, also deep in the tree.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, detailOf, folder, memberOf, rowOf, test, withView } from "./harness.mjs";

const CAPTURE = `wire 1 started=2026-07-28T09:30:00Z
>(+0.1) {"jsonrpc":"2.0","id":1,"method":"tools/list"}
<(+0.2) {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"cut","description":"a\\u202eb","inputSchema":{"type":"object","properties":{"wood":{"type":"object","properties":{"mm":{"type":"integer"}}}}}}]}}
>(+0.3) {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"cut","arguments":{"wood":{"mm":"three"}}}}
<(+0.4) {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"no"}],"isError":true}}
`;

test("an argument that does not match the listed schema is marked at the member", async () => {
  const capture = join(folder, "schemas.wire");
  writeFileSync(capture, CAPTURE);
  await withView([capture], {}, async (page) => {
    await rowOf(page, 3).locator(".preview", { hasText: '{"wood":{"mm":"three"}}' }).waitFor();
    await rowOf(page, 3).click();
    await detailOf(page, 3);
    await page.locator("#detail .box.bad button", { hasText: "/params/arguments/wood/mm" }).click();
    await memberOf(page, "mm").locator(".schema-error", { hasText: "does not match the inputSchema of cut in frame 2" }).waitFor();
    // A finding about a member is a mark at the member, and no mismatch with a schema.
    await rowOf(page, 2).click();
    await detailOf(page, 2);
    await page.locator("#detail .box.warn").waitFor();
    assert((await page.locator("#detail .box.bad").count()) === 0, "no member is called a mismatch");
    // The result, its tools, and the first of them.
    for (const kind of ["result", "tools", "0"]) await page.locator("#detail .tree-item[aria-expanded=false]", { has: page.locator(`:is(.key, .index):text-is("${kind}")`) }).locator(".twist").click();
    await memberOf(page, "description").locator(".member-mark").waitFor();
  });
});
