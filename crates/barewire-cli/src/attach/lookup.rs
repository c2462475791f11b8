//! A file or the name of a host, and the name of a server -> the entry that is meant.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::output::shown;
use barewire_workbench::text::nearest;

use super::file::{Config, name};
use super::hosts::Host;
use super::servers::{Scope, Server, servers};

/// The configurations that may have it.
pub(super) struct Lookup {
    pub(super) configs: Vec<Config>,
    /// Why others of the host's files could not be read.
    pub(super) failures: Vec<Failure>,
    /// The folder that is worked in.
    here: PathBuf,
    /// Whose configurations they are, if that is known.
    host: Option<Host>,
}

/// An entry.
pub(super) struct FoundServer<'a> {
    pub(super) config: &'a Config,
    pub(super) server: Server,
    /// The file, and where in it if there is another one of this name in the same.
    pub(super) place: String,
    /// Where else there is one of this name, which the host does not take.
    pub(super) others: Vec<String>,
}

impl Lookup {
    pub(super) fn new(wanted: &Path, project: Option<&Path>) -> Result<Self, Failure> {
        let here = std::path::absolute(project.unwrap_or(Path::new(".")))
            .map_err(|error| Failure::new(format!("cannot tell which folder is worked in: {error}")))?;
        // Hosts know it without symlinks.
        let here = std::fs::canonicalize(&here).unwrap_or(here);
        let named = wanted.to_str().and_then(Host::named);
        // By the name that was typed: what it links to may be called anything.
        let host = named.or_else(|| Host::of(&std::path::absolute(wanted).ok()?));
        let mut lookup = Self { configs: Vec::new(), failures: Vec::new(), here, host };
        let Some(host) = named else {
            lookup.configs.push(Config::read(wanted)?.ok_or_else(|| missing(wanted))?);
            return Ok(lookup);
        };
        let files = host.files(&lookup.here);
        for file in &files {
            match Config::read(file) {
                Ok(Some(config)) => lookup.configs.push(config),
                Ok(None) => {}
                Err(failure) => lookup.failures.push(failure),
            }
        }
        if lookup.configs.is_empty() {
            let looked: Vec<String> = files.iter().map(|file| name(file)).collect();
            let none = || {
                Failure::new(format!(
                    "{} has no configuration here: looked for {}",
                    wanted.display(),
                    looked.join(", ")
                ))
            };
            return Err(lookup.failures.pop().unwrap_or_else(none));
        }
        Ok(lookup)
    }

    /// The entry that the host takes: of the folder that is worked in, then of the files in their order.
    pub(super) fn find(self: &Lookup, wanted: &str) -> Result<FoundServer<'_>, Failure> {
        let (mut found, mut elsewhere, mut names, mut broken) = (Vec::new(), None, Vec::new(), None);
        for (order, config) in self.configs.iter().enumerate() {
            let document = match config.document() {
                Ok(document) => document,
                Err(failure) => {
                    broken.get_or_insert(failure);
                    continue;
                }
            };
            for server in servers(&document) {
                let rank = self.rank(&server, order);
                match rank {
                    Some(rank) if server.name == wanted => found.push((rank, config, server)),
                    Some(_) => names.push(server.name),
                    None if server.name == wanted => elsewhere = Some(server.scope),
                    None => {}
                }
            }
        }
        found.sort_by_key(|(rank, ..)| *rank);
        let mut found = found.into_iter();
        let Some((_, config, server)) = found.next() else {
            return Err(broken.unwrap_or_else(|| self.unknown(wanted, elsewhere, &names)));
        };
        let others: Vec<_> = found.collect();
        let is_here = |other: &Config| std::ptr::eq(other, config);
        let place = if others.iter().any(|(_, other, _)| is_here(other)) {
            format!("{}, {}", name(config.path()), within(&server))
        } else {
            name(config.path())
        };
        let elsewhere = |(_, other, server): &(_, &Config, Server)| match server.scope {
            Scope::File if !is_here(other) => name(other.path()),
            _ => format!("{}, {},", name(other.path()), within(server)),
        };
        Ok(FoundServer { config, server, place, others: others.iter().map(elsewhere).collect() })
    }

    /// In which order the host looks; `None` if it does not, where we are.
    fn rank(&self, server: &Server, order: usize) -> Option<(usize, bool)> {
        let rank = match &server.scope {
            Scope::Project(folder) => self.here.ancestors().position(|it| it == Path::new(folder))?,
            Scope::File => FIRST_FILE_RANK + order,
        };
        // VS Code reads `servers`; what is named as with others may have been copied there.
        let is_foreign = self.host == Some(Host::VsCode) && server.place == ["mcpServers"];
        Some((rank, is_foreign))
    }

    fn unknown(&self, wanted: &str, elsewhere: Option<Scope>, names: &[String]) -> Failure {
        let places: Vec<String> = self.configs.iter().map(|config| name(config.path())).collect();
        let called = shown(wanted.as_bytes(), 60);
        let failure = Failure::new(format!("there is no server {called} in {}", places.join(", ")));
        if let Some(Scope::Project(folder)) = elsewhere {
            let folder = shown(folder.as_bytes(), 200);
            return failure.with_hint(format!("there is one for who works in {folder}: --project {folder}"));
        }
        match nearest(wanted, names.iter().map(|name| &name[..])) {
            Some(near) => failure.with_hint(format!("did you mean {}?", shown(near.as_bytes(), 60))),
            None if names.is_empty() => failure.with_hint("there are no servers in it at all"),
            None => failure.with_hint("without a name, all that there are are listed"),
        }
    }
}

/// Where in its file a server stands.
fn within(server: &Server) -> String {
    match &server.scope {
        Scope::File => format!("under {}", server.place.join(" → ")),
        Scope::Project(folder) => format!("for {}", shown(folder.as_bytes(), 200)),
    }
}

fn missing(wanted: &Path) -> Failure {
    let failure = Failure::new(format!("there is no file {}", name(wanted)));
    match wanted.to_str().and_then(|wanted| nearest(wanted, Host::NAMES.into_iter())) {
        Some(near) => failure.with_hint(format!("did you mean {near}?")),
        None => failure.with_hint(format!("it is a file, or one of {}", Host::NAMES.join(", "))),
    }
}

/// No folder has more above it: paths are shorter.
const FIRST_FILE_RANK: usize = 1 << 20;
