//! A file or the name of a host, and the name of a server -> the server's entry.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::output::shown;
use barewire_workbench::text::nearest;

use super::file::{Config, name};
use super::hosts::Host;
use super::servers::{Scope, Server, servers};

pub(super) struct Lookup {
    pub(super) configs: Vec<Config>,
    /// The reasons why some files of the host could not be read.
    pub(super) failures: Vec<Failure>,
    /// The project folder.
    here: PathBuf,
    /// The host that the configuration files belong to, if known.
    host: Option<Host>,
}

pub(super) struct FoundServer<'a> {
    pub(super) config: &'a Config,
    pub(super) server: Server,
    /// The file's path; if the file has several servers with this name, also the position of this server in the file.
    pub(super) place: String,
    /// The positions of other servers with the same name, which the host does not use.
    pub(super) others: Vec<String>,
}

impl Lookup {
    /// Reads the given file, or the files of the host with the given name.
    pub(super) fn new(given: &Path, project: Option<&Path>) -> Result<Self, Failure> {
        let here = std::path::absolute(project.unwrap_or(Path::new(".")))
            .map_err(|error| Failure::new(format!("cannot find the project folder: {error}")))?;
        // Hosts resolve symlinks in the project folder's path.
        let here = std::fs::canonicalize(&here).unwrap_or(here);
        let named = given.to_str().and_then(Host::named);
        // The host is recognized by the path as given, because the target of a symlink may have any name.
        let host = named.or_else(|| Host::of_file(&std::path::absolute(given).ok()?));
        let mut lookup = Self { configs: Vec::new(), failures: Vec::new(), here, host };
        let Some(host) = named else {
            lookup.configs.push(Config::read(given)?.ok_or_else(|| missing(given))?);
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
                Failure::new(format!("{} has no configuration here: looked for {}", given.display(), looked.join(", ")))
            };
            return Err(lookup.failures.pop().unwrap_or_else(none));
        }
        Ok(lookup)
    }

    /// Returns the server that the host uses: servers of the project folder come first, then those of each file in
    /// order.
    pub(super) fn find(&self, wanted: &str) -> Result<FoundServer<'_>, Failure> {
        let (mut found, mut elsewhere, mut names, mut unreadable) = (Vec::new(), None, Vec::new(), None);
        for (order, config) in self.configs.iter().enumerate() {
            let document = match config.document() {
                Ok(document) => document,
                Err(failure) => {
                    unreadable.get_or_insert(failure);
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
            return Err(unreadable.unwrap_or_else(|| self.unknown(wanted, elsewhere, &names)));
        };
        let others: Vec<_> = found.collect();
        let is_here = |other: &Config| std::ptr::eq(other, config);
        let place = if others.iter().any(|(_, other, _)| is_here(other)) {
            format!("{}, {}", name(&config.path), place_in_file(&server))
        } else {
            name(&config.path)
        };
        let elsewhere = |(_, other, server): &(_, &Config, Server)| match server.scope {
            Scope::File if !is_here(other) => name(&other.path),
            _ => format!("{}, {},", name(&other.path), place_in_file(server)),
        };
        Ok(FoundServer { config, server, place, others: others.iter().map(elsewhere).collect() })
    }

    /// Returns the rank of a server; the host uses the lowest rank. Returns `None` if the server is for another folder.
    fn rank(&self, server: &Server, order: usize) -> Option<(usize, bool)> {
        let rank = match &server.scope {
            Scope::Project(folder) => self.here.ancestors().position(|it| it == Path::new(folder))?,
            Scope::File => FIRST_FILE_RANK + order,
        };
        // VS Code reads `servers`. A `mcpServers` in its file was perhaps copied from another host, so it ranks lower.
        let is_foreign = self.host == Some(Host::VsCode) && server.place == ["mcpServers"];
        Some((rank, is_foreign))
    }

    fn unknown(&self, wanted: &str, elsewhere: Option<Scope>, names: &[String]) -> Failure {
        let places: Vec<String> = self.configs.iter().map(|config| name(&config.path)).collect();
        let title = shown(wanted.as_bytes(), 60);
        let failure = Failure::new(format!("there is no server {title} in {}", places.join(", ")));
        if let Some(Scope::Project(folder)) = elsewhere {
            let folder = shown(folder.as_bytes(), 200);
            return failure.with_hint(format!("the folder {folder} has this server: --project {folder}"));
        }
        match nearest(wanted, names.iter().map(|name| &name[..])) {
            Some(near) => failure.with_hint(format!("did you mean {}?", shown(near.as_bytes(), 60))),
            None if names.is_empty() => failure.with_hint("the configuration has no servers"),
            None => failure.with_hint("leave out the name to list all servers"),
        }
    }
}

fn place_in_file(server: &Server) -> String {
    match &server.scope {
        Scope::File => format!("under {}", server.place.join(" → ")),
        Scope::Project(folder) => format!("for {}", shown(folder.as_bytes(), 200)),
    }
}

fn missing(given: &Path) -> Failure {
    let failure = Failure::new(format!("there is no file {}", name(given)));
    let names = Host::NAMES.map(|(name, _)| name);
    match given.to_str().and_then(|name| nearest(name, names.into_iter())) {
        Some(near) => failure.with_hint(format!("did you mean {near}?")),
        None => failure.with_hint(format!("give a file or one of {}", names.join(", "))),
    }
}

/// The rank of servers in the first file. Lower ranks are for servers of a project folder: their rank is the number of
/// folders between that folder and the current folder. No path has as many folders as this constant.
const FIRST_FILE_RANK: usize = 1 << 20;
