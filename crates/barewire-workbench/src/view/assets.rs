//! The files of the page, which are in the program.

/// A file of the page.
pub(crate) struct Asset {
    /// The name in the URL.
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) content: &'static [u8],
}

macro_rules! assets {
    ($($name:literal $kind:ident),* $(,)?) => {
        &[$(Asset { name: $name, kind: $kind, content: include_bytes!(concat!("../../assets/view/", $name)) }),*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// All files. The modules are in the order in which they use each other.
pub(crate) const ASSETS: &[Asset] = assets![
    "index.html" HTML,
    "app.css" CSS,
    "icon.svg" SVG,
    "dom.js" SCRIPT,
    "format.js" SCRIPT,
    "exact.js" SCRIPT,
    "api.js" SCRIPT,
    "filter.js" SCRIPT,
    "file-text.js" SCRIPT,
    "file-sums.js" SCRIPT,
    "api-file.js" SCRIPT,
    "state.js" SCRIPT,
    "virtual-list.js" SCRIPT,
    "json-tree.js" SCRIPT,
    "form.js" SCRIPT,
    "conversations.js" SCRIPT,
    "frames.js" SCRIPT,
    "detail.js" SCRIPT,
    "timeline.js" SCRIPT,
    "statistics.js" SCRIPT,
    "findings.js" SCRIPT,
    "questions.js" SCRIPT,
    "drive.js" SCRIPT,
    "compare.js" SCRIPT,
    "keys.js" SCRIPT,
    "app.js" SCRIPT,
];

/// Returns the file at a path.
pub(crate) fn asset(path: &str) -> Option<&'static Asset> {
    let name = if path == "/" { "index.html" } else { path.strip_prefix('/')? };
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_is_in_the_program() {
        let listed = include_str!("../../assets/view/modules.txt").split_whitespace();
        let modules: Vec<&str> = ASSETS.iter().map(|asset| asset.name).filter(|name| name.ends_with(".js")).collect();
        assert_eq!(modules, listed.collect::<Vec<_>>());
    }

    #[test]
    fn a_path_names_a_file_of_the_page_and_no_other() {
        assert_eq!(asset("/").map(|it| it.name), Some("index.html"));
        assert_eq!(asset("/app.js").map(|it| it.kind), Some(SCRIPT));
        for path in ["", "/../Cargo.toml", "/types.d.ts", "//app.js", "/app.js/"] {
            assert!(asset(path).is_none(), "{path}");
        }
    }
}
