//! The configurations of a host -> a line for every server.

use unicode_width::UnicodeWidthStr;

use crate::output::{Output, Tone, shown, stderr};
use crate::{Exit, Failure};

use super::entry::Entry;
use super::file::name;
use super::lookup::Lookup;
use super::servers::{Scope, servers};

pub(super) fn list(lookup: &Lookup, output: &mut Output) -> Result<Exit, Failure> {
    let mut has_servers = false;
    for config in &lookup.configs {
        let document = config.document()?;
        let all = servers(&document);
        if all.is_empty() {
            continue;
        }
        has_servers = true;
        writeln!(output, "{}", output.paint(Tone::Strong, name(&config.path)))?;
        let names: Vec<String> = all.iter().map(|server| shown(server.name.as_bytes(), 40)).collect();
        let widest = names.iter().map(|name| name.width()).max().unwrap_or_default();
        for (server, name) in all.iter().zip(&names) {
            // Arguments are not shown, because they may contain secrets.
            let (state, what) = match Entry::read(&document, &server.entry) {
                Entry::Program(program) => ("direct", program.command(&document)),
                Entry::Attached(attached) => ("attached", attached.command(&document)),
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
    }
    output.flush()?;
    for failure in &lookup.failures {
        crate::failure::report(failure);
    }
    if !has_servers {
        let files: Vec<String> = lookup.configs.iter().map(|config| name(&config.path)).collect();
        let _ = writeln!(stderr(), "there are no servers in {}", files.join(", "));
    }
    Ok(Exit::Clean)
}
