//! Unix sockets: a listener that only its owner can reach, and connections.

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

/// Listens on a socket file that only its owner can open, and removes it when the listener is dropped.
///
/// A file left behind by a listener that is gone is replaced. One that somebody listens on, or that is no socket, is an
/// error and stays as it is.
pub async fn listen(path: impl AsRef<Path>) -> io::Result<UnixSocketListener> {
    let path = std::path::absolute(path)?;
    let private = PrivateDir::beside(&path)?;
    let bound = private.0.join("s");
    // A socket file is made with the rights that the umask leaves, and the umask belongs to all threads. Here nobody
    // else can reach it until its rights are right.
    let listener = UnixListener::bind(&bound)?;
    fs::set_permissions(&bound, Permissions::from_mode(0o600))?;
    let file = FileId::of(&bound)?;
    // A link never replaces what is there.
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

/// A Unix socket that accepts connections, each a [`Socket`].
#[derive(Debug)]
pub struct UnixSocketListener {
    listener: UnixListener,
    path: PathBuf,
    file: FileId,
    framing: Framing,
}

impl UnixSocketListener {
    /// How messages are told apart on what it accepts; one a line unless told otherwise.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// The next connection. A shortage of file descriptors is waited out.
    pub async fn accept(&self) -> Socket<UnixStream> {
        let (stream, _) = accept(|| self.listener.accept()).await;
        Socket::accepted(stream).framing(self.framing)
    }

    /// The socket file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for UnixSocketListener {
    fn drop(&mut self) {
        // Somebody may have put another file there. Ours is not freed while we listen, so its number is not used again.
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

/// Puts `bound` in the place of the socket file at `path` if nobody listens on that.
async fn replace_stale(path: &Path, bound: &Path) -> io::Result<()> {
    let told = |kind, what: &str| io::Error::new(kind, format!("{} {what}", path.display()));
    // Of two that find it stale, the second would remove what the first has put there.
    let Some(_lock) = lock_dir_of(path).await? else {
        return Err(told(io::ErrorKind::ResourceBusy, "exists, and somebody holds a lock on its directory"));
    };
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        let what = "exists and is not a socket: remove it, or choose another path";
        return Err(told(io::ErrorKind::AlreadyExists, what));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
        // Whoever cannot be asked (no rights, a full queue) is taken to be alive.
        _ => return Err(told(io::ErrorKind::AddrInUse, "is in use: somebody listens on it")),
    }
    fs::hard_link(bound, path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => told(io::ErrorKind::AddrInUse, "is in use: somebody was faster"),
        _ => error,
    })
}

/// A lock on the directory of `path`, held while the file is open; `None` if it cannot be had soon.
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

/// What tells one file from another.
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

/// A new directory that only we can enter, removed with what is in it.
struct PrivateDir(PathBuf);

impl PrivateDir {
    /// In the same directory as `path`, so that a file can be linked from one into the other.
    fn beside(path: &Path) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            // Short, because the path of a socket has room for about a hundred bytes.
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

/// A second in all: whoever replaces a file needs a few milliseconds.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
