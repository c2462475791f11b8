//! The catalogue -> docs/checks.md.

use std::fmt::Write;

use barewire_workbench::check::catalogue::{Category, Check, Severity, all};

/// The whole page.
pub(super) fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n| severity | means |\n|---|---|\n");
    for severity in Severity::ALL {
        say(&mut page, format_args!("| {} | {} |\n", severity.as_str(), severity.meaning()));
    }
    page.push_str("\n## All checks\n\n| id | severity | rule | what must hold |\n|---|---|---|---|\n");
    for check in all() {
        let Check { id, title, severity, level, .. } = check;
        say(&mut page, format_args!("| [`{id}`](#{id}) | {} | {} | {title} |\n", severity.as_str(), level.as_str()));
    }
    for category in Category::ALL {
        let name = category.as_str();
        let (first, rest) = name.split_at(1);
        say(&mut page, format_args!("\n## {}{rest}\n\n{}.\n", first.to_uppercase(), capital(category.description())));
        for check in all().filter(|check| check.category == category) {
            section(&mut page, check);
        }
    }
    page
}

fn section(page: &mut String, check: &Check) {
    say(page, format_args!("\n### {}\n\n**{}.** {}\n\n", check.id, check.title, sentence(check.why)));
    let severity = format!("{}: {}", check.severity.as_str(), check.rationale);
    let rule = format!("{}, {}", check.level.as_str(), check.revisions);
    let places: Vec<_> = check.places.iter().map(|place| place.as_str()).collect();
    let mut runs = places.join(", ");
    if check.hostile {
        runs.push_str("; hostile input");
    }
    let links = |ids: &[&str]| ids.iter().map(|id| format!("[`{id}`](#{id})")).collect::<Vec<_>>().join(", ");
    let references: Vec<_> = check.references.iter().map(|it| format!("[{}]({})", it.label(), it.url())).collect();
    let history: Vec<_> = check.history.iter().map(|(version, what)| format!("{version} ({what})")).collect();
    for (label, text) in [
        ("Severity", severity),
        ("Rule", rule),
        ("Looks at", check.looks_at.to_owned()),
        ("Passes if", check.pass.to_owned()),
        ("Fails if", check.fail.to_owned()),
        ("Skipped if", check.skip.to_owned()),
        ("Says", check.sentence.to_owned()),
        ("Fix", check.remedy.to_owned()),
        ("Runs on", runs),
        ("Needs", links(check.needs)),
        ("See", links(check.see)),
        ("References", references.join(", ")),
        ("Version", history.join(", ")),
    ] {
        if !text.is_empty() {
            say(page, format_args!("- {label}: {}\n", text.trim_end_matches('.')));
        }
    }
    say(page, format_args!("\n```\n{}\n```\n", check.example));
}

fn say(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a String takes everything");
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn sentence(text: &str) -> &str {
    text.trim()
}

const INTRODUCTION: &str = "\
# Checks

Generated from the catalogue in `crates/barewire-workbench/src/check/catalogue`; `BLESS=1 cargo test -p barewire-cli --test check` \
writes it anew. `barewire check --list` and `barewire check --explain ID` show the same.

The same checks run in three places: on a live server (`barewire check -- PROGRAM…` or `barewire check --url URL`), on a capture (`barewire check FILE.wire`), and \
while a conversation passes by (`barewire tap`). A capture shows only what was said in it, so the checks that have to provoke \
something run only on a live server. Each finding says whose fault it is (the client's, the server's or the carrier's), names the \
frame and the byte, and quotes what was seen there.

Only what can be seen on the wire, on stderr and from the process is checked. What can only be seen in source code is out of scope: \
how a server stores its secrets, whether a tool does what its description says, whether input is used unsafely behind the wire, \
which versions of which libraries are in it. A server without findings keeps to the protocol; that it is safe does not follow.

A check that depends on one that failed is skipped, so that the first cause is named and not its consequences. A tool is called only \
if it says that it changes nothing (`readOnlyHint`), if it is given with `--call`, or with `--allow-calls`; what is skipped for want \
of that is not missing evidence. Checks marked as hostile send what no well-behaved client sends, to programs that barewire has \
started itself; to a URL only with `--hostile`. What looks like an attack over HTTP but is an ordinary request otherwise (another \
Origin, another Host, another type) is sent to a server on this machine without being asked for, and elsewhere only with `--hostile`.
";
