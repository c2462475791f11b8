//! `barewire attach --probe` and its reverse: a host's configuration -> the same with, or without, an entry for the
//! probe.

use std::path::Path;

use crate::output::Output;
use crate::{Exit, Failure};

use super::added::{PROBE_NAME, add, remove};
use super::change::Lock;
use super::entry::Edit;
use super::file::{Config, name};
use super::lookup::Lookup;
use super::replace::ReplaceError;
use super::{print_diff, print_note};

/// What is done with the entry.
#[derive(Clone, Copy)]
pub(super) enum ProbeChange<'a> {
    /// The entry is added, with this path of barewire.
    Add(&'a str),
    Remove,
}

pub(super) fn run(
    read: impl Fn() -> Result<Lookup, Failure>,
    change: ProbeChange<'_>,
    is_dry_run: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut lock: Option<Lock> = None;
    for _ in 0..MAX_ATTEMPTS {
        let lookup = read()?;
        let (config, text) = match plan(&lookup, change)? {
            Planned::Keep(note) => {
                print_note(&note);
                return Ok(Exit::Clean);
            }
            Planned::Change(config, text) => (config, text),
        };
        if is_dry_run {
            print_diff(config, &[difference(&config.text, &text)], output)?;
            return Ok(Exit::Clean);
        }
        if lock.is_none() {
            lock = Some(Lock::take(config.path.parent().unwrap_or(Path::new("/")))?);
            // The file is read again under the lock.
            continue;
        }
        match config.replace(&text) {
            Ok(()) => {
                notes(&lookup, config, change).iter().for_each(|note| print_note(note));
                return Ok(Exit::Clean);
            }
            Err(ReplaceError::Changed) => {}
            Err(ReplaceError::Write(error)) => return Err(config.write_failure(&error)),
            Err(ReplaceError::Owner(error)) => return Err(config.owner_failure(&error)),
        }
    }
    Err(Failure::new("the configuration was changed by another program at every attempt")
        .with_hint("close the host first, if it is running: it writes this file"))
}

enum Planned<'a> {
    /// Nothing is to be done. The line says so.
    Keep(String),
    /// The file, and its text after the change.
    Change(&'a Config, String),
}

fn plan<'a>(lookup: &'a Lookup, change: ProbeChange<'_>) -> Result<Planned<'a>, Failure> {
    let with_entry = lookup.configs.iter().find_map(|config| Some((config, remove(&config.text, config.syntax)?)));
    match (change, with_entry) {
        (ProbeChange::Remove, Some((config, text))) => Ok(Planned::Change(config, text)),
        (ProbeChange::Remove, None) => Ok(Planned::Keep(format!("there is no entry {PROBE_NAME}"))),
        (ProbeChange::Add(_), Some((config, _))) => {
            Ok(Planned::Keep(format!("{} already has the entry {PROBE_NAME}", name(&config.path))))
        }
        (ProbeChange::Add(barewire), None) => {
            // A file that already has servers is one that the host reads.
            let has_servers = |config: &&Config| config.document().is_ok_and(|it| !it.servers.is_empty());
            let config = lookup.configs.iter().find(has_servers).or_else(|| lookup.configs.last());
            let config = config.ok_or_else(|| Failure::new("the host has no configuration here"))?;
            // A syntax error is reported with its place.
            config.document()?;
            let text = add(&config.text, config.syntax, lookup.host(), barewire);
            let text = text.map_err(|why| Failure::new(format!("{} {why}", name(&config.path))))?;
            Ok(Planned::Change(config, text))
        }
    }
}

/// Returns the lines to print after a change.
fn notes(lookup: &Lookup, config: &Config, change: ProbeChange<'_>) -> Vec<String> {
    let path = name(&config.path);
    let restart = lookup.host().map_or("restart the host: it starts its servers when it starts", |host| host.restart);
    match change {
        ProbeChange::Remove => vec![format!("removed {PROBE_NAME} from {path}"), restart.to_owned()],
        ProbeChange::Add(_) => vec![
            format!("added {PROBE_NAME} to {path}"),
            restart.to_owned(),
            "let the host list its tools, and ask its model to call each tool of barewire-probe once".to_owned(),
            "then barewire check --host shows the report, and barewire detach --probe removes the entry".to_owned(),
        ],
    }
}

/// Returns the one edit that turns a text into another.
fn difference(old: &str, new: &str) -> Edit {
    let start = old.char_indices().zip(new.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
    let start = start.unwrap_or(old.len().min(new.len()));
    let (rest, inserted) = (&old[start..], &new[start..]);
    let same = rest.chars().rev().zip(inserted.chars().rev()).take_while(|(a, b)| a == b);
    let same: usize = same.map(|(a, _)| a.len_utf8()).sum();
    Edit { span: start..old.len() - same, with: inserted[..inserted.len() - same].to_owned() }
}

/// The maximum number of times that the file is read: a host that writes it in between costs one more.
const MAX_ATTEMPTS: u32 = 20;
