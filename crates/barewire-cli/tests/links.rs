//! Every link in the project's Markdown files to a file or a heading of the project leads there. Every test that the
//! pages about limits name exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The Markdown files of the project itself, not of anything that is installed or built below it.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project's folder");
    let (mut folders, mut found) = (vec![root], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let (path, name) = (entry.path(), entry.file_name());
            // A link is not followed: it could lead round in a circle.
            match entry.file_type().expect("its kind").is_dir() {
                true if ["target", "node_modules", ".git"].iter().any(|other| name == *other) => {}
                true => folders.push(path),
                false if path.extension().is_some_and(|it| it == "md") => found.push(path),
                false => {}
            }
        }
    }
    found
}

/// The lines of a page outside its blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The anchors of a page, as GitHub makes them of headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let heading = |line: &str| line.starts_with('#').then(|| line.trim_start_matches('#').trim().to_lowercase());
    let anchor = |heading: String| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    prose(page).filter_map(heading).map(anchor).collect()
}

/// The targets of `[text](target)`.
fn targets(page: &str) -> Vec<String> {
    let text = prose(page).collect::<Vec<_>>().join("\n");
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let (mut checked, mut broken) = (0, Vec::new());
    for path in pages() {
        let page = fs::read_to_string(&path).expect("UTF-8");
        for target in targets(&page).into_iter().filter(|it| !it.contains("://") && !it.starts_with("mailto:")) {
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().expect("a folder").join(file) };
            let leads = match fs::read_to_string(&file) {
                Ok(there) => anchor.is_empty() || anchors(&there).contains(anchor),
                // A folder, or a picture.
                Err(_) => file.exists() && anchor.is_empty(),
            };
            if !leads {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
    assert!(checked > 50, "only {checked} links were found");
}

/// Every page in docs/ can be reached from the index.
#[test]
fn the_index_names_every_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let named = targets(&fs::read_to_string(docs.join("README.md")).expect("the index"));
    for page in fs::read_dir(&docs).expect("docs").map(|entry| entry.expect("an entry").file_name()) {
        let page = page.into_string().expect("UTF-8");
        if page.ends_with(".png") {
            continue;
        }
        let is_named = named.iter().any(|target| target.split('#').next() == Some(&page));
        assert!(page == "README.md" || is_named, "docs/README.md does not name {page}");
    }
}

/// Whether a test exists: `CRATE/PATH: FUNCTION`, or the path of a transcript. A function is one only with the attribute.
fn is_test(root: &Path, name: &str) -> bool {
    match name.split_once(": ") {
        Some((file, function)) => {
            let Ok(text) = fs::read_to_string(root.join("crates").join(file)) else { return false };
            let Some((before, _)) = text.split_once(&format!("fn {function}(")) else { return false };
            // The first piece is the beginning of the function's own line.
            let mut above = before.rsplit('\n').skip(1).map(str::trim).take_while(|line| !line.is_empty());
            above.any(|line| line.starts_with("#[") && line.contains("test"))
        }
        None => name.starts_with("testdata/") && root.join(name).is_file(),
    }
}

/// The rows of the tables of a page whose last column is "test", each with its cells. `all` requires that every table of
/// the page is such a table.
fn tested_rows(page: &str, all: bool) -> Vec<Vec<&str>> {
    let (mut rows, mut is_tested, mut is_heading) = (Vec::new(), false, true);
    for line in prose(page) {
        if !line.starts_with('|') {
            is_heading = true;
            continue;
        }
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if is_heading {
            is_tested = cells.last() == Some(&"test");
            assert!(is_tested || !all, "a table without tests: {line}");
            is_heading = false;
        } else if is_tested && !line.starts_with("|---") {
            rows.push(cells);
        }
    }
    rows
}

/// The last column of each row of a table names the tests of the row. It is `-` if there is none, and never empty.
#[test]
fn every_limit_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_named = |test: &str| {
        let name = test.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        name.is_some_and(|name| is_test(&root, name))
    };
    let (mut rows, mut wrong) = (0, Vec::new());
    for (name, all) in [("limits.md", true), ("security.md", true), ("sign-in.md", false)] {
        let page = fs::read_to_string(root.join("docs").join(name)).expect("a page");
        for row in tested_rows(&page, all) {
            let tests = row.last().expect("a column");
            if *tests != "-" && !tests.split(", ").all(is_named) {
                wrong.push(format!("{name}: {tests:?} in: {row:?}"));
            }
            rows += 1;
        }
    }
    assert!(wrong.is_empty(), "these are no tests:\n{}", wrong.join("\n"));
    assert!(rows > 100, "only {rows} rows were found");
}

/// The known attacks on a sign-in are all in the table, and each has a test.
#[test]
fn every_attack_on_a_sign_in_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/security.md")).expect("a page");
    let (_, section) = page.split_once("\n## Attacks on a sign-in\n").expect("the section");
    let section = section.split("\n## ").next().expect("a section");
    let rows = tested_rows(section, true);
    for attack in [
        "mix-up",
        "code injection",
        "CSRF",
        "PKCE downgrade",
        "open redirect",
        "SSRF by metadata",
        "JWKS confusion",
        "token replay",
        "proof replay",
        "audience confusion",
        "refresh theft",
        "malicious resource server",
        "log and capture leaks",
    ] {
        let row = rows.iter().find(|row| row[0].starts_with(&format!("{attack}: ")));
        let row = row.unwrap_or_else(|| panic!("{attack} is not in the table"));
        assert!(row.last().expect("a column").starts_with('`'), "{attack} has no test");
    }
}
