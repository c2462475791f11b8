//! The configurations of one host, or of all hosts -> a line for every server.

use unicode_width::UnicodeWidthStr;

use crate::failure::report;
use crate::output::{Output, Tone, shown, stderr};
use crate::{Exit, Failure};

use super::document::ConfigDocument;
use super::entry::Entry;
use super::file::{Config, name};
use super::hosts::{HOSTS, Host};
use super::lookup::Lookup;
use super::servers::Scope;

/// Lists the servers of one host. The answer is no if there are none.
pub(super) fn list(lookup: &Lookup, output: &mut Output) -> Result<Exit, Failure> {
    let mut has_servers = false;
    for config in &lookup.configs {
        let document = config.document()?;
        if !document.servers.is_empty() {
            has_servers = true;
            list_file(config, &document, output)?;
        }
    }
    output.flush()?;
    lookup.failures.iter().for_each(report);
    if has_servers {
        return Ok(Exit::Clean);
    }
    if !lookup.failures.is_empty() {
        return Ok(Exit::Failed);
    }
    Ok(no_servers(lookup))
}

/// Says that there are no servers, and returns the exit code for it.
pub(super) fn no_servers(lookup: &Lookup) -> Exit {
    let files: Vec<String> = lookup.configs.iter().map(|config| name(&config.path)).collect();
    let _ = writeln!(stderr(), "there are no servers in {}", files.join(", "));
    Exit::No
}

/// Lists the servers of all hosts that have a configuration.
pub(super) fn list_all(all: &[(&Host, Lookup)], output: &mut Output) -> Result<Exit, Failure> {
    let (mut has_servers, mut failures) = (false, Vec::new());
    for (host, lookup) in all {
        writeln!(output, "{}", output.paint(Tone::Strong, format!("{} ({})", host.title, host.name)))?;
        for config in &lookup.configs {
            match config.document() {
                Ok(document) if document.servers.is_empty() => writeln!(output, "{}: no servers", name(&config.path))?,
                Ok(document) => {
                    has_servers = true;
                    list_file(config, &document, output)?;
                }
                Err(_) if config.text.trim().is_empty() => writeln!(output, "{}: no servers", name(&config.path))?,
                Err(failure) => failures.push(failure),
            }
        }
    }
    output.flush()?;
    failures.iter().chain(all.iter().flat_map(|(_, lookup)| &lookup.failures)).for_each(report);
    let is_complete = failures.is_empty() && all.iter().all(|(_, lookup)| lookup.failures.is_empty());
    if !has_servers && is_complete {
        let hosts: Vec<&str> = HOSTS.iter().map(|host| host.title).collect();
        let _ = writeln!(stderr(), "no server was found in the configurations of {}", hosts.join(", "));
    }
    Ok(match (has_servers, is_complete) {
        (true, _) => Exit::Clean,
        (false, true) => Exit::No,
        (false, false) => Exit::Failed,
    })
}

fn list_file(config: &Config, document: &ConfigDocument<'_>, output: &mut Output) -> Result<(), Failure> {
    writeln!(output, "{}", output.paint(Tone::Strong, name(&config.path)))?;
    let names: Vec<String> = document.servers.iter().map(|server| shown(server.name.as_bytes(), 40)).collect();
    let widest = names.iter().map(|name| name.width()).max().unwrap_or_default();
    for (server, name) in document.servers.iter().zip(&names) {
        // Arguments are not shown, because they may contain secrets.
        let (state, what) = match Entry::read(&server.entry, document.syntax) {
            Entry::Program(program) => ("direct", program.command().to_owned()),
            Entry::Attached(attached) => ("attached", attached.command().to_owned()),
            Entry::TappedByHand(program) => ("by hand", program),
            Entry::Url(url) => ("http", url.split('?').next().unwrap_or_default().to_owned()),
            Entry::Unsupported(why) => ("unknown", why.to_owned()),
        };
        let tone = if state == "attached" { Tone::Good } else { Tone::Faint };
        let state = output.paint(tone, format!("{state:<8}"));
        let space = " ".repeat(widest - name.width());
        write!(output, "  {name}{space}  {state}  {}", shown(what.as_bytes(), 80))?;
        if let Scope::Project(folder) = &server.scope {
            write!(output, "  (for {})", shown(folder.as_bytes(), 200))?;
        }
        writeln!(output)?;
    }
    Ok(())
}
