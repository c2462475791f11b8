//! A file or the name of a host, and the name of a server -> the entry that is meant.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::nearest::nearest;
use crate::output::shown;

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
}

/// An entry.
pub(super) struct Match<'a> {
    pub(super) config: &'a Config,
    pub(super) server: Server,
    /// Where else there is one of this name, which the host does not take.
    pub(super) others: Vec<String>,
}

impl Lookup {
    pub(super) fn new(which: &Path, project: Option<&Path>) -> Result<Self, Failure> {
        let here = std::path::absolute(project.unwrap_or(Path::new(".")))
            .map_err(|error| Failure::new(format!("cannot tell which folder is worked in: {error}")))?;
        // Hosts know it without symlinks.
        let here = std::fs::canonicalize(&here).unwrap_or(here);
        let mut lookup = Self { configs: Vec::new(), failures: Vec::new(), here };
        let Some(host) = which.to_str().and_then(Host::named) else {
            lookup.configs.push(Config::read(which)?.ok_or_else(|| missing(which))?);
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
                    which.display(),
                    looked.join(", ")
                ))
            };
            return Err(lookup.failures.pop().unwrap_or_else(none));
        }
        Ok(lookup)
    }

    /// The entry that the host takes: of the folder that is worked in, then of the files in their order.
    pub(super) fn find(self: &Lookup, wanted: &str) -> Result<Match<'_>, Failure> {
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
                let rank = self.rank(&server.scope, order);
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
        Ok(Match {
            config,
            server,
            others: found.map(|(_, config, server)| place(config, &server.scope)).collect(),
        })
    }

    /// In which order the host looks; `None` if it does not, where we are.
    pub(super) fn rank(&self, scope: &Scope, order: usize) -> Option<usize> {
        match scope {
            Scope::Project(folder) => self.here.ancestors().position(|it| it == Path::new(folder)),
            Scope::File => Some(DEEPEST + order),
        }
    }

    fn unknown(&self, wanted: &str, elsewhere: Option<Scope>, names: &[String]) -> Failure {
        let places: Vec<String> = self.configs.iter().map(|config| name(config.path())).collect();
        let called = shown(wanted.as_bytes(), 60);
        let failure = Failure::new(format!("there is no server {called} in {}", places.join(", ")));
        if let Some(Scope::Project(folder)) = elsewhere {
            let folder = shown(folder.as_bytes(), 200);
            return failure.hint(format!("there is one for who works in {folder}: --project {folder}"));
        }
        match nearest(wanted, names.iter().map(|name| &name[..])) {
            Some(near) => failure.hint(format!("did you mean {}?", shown(near.as_bytes(), 60))),
            None if names.is_empty() => failure.hint("there are no servers in it at all"),
            None => failure.hint("without a name, all that there are are listed"),
        }
    }
}

pub(super) fn place(config: &Config, scope: &Scope) -> String {
    match scope {
        Scope::File => name(config.path()),
        Scope::Project(folder) => format!("{}, for {},", name(config.path()), shown(folder.as_bytes(), 200)),
    }
}

fn missing(which: &Path) -> Failure {
    let failure = Failure::new(format!("there is no file {}", name(which)));
    match which.to_str().and_then(|wanted| nearest(wanted, Host::NAMES.into_iter())) {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure.hint(format!("it is a file, or one of {}", Host::NAMES.join(", "))),
    }
}

/// No folder has more above it: paths are shorter.
const DEEPEST: usize = 1 << 20;
