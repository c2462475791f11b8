//! Sockets on this machine that only their user can connect to, and the private folders in which they are found.

use std::env;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;

/// A connection on this machine.
pub(crate) type LocalStream = UnixStream;

/// A listener whose socket file only its user can open.
pub(crate) struct LocalListener {
    listener: UnixListener,
}

/// The socket file of a listener. Dropping this value removes the file, unless another process has replaced it.
pub(crate) struct LocalSocketFile {
    path: PathBuf,
    /// The device and the inode.
    id: (u64, u64),
}

/// The result of connecting to a socket file.
pub(crate) enum LocalConnection {
    Open(LocalStream),
    /// No process listens on the file any longer.
    Stale,
}

impl LocalListener {
    /// Listens on a socket file with this name in a private folder. If another process listens on a file with this
    /// name, the name gets a number.
    pub(crate) fn bind(folder: &Path, stem: &str) -> io::Result<(Self, LocalSocketFile)> {
        // The file gets its final name only when the listener accepts connections, so nobody takes it for a stale one.
        let hidden = folder.join(format!(".{stem}.{SOCKET_EXTENSION}"));
        remove_socket(&hidden)?;
        let listener = UnixListener::bind(&hidden)?;
        let place = || -> io::Result<LocalSocketFile> {
            fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
            let id = file_id(&hidden)?;
            for number in 1..=MAX_NAMES {
                let numbered = if number == 1 { String::new() } else { format!(".{number}") };
                let path = folder.join(format!("{stem}{numbered}.{SOCKET_EXTENSION}"));
                // A process in another container can have the same number and the same folder.
                if path.symlink_metadata().is_ok() && !matches!(connect(&path), Ok(LocalConnection::Stale)) {
                    continue;
                }
                fs::rename(&hidden, &path)?;
                return Ok(LocalSocketFile { path, id });
            }
            Err(io::ErrorKind::AddrInUse.into())
        };
        let file = place().inspect_err(|_| {
            let _ = fs::remove_file(&hidden);
        })?;
        Ok((Self { listener }, file))
    }

    /// Waits for the next connection of our user. Connections of other users are closed.
    pub(crate) fn accept(&self) -> LocalStream {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if is_ours(&stream) => return stream,
                Ok(_) => {}
                // The process has no free file descriptor, or the client is already gone.
                Err(_) => std::thread::sleep(ACCEPT_PAUSE),
            }
        }
    }
}

impl LocalSocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LocalSocketFile {
    fn drop(&mut self) {
        if file_id(&self.path).is_ok_and(|id| id == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Connects to a socket file of our user.
pub(crate) fn connect(path: &Path) -> io::Result<LocalConnection> {
    match UnixStream::connect(path) {
        Ok(stream) if is_ours(&stream) => Ok(LocalConnection::Open(stream)),
        Ok(_) => Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens on the socket")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(LocalConnection::Stale),
        Err(error) => Err(error),
    }
}

/// Returns the socket files in a folder, and removes those that a killed process has left under a hidden name. Returns
/// none if the folder is not private.
pub(crate) fn sockets_in(folder: &Path) -> Vec<PathBuf> {
    if !is_private(folder) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if !is_socket || path.extension().is_none_or(|extension| extension != SOCKET_EXTENSION) {
            continue;
        }
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            found.push(path);
        } else if entry
            .metadata()
            .and_then(|it| it.modified())
            .is_ok_and(|it| it.elapsed().is_ok_and(|age| age > STALE))
        {
            let _ = fs::remove_file(path);
        }
    }
    found.sort();
    found
}

/// Removes a socket file on which no process listens.
pub(crate) fn remove_stale(path: &Path) {
    let _ = remove_socket(path);
}

/// Removes a socket file if no process listens on it any longer.
pub(crate) fn remove_if_stale(path: &Path) {
    if matches!(connect(path), Ok(LocalConnection::Stale)) {
        remove_stale(path);
    }
}

/// Returns the number by which a file is distinguished from others at the same path.
pub(crate) fn file_number(path: &Path) -> Option<u64> {
    file_id(path).ok().map(|(_, inode)| inode)
}

/// Whether a socket file still exists.
pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Returns the folders for sockets of running programs, the preferred one first: below the runtime folder of the user,
/// the folder for state, and the temporary folder. Hosts start servers with few environment variables, so a program
/// that looks for sockets must look in all of them.
pub(crate) fn runtime_folders(name: &str) -> Vec<PathBuf> {
    let user = geteuid().as_raw();
    let absolute = |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let runtime = [absolute("XDG_RUNTIME_DIR"), Some(PathBuf::from(format!("/run/user/{user}")))];
    let home = || env::home_dir().filter(|home| home.is_absolute());
    let state = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/state" };
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(home()?.join(state)));
    let mut folders: Vec<PathBuf> = runtime
        .into_iter()
        .flatten()
        .filter(|folder| is_ours_and_exists(folder))
        .map(|it| it.join("barewire"))
        .collect();
    folders.extend(state.map(|state| state.join("barewire")));
    folders.push(PathBuf::from(format!("/tmp/barewire-{user}")));
    let mut seen = Vec::new();
    folders.retain(|folder| {
        !seen.contains(folder) && {
            seen.push(folder.clone());
            true
        }
    });
    folders.into_iter().map(|folder| folder.join(name)).collect()
}

/// Creates a folder that only its owner can enter, if there is none. Fails if it belongs to another user.
pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if is_private(folder) {
        return Ok(());
    }
    // Only a folder of our own can be narrowed.
    let is_folder = folder.symlink_metadata()?.is_dir();
    if is_folder && is_ours_and_exists(folder) {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    match is_private(folder) {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder belongs to another user")),
    }
}

/// Whether the path is a folder, not a link to one, that belongs to us and that only we can enter.
fn is_private(folder: &Path) -> bool {
    let ours = |it: &fs::Metadata| it.is_dir() && it.uid() == geteuid().as_raw() && it.mode() & 0o077 == 0;
    folder.symlink_metadata().is_ok_and(|it| ours(&it))
}

fn is_ours_and_exists(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw())
}

fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn remove_socket(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the connection as a file.
pub(crate) fn stream_file(stream: LocalStream) -> File {
    OwnedFd::from(stream).into()
}

/// Whether the process at the other end has our user.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_ours(stream: &LocalStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}

/// Only the modes of the folder and of the socket file keep other users out.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_ours(_stream: &LocalStream) -> bool {
    true
}

const SOCKET_EXTENSION: &str = "sock";

/// The maximum number of socket files that processes with the same number have in one folder.
const MAX_NAMES: u32 = 100;

/// The age at which a hidden socket file is stale. A running process renames it at once.
const STALE: Duration = Duration::from_secs(60);

const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("barewire-local-socket-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().expect("it exists").mode() & 0o777
    }

    #[test]
    fn only_the_user_can_reach_a_socket() {
        let folder = folder("modes");
        make_private_folder(&folder).expect("a folder");
        let (_listener, file) = LocalListener::bind(&folder, "1").expect("a socket");
        assert_eq!((mode(&folder), mode(file.path())), (0o700, 0o600));
        assert_eq!(sockets_in(&folder), [folder.join("1.sock")]);
        // A folder that others can enter is narrowed before it is used, and not looked at until then.
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("our folder");
        assert!(sockets_in(&folder).is_empty());
        make_private_folder(&folder).expect("our folder");
        assert_eq!(mode(&folder), 0o700);
        let path = file.path().to_owned();
        drop(file);
        assert!(!exists(&path));
        fs::remove_dir_all(&folder).expect("it exists");
    }

    #[test]
    fn a_link_to_a_folder_is_refused() {
        let (real, link) = (folder("real"), folder("link"));
        let _ = fs::remove_file(&link);
        make_private_folder(&real).expect("a folder");
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        assert!(make_private_folder(&link).is_err());
        assert!(sockets_in(&link).is_empty());
        fs::remove_file(&link).expect("it exists");
        fs::remove_dir_all(&real).expect("it exists");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = folder("stale");
        make_private_folder(&folder).expect("a folder");
        drop(UnixListener::bind(folder.join("7.sock")).expect("a socket"));
        assert!(matches!(connect(&folder.join("7.sock")), Ok(LocalConnection::Stale)));
        let (_one, first) = LocalListener::bind(&folder, "7").expect("a socket");
        let (_two, second) = LocalListener::bind(&folder, "7").expect("a socket");
        assert_eq!((first.path(), second.path()), (&*folder.join("7.sock"), &*folder.join("7.2.sock")));
        assert!(matches!(connect(first.path()), Ok(LocalConnection::Open(_))));
        fs::remove_dir_all(&folder).expect("it exists");
    }
}
