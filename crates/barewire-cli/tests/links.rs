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
                Err(_) => file.is_dir() && anchor.is_empty(),
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
        let is_named = named.iter().any(|target| target.split('#').next() == Some(&page));
        assert!(page == "README.md" || is_named, "docs/README.md does not name {page}");
    }
}

/// Whether a test exists: `CRATE/PATH: FUNCTION`, or the path of a transcript.
fn is_test(root: &Path, name: &str) -> bool {
    match name.split_once(": ") {
        Some((file, function)) => {
            let definition = format!("fn {function}(");
            fs::read_to_string(root.join("crates").join(file)).is_ok_and(|text| text.contains(&definition))
        }
        None => name.starts_with("testdata/") && root.join(name).is_file(),
    }
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
    for name in ["limits.md", "security.md"] {
        let page = fs::read_to_string(root.join("docs").join(name)).expect("a page");
        for row in prose(&page).filter(|line| line.starts_with('|') && !line.starts_with("|---")) {
            let (_, tests) = row.strip_suffix('|').and_then(|row| row.rsplit_once('|')).expect("a row of a table");
            match tests.trim() {
                // The heading of the column.
                "test" => continue,
                "-" => {}
                tests if tests.split(", ").all(is_named) => {}
                tests => wrong.push(format!("{name}: {tests:?} in: {row}")),
            }
            rows += 1;
        }
    }
    assert!(wrong.is_empty(), "these are no tests:\n{}", wrong.join("\n"));
    assert!(rows > 100, "only {rows} rows were found");
}
