//! All servers of a host -> the changed files, for `--all`.

use crate::Exit;
use crate::Failure;
use crate::failure::report;
use crate::output::{Output, shown};

use super::change::{Plan, change};
use super::entry::{Edit, Entry};
use super::file::name;
use super::list::no_servers;
use super::lookup::{FoundServer, Lookup, Wanted};
use super::{print_diff, print_note};

/// Whether `attach` changes an entry. If not, returns the reason, which follows the name of the server.
pub(super) fn is_attachable(entry: &Entry) -> Result<(), String> {
    match entry {
        Entry::Program(_) | Entry::Attached(_) => Ok(()),
        Entry::TappedByHand(_) => Err("already starts barewire tap".to_owned()),
        Entry::Url(_) => Err("is a server at a URL".to_owned()),
        Entry::Unsupported(why) => Err((*why).to_owned()),
    }
}

/// Whether `detach` changes an entry. If not, returns the reason, which follows the name of the server.
pub(super) fn is_attached(entry: &Entry) -> Result<(), String> {
    if let Entry::Attached(_) = entry { Ok(()) } else { Err("is not attached".to_owned()) }
}

/// Changes the entries of all servers for which `is_changed` is true. A failure to change one does not keep the others
/// from being changed.
pub(super) fn change_all(
    read: &impl Fn() -> Result<Lookup, Failure>,
    is_changed: fn(&Entry) -> Result<(), String>,
    plan: &impl Fn(&FoundServer<'_>, &str) -> Result<Plan, Failure>,
    is_dry_run: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let lookup = read()?;
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    let mut has_failed = !lookup.failures.is_empty();
    lookup.failures.iter().for_each(report);
    for config in &lookup.configs {
        let document = match config.document() {
            Ok(document) => document,
            Err(failure) => {
                report(&failure);
                has_failed = true;
                continue;
            }
        };
        for server in &document.servers {
            match is_changed(&Entry::read(&server.entry, document.syntax)) {
                Ok(()) => {
                    let (path, name) = (config.path.clone(), server.name.clone());
                    all.push(Wanted::Exact { path, name, scope: server.scope.clone(), place: server.place });
                }
                Err(why) => {
                    let title = shown(server.name.as_bytes(), 60);
                    notes.push(format!("{title} in {} stays as it is: it {why}", name(&config.path)));
                }
            }
        }
    }
    if all.is_empty() && notes.is_empty() && !has_failed {
        return Ok(no_servers(&lookup));
    }
    if is_dry_run {
        has_failed |= !show_all(&lookup, &all, plan, output)?;
    } else {
        for wanted in &all {
            match change(read, wanted, |found| plan(found, wanted.name())) {
                Ok(lines) => notes.extend(lines),
                Err(failure) => {
                    report(&failure);
                    has_failed = true;
                }
            }
        }
    }
    // Most lines are about the file or the host, and the same for every server.
    let mut printed: Vec<&String> = Vec::new();
    for note in &notes {
        if !printed.contains(&note) {
            print_note(note);
            printed.push(note);
        }
    }
    Ok(if has_failed { Exit::Failed } else { Exit::Clean })
}

/// Prints one diff for each file. Returns false if a change could not be planned.
fn show_all(
    lookup: &Lookup,
    all: &[Wanted],
    plan: &impl Fn(&FoundServer<'_>, &str) -> Result<Plan, Failure>,
    output: &mut Output,
) -> Result<bool, Failure> {
    let mut is_complete = true;
    for config in &lookup.configs {
        let mut edits: Vec<Edit> = Vec::new();
        for wanted in all {
            let found = lookup.find(wanted)?;
            if found.config.path != config.path {
                continue;
            }
            match plan(&found, wanted.name()) {
                Ok(Plan::Change(change)) => edits.extend(change.edits),
                Ok(Plan::Keep(_)) => {}
                Err(failure) => {
                    report(&failure);
                    is_complete = false;
                }
            }
        }
        edits.sort_by_key(|edit| edit.span.start);
        if !edits.is_empty() {
            print_diff(config, &edits, output)?;
        }
    }
    Ok(is_complete)
}
