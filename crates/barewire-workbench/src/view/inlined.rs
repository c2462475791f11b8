//! The files of the page and its data -> one HTML file that needs nothing else.
//!
//! Each module becomes a function that returns what the module exports, so that names of different modules cannot
//! collide. The policy in the file allows exactly this script and this style sheet, by their hashes.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

use super::assets::{ASSETS, asset};

/// Returns the page with its data, which is JSON.
pub(super) fn page(data: &str) -> String {
    let text = |path: &str| asset(path).map_or("", |asset| std::str::from_utf8(asset.content).unwrap_or_default());
    let (style, script) = (text("/app.css"), script());
    let hash = |content: &str| format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, content.as_bytes())));
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(style)
    );
    let icon = STANDARD.encode(text("/icon.svg"));
    let data = data.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    let parts = [
        (POLICY_PLACE, format!("{POLICY_PLACE}\n<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")),
        (ICON, format!("<link rel=\"icon\" href=\"data:image/svg+xml;base64,{icon}\">")),
        (STYLE, format!("<style>{style}</style>")),
        (
            SCRIPT,
            format!(
                "<script type=\"application/json\" id=\"barewire-data\">{data}</script>\n<script type=\"module\">{script}</script>"
            ),
        ),
    ];
    // The parts are in the order of the page, so no part is searched for in another.
    let mut page = String::new();
    let mut rest = text("/");
    for (place, part) in parts {
        let (before, behind) = rest.split_once(place).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(&part);
        rest = behind;
    }
    page + rest
}

/// Returns all modules as one script.
fn script() -> String {
    let mut script = String::from("\"use strict\";\nconst modules = {};\n");
    for asset in ASSETS.iter().filter(|asset| asset.name.ends_with(".js")) {
        let text = std::str::from_utf8(asset.content).unwrap_or_default();
        let module = Module::of(text);
        let exported = module.exported.join(", ");
        let _ = writeln!(
            script,
            "modules[\"{}\"] = (() => {{\n{}return {{ {exported} }};\n}})();",
            asset.name, module.body
        );
    }
    script
}

/// A module without its imports and exports.
struct Module<'a> {
    body: String,
    exported: Vec<&'a str>,
}

impl<'a> Module<'a> {
    fn of(text: &'a str) -> Self {
        let (mut body, mut exported) = (String::new(), Vec::new());
        for line in text.lines() {
            let imported = line.strip_prefix("import {").and_then(|line| line.split_once("} from \"./"));
            if let Some((names, module)) = imported {
                let module = module.trim_end_matches([';', '"']);
                let _ = writeln!(body, "const {{{names}}} = modules[\"{module}\"];");
            } else if let Some(definition) = line.strip_prefix("export ") {
                exported.push(defined_name(definition));
                let _ = writeln!(body, "{definition}");
            } else {
                let _ = writeln!(body, "{line}");
            }
        }
        Self { body, exported }
    }
}

/// Returns the name that a definition such as `async function x() {` defines.
fn defined_name(definition: &str) -> &str {
    let mut rest = definition;
    for word in ["async ", "function* ", "function ", "class ", "const "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').next().unwrap_or_default()
}

const POLICY_PLACE: &str = "<meta charset=\"utf-8\">";
const ICON: &str = "<link rel=\"icon\" href=\"icon.svg\">";
const STYLE: &str = "<link rel=\"stylesheet\" href=\"app.css\">";
const SCRIPT: &str = "<script type=\"module\" src=\"app.js\"></script>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_else_and_data_is_data() {
        let page = page("{\"x\":\"</script><script>alert(1)</script>\u{2028}\"}");
        for place in [ICON, STYLE, SCRIPT] {
            assert!(!page.contains(place), "{place}");
        }
        assert!(page.contains("\\u003c/script>\\u003cscript>alert(1)\\u003c/script>\\u2028"), "the data is escaped");
        assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (2, 2));
        for elsewhere in [" src=", "url(http", "href=\"http", "\nimport ", "\nexport "] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
        let script = page.split("<script type=\"module\">").nth(1).and_then(|rest| rest.split("</script>").next());
        let hash = STANDARD.encode(digest(&SHA256, script.expect("a script").as_bytes()));
        assert!(page.contains(&format!("script-src 'sha256-{hash}'")), "the policy allows the script");
        let style = page.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next());
        let hash = STANDARD.encode(digest(&SHA256, style.expect("a style").as_bytes()));
        assert!(page.contains(&format!("style-src 'sha256-{hash}'")), "the policy allows the style");
    }

    #[test]
    fn a_module_becomes_a_function() {
        let text =
            "import { a, b } from \"./x.js\";\nexport const c = a;\nexport async function d() {}\nconst e = 1;\n";
        let module = Module::of(text);
        assert_eq!(module.exported, ["c", "d"]);
        let body = "const { a, b } = modules[\"x.js\"];\nconst c = a;\nasync function d() {}\nconst e = 1;\n";
        assert_eq!(module.body, body);
    }

    /// A module that is used before it would be missing when the script runs.
    #[test]
    fn modules_are_used_only_after_they_are_there() {
        let mut known: Vec<&str> = Vec::new();
        for asset in ASSETS.iter().filter(|asset| asset.name.ends_with(".js")) {
            let text = std::str::from_utf8(asset.content).expect("UTF-8");
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let module = line.split("\"./").nth(1).and_then(|rest| rest.strip_suffix("\";")).expect(line);
                assert!(line.starts_with("import { ") && known.contains(&module), "{}: {line}", asset.name);
            }
            let is_plain = |line: &str| !defined_name(&line["export ".len()..]).is_empty();
            assert!(text.lines().filter(|line| line.starts_with("export ")).all(is_plain), "{}", asset.name);
            known.push(asset.name);
        }
    }
}
