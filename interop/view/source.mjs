// The files of the page: no way from text to markup or code, modules that can be joined, a small size.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync } from "node:zlib";
import { assert, equal, root, test } from "./harness.mjs";

const assets = join(root, "crates/barewire-workbench/assets/view");
const modules = readFileSync(join(assets, "modules.txt"), "utf8").trim().split("\n");
const read = (name) => readFileSync(join(assets, name), "utf8");

const SINKS = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\s*\(|new\s+Function|Function\(|setTimeout\(\s*["'`]|DOMParser|createContextualFragment|setHTML|srcdoc|\.cssText|setAttribute\(\s*["'](style|on)|\bimport\((?!"\.\/types"|"\.\/questions\.js"\)\.Questions)|https?:\/\//;

test("no text becomes markup or code", () => {
  for (const name of modules) {
    for (const [index, line] of read(name).split("\n").entries()) {
      assert(!SINKS.test(line) || line.includes("www.w3.org/2000/svg"), `${name}:${index + 1}: ${line.trim()}`);
      // Elements and attributes are made in one module.
      assert(name === "dom.js" || !/createElement(NS)?\((?!"canvas")|\.href\s*=|\.src\s*=/.test(line), `${name}:${index + 1}: ${line.trim()}`);
    }
  }
  const page = read("index.html");
  assert(!/<script(?![^>]*\bsrc=)|\son[a-z]+=|\sstyle=/i.test(page), "index.html has inline code or style");
});

test("modules can be joined to one script", () => {
  equal(readdirSync(assets).filter((name) => name.endsWith(".js")).sort(), [...modules].sort(), "modules.txt");
  const owners = new Map();
  const before = new Set();
  for (const name of modules) {
    for (const line of read(name).split("\n")) {
      if (/^import\b/.test(line)) {
        const parts = /^import \{ [\w, ]+ \} from "\.\/([\w-]+\.js)";$/.exec(line);
        assert(parts, `${name}: ${line}`);
        assert(before.has(parts[1]), `${name} imports ${parts[1]}, which comes later in modules.txt`);
      }
      assert(!/^export (?!(async )?function |class |const )/.test(line), `${name}: ${line}`);
      const top = /^(?:export )?(?:async )?(?:function|class|const|let) (\w+)/.exec(line);
      if (top) {
        assert(!owners.has(top[1]), `${top[1]} is in ${owners.get(top[1])} and in ${name}`);
        owners.set(top[1], name);
      }
    }
    before.add(name);
  }
});

test("the page is small", () => {
  let bytes = 0;
  for (const name of ["index.html", "app.css", "icon.svg", ...modules]) bytes += brotliCompressSync(read(name)).length;
  assert(bytes < 100_000, `${bytes} bytes compressed`);
  return `${bytes} bytes compressed`;
});
