//! The catalogue -> docs/checks.md.

use barewire_workbench::check::catalogue::{Category, Check, Level, Severity, all};

use crate::check_entry::{facts, references};

pub(super) fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n| severity | meaning |\n|---|---|\n");
    for severity in Severity::ALL {
        page += &format!("| {} | {} |\n", severity.as_str(), severity.meaning());
    }
    page.push_str("\n| rule | meaning |\n|---|---|\n");
    for level in Level::ALL {
        page += &format!("| {} | {} |\n", level.as_str(), level.meaning());
    }
    page.push_str("\n## All checks\n\n| id | severity | rule | what must hold |\n|---|---|---|---|\n");
    for Check { id, title, severity, level, .. } in all() {
        page += &format!("| [`{id}`](#{id}) | {} | {} | {title} |\n", severity.as_str(), level.as_str());
    }
    for category in Category::ALL {
        let (name, description) = (capitalized(category.as_str()), capitalized(category.description()));
        page += &format!("\n## {name}\n\n{description}.\n");
        for check in all().filter(|check| check.category == category) {
            page += &section(check);
        }
    }
    page
}

fn section(check: &Check) -> String {
    let mut section = format!("\n### {}\n\n**{}.** {}\n\n", check.id, check.title, check.why);
    for (label, text) in facts(check, |id| format!("[`{id}`](#{id})")) {
        section += &format!("- {label}: {}\n", text.trim_end_matches('.'));
    }
    let references: Vec<_> = references(check).iter().map(|(label, url)| format!("[{label}]({url})")).collect();
    if !references.is_empty() {
        section += &format!("- References: {}\n", references.join(", "));
    }
    section + &format!("\n```\n{}\n```\n", check.example)
}

fn capitalized(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

const INTRODUCTION: &str = "\
# Checks

Generated from the catalogue in `crates/barewire-workbench/src/check/catalogue`; `BLESS=1 cargo test -p barewire-cli \
--test all check::` regenerates it. `barewire check --list` and `barewire check --explain ID` show the same.

The same checks run in four places: on a live server (`barewire check -- PROGRAM…` or `barewire check --url URL`), \
on a capture (`barewire check FILE.wire`), on traffic as it passes (`barewire tap`), and on a host that uses a probe \
as its server (`barewire check --host`, see [probe.md](probe.md)). Checks that send their own input run only on a live \
server or a host. Each finding names the party at fault (client, server or carrier), the frame and the byte, and shows \
the request and the response with the fault marked.

The checks see only the messages, stderr and the process. They do not see the source code, so they cannot tell how a \
server stores its secrets, whether a tool does what its description says, whether input is used unsafely, or which \
versions of which libraries the server uses. A server without findings follows the protocol; that does not make it safe.

A check that depends on a failed check is skipped, so that the report names the cause and not its consequences. A \
tool is called only if it declares that it is read-only (`readOnlyHint`), if `--call` names it, or with \
`--allow-calls`. A check that is skipped for lack of such a permission does not make the run incomplete. Hostile \
input is sent to programs that barewire has started itself \
and to loopback URLs, and to another machine only with `--hostile`. The same applies to requests that look like an \
attack over HTTP (a foreign Origin or Host, a wrong Content-Type, a token with a proof of another request).
";
