//! A file or the name of a host, and the name of a server -> the server's entry.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::output::shown;
use barewire_workbench::text::nearest;

use super::file::{self, Config, name};
use super::folders::Folders;
use super::hosts::{HOSTS, Host};
use super::servers::{Scope, Server};

pub(super) struct Lookup {
    pub(super) configs: Vec<Config>,
    /// The reasons why some files of the host could not be read.
    pub(super) failures: Vec<Failure>,
    /// The project folder.
    here: PathBuf,
    /// The host that the configuration files belong to, if known.
    host: Option<&'static Host>,
}

/// The server to look for.
pub(super) enum Wanted {
    /// The server with this name that the host uses in the project folder.
    Named(String),
    /// The server at exactly this place.
    Exact { path: PathBuf, name: String, scope: Scope, place: &'static [&'static str] },
}

impl Wanted {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Named(name) | Self::Exact { name, .. } => name,
        }
    }
}

pub(super) struct FoundServer<'a> {
    pub(super) config: &'a Config,
    /// The host that the configuration belongs to, if known.
    pub(super) host: Option<&'static Host>,
    pub(super) server: Server,
    /// The file's path; if the file has several servers with this name, also the position of this server in the file.
    pub(super) place: String,
    /// The positions of other servers with the same name, which the host does not use.
    pub(super) others: Vec<String>,
}

impl Lookup {
    /// Reads the given file, or the files of the host with the given name.
    pub(super) fn new(given: &Path, project: Option<&Path>) -> Result<Self, Failure> {
        let here = project_folder(project)?;
        let Some(host) = given.to_str().and_then(Host::named) else {
            let configs = vec![Config::read(given)?.ok_or_else(|| missing(given))?];
            // The host is recognized by the path as given, because the target of a symlink may have any name.
            let host = std::path::absolute(given).ok().and_then(|path| Host::of_file(&path));
            return Ok(Self { configs, failures: Vec::new(), here, host });
        };
        let (mut lookup, files) = Self::of_host(host, here);
        if lookup.configs.is_empty() {
            let looked: Vec<String> = files.iter().map(|file| name(file)).collect();
            let none = || {
                Failure::new(format!("{} has no configuration here: looked for {}", given.display(), looked.join(", ")))
            };
            return Err(lookup.failures.pop().unwrap_or_else(none));
        }
        Ok(lookup)
    }

    /// Reads the files of every known host that has any.
    pub(super) fn all(project: Option<&Path>) -> Result<Vec<(&'static Host, Self)>, Failure> {
        let here = project_folder(project)?;
        let all = HOSTS.iter().map(|host| (host, Self::of_host(host, here.clone()).0));
        Ok(all.filter(|(_, lookup)| !lookup.configs.is_empty() || !lookup.failures.is_empty()).collect())
    }

    /// Reads the files of a host. Returns also the paths at which it looked for them.
    fn of_host(host: &'static Host, here: PathBuf) -> (Self, Vec<PathBuf>) {
        let files = host.files(&Folders::here(&here));
        let mut lookup = Self { configs: Vec::new(), failures: Vec::new(), here, host: Some(host) };
        for file in &files {
            match Config::read(file) {
                Ok(Some(config)) => lookup.configs.push(config),
                Ok(None) => {}
                Err(failure) => lookup.failures.push(failure),
            }
        }
        (lookup, files)
    }

    /// Returns the host that the files belong to, if known.
    pub(super) fn host(&self) -> Option<&'static Host> {
        self.host
    }

    pub(super) fn find(&self, wanted: &Wanted) -> Result<FoundServer<'_>, Failure> {
        let (path, name, scope, place) = match wanted {
            Wanted::Named(name) => return self.find_named(name),
            Wanted::Exact { path, name, scope, place } => (path, name, scope, place),
        };
        let is_wanted = |it: &Server| (&it.name, &it.scope, &it.place) == (name, scope, place);
        let config = self.configs.iter().find(|config| config.path == *path);
        let server = config.map(Config::document).transpose()?.and_then(|it| it.servers.into_iter().find(is_wanted));
        let (config, server) = config.zip(server).ok_or_else(|| self.unknown(name, None, &[]))?;
        Ok(FoundServer { config, host: self.host, server, place: file::name(path), others: Vec::new() })
    }

    /// Returns the server that the host uses: servers of the project folder come first, then those of each file in
    /// order.
    fn find_named(&self, wanted: &str) -> Result<FoundServer<'_>, Failure> {
        let (mut found, mut elsewhere, mut names, mut unreadable) = (Vec::new(), None, Vec::new(), None);
        for (order, config) in self.configs.iter().enumerate() {
            let document = match config.document() {
                Ok(document) => document,
                Err(failure) => {
                    unreadable.get_or_insert(failure);
                    continue;
                }
            };
            for server in document.servers {
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
        let others = others.iter().map(elsewhere).collect();
        Ok(FoundServer { config, host: self.host, server, place, others })
    }

    /// Returns the rank of a server; the host uses the lowest rank. Returns `None` if the server is for another folder.
    fn rank(&self, server: &Server, order: usize) -> Option<(usize, bool)> {
        let rank = match &server.scope {
            Scope::Project(folder) => self.here.ancestors().position(|it| it == Path::new(folder))?,
            Scope::File => FIRST_FILE_RANK + order,
        };
        // VS Code reads `servers`. A `mcpServers` in its file was perhaps copied from another host, so it ranks lower.
        let is_foreign = self.host.is_some_and(|host| !host.server_paths.contains(&server.place));
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

fn project_folder(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let here = std::path::absolute(given.unwrap_or(Path::new(".")))
        .map_err(|error| Failure::new(format!("cannot find the project folder: {error}")))?;
    // Hosts resolve symlinks in the project folder's path.
    Ok(std::fs::canonicalize(&here).unwrap_or(here))
}

fn missing(given: &Path) -> Failure {
    let failure = Failure::new(format!("there is no file {}", name(given)));
    let names: Vec<&str> = HOSTS.iter().map(|host| host.name).collect();
    match given.to_str().and_then(|name| nearest(name, names.iter().copied())) {
        Some(near) => failure.with_hint(format!("did you mean {near}?")),
        None => failure.with_hint(format!("give a file or one of {}", names.join(", "))),
    }
}

/// The rank of servers in the first file. Lower ranks are for servers of a project folder: their rank is the number of
/// folders between that folder and the current folder. No path has as many folders as this constant.
const FIRST_FILE_RANK: usize = 1 << 20;
