//! Unix sockets: connections, and a listener to which only the owner of its socket file can connect.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use crate::transport::{Framing, Parts, Socket, Transport, accept};

/// Listens on a socket file that only its owner can open. The file is removed when the listener is dropped.
///
/// A socket file left behind by a listener that has ended is replaced. If a listener is still active on the file, or
/// the file is not a socket, an error is returned and the file is not changed.
pub async fn listen(path: impl AsRef<Path>) -> io::Result<UnixSocketListener> {
    let path = std::path::absolute(path)?;
    let private = PrivateDir::beside(&path)?;
    let bound = private.0.join("s");
    // The permissions of a new socket file depend on the umask, which all threads share. In a private directory, no
    // other user can reach the file before its permissions are set.
    let listener = UnixListener::bind(&bound)?;
    fs::set_permissions(&bound, Permissions::from_mode(0o600))?;
    let file = FileId::of(&bound)?;
    // Unlike a rename, a hard link never replaces an existing file.
    match fs::hard_link(&bound, &path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => replace_stale(&path, &bound).await?,
        linked => linked?,
    }
    Ok(UnixSocketListener { listener, path, file, framing: Framing::Lines })
}

/// Connects to the listener at `path`.
pub async fn connect(path: impl AsRef<Path>) -> io::Result<Socket<UnixStream>> {
    Ok(Socket::connected(UnixStream::connect(path).await?))
}

/// A listener on a Unix socket. Each accepted connection is a [`Socket`].
#[derive(Debug)]
pub struct UnixSocketListener {
    listener: UnixListener,
    path: PathBuf,
    file: FileId,
    framing: Framing,
}

impl UnixSocketListener {
    /// Sets the framing of accepted connections. The default is one message per line.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Accepts the next connection. If the process has no free file descriptor, waits until it has one.
    pub async fn accept(&self) -> Socket<UnixStream> {
        let (stream, _) = accept(|| self.listener.accept()).await;
        Socket::accepted(stream).framing(self.framing)
    }

    /// The path of the socket file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for UnixSocketListener {
    fn drop(&mut self) {
        // The file is removed only if this listener created it, because another process might have replaced the file.
        // While the listener is open, the inode of our file is in use and cannot be reused.
        if FileId::of(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Transport for Socket<UnixStream> {
    type Reader = OwnedReadHalf;
    type Writer = OwnedWriteHalf;

    fn into_parts(self) -> Parts<OwnedReadHalf, OwnedWriteHalf> {
        self.parts(UnixStream::into_split)
    }
}

/// Replaces the socket file at `path` with the one at `bound`. Returns an error if a process still listens on `path`.
async fn replace_stale(path: &Path, bound: &Path) -> io::Result<()> {
    let error = |kind, what: &str| io::Error::new(kind, format!("{} {what}", path.display()));
    // Without this lock, two processes could find the file stale at the same time, and the second would remove the new
    // file of the first.
    let Some(_lock) = lock_dir_of(path).await? else {
        let what = "exists, and another process has its directory locked: try again, or choose another path";
        return Err(error(io::ErrorKind::ResourceBusy, what));
    };
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        let what = "exists and is not a socket: remove it, or choose another path";
        return Err(error(io::ErrorKind::AlreadyExists, what));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
        // Connecting succeeded, or failed in another way (no permission, a full backlog): a listener may be active.
        _ => return Err(error(io::ErrorKind::AddrInUse, "is in use: another process listens on it")),
    }
    fs::hard_link(bound, path).map_err(|failed| match failed.kind() {
        io::ErrorKind::AlreadyExists => {
            error(io::ErrorKind::AddrInUse, "is in use: another process has just created it")
        }
        _ => failed,
    })
}

/// Locks the directory of `path` until the returned file is dropped. Returns `None` if another process holds the lock
/// for more than a second.
async fn lock_dir_of(path: &Path) -> io::Result<Option<File>> {
    let file = File::open(path.parent().unwrap_or(path))?;
    for _ in 0..LOCK_TRIES {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => tokio::time::sleep(LOCK_PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Identifies a file independently of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// A new directory that only its owner can enter. Dropping this value removes the directory and its contents.
struct PrivateDir(PathBuf);

impl PrivateDir {
    /// Creates the private directory in the directory of `path`, so that a file in it can be hard-linked to `path`.
    fn beside(path: &Path) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            // The name is short, because the path of a socket is limited to about a hundred bytes.
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".bw{:x}-{count:x}", std::process::id()));
            let dir = path.with_file_name(name);
            match DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => return Ok(Self(dir)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The maximum number of attempts to lock the directory. All attempts together take a second; a process that replaces
/// its socket file holds the lock for a few milliseconds.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
