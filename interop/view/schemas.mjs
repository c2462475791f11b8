// Values that do not match the schema that the server has listed: marked at the member, also deep in the tree.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { detailOf, folder, memberOf, rowOf, test, withView } from "./harness.mjs";

const CAPTURE = `wire 1 started=2026-07-28T09:30:00Z
>(+0.1) {"jsonrpc":"2.0","id":1,"method":"tools/list"}
<(+0.2) {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"cut","inputSchema":{"type":"object","properties":{"wood":{"type":"object","properties":{"mm":{"type":"integer"}}}}}}]}}
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
  });
});
