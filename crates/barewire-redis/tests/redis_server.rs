//! A `redis-server` for one test, with a port and a folder of its own.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use barewire_redis::{Redis, RedisBuilder};

/// A server that is killed, and its folder removed, when this value is dropped.
pub(crate) struct RedisServer {
    child: Child,
    folder: PathBuf,
    port: u16,
    options: Vec<String>,
}

impl RedisServer {
    /// Starts a server with these options, such as `--requirepass secret`.
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_in(new_folder(), options)
    }

    /// Starts a server in a folder that exists, and which will be removed.
    pub(crate) fn start_in(mut folder: PathBuf, options: &[&str]) -> Self {
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        // Another program can take the port before the server does.
        for _ in 0..5 {
            let port = free_port();
            let mut server = Self { child: spawn(&folder, port, &options), folder, port, options: options.clone() };
            if server.wait_ready() {
                return server;
            }
            let log = fs::read_to_string(server.folder.join("log")).unwrap_or_default();
            assert!(log.contains("Address already in use"), "the server ended:\n{log}");
            folder = server.forget();
        }
        panic!("there is no free port");
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Joins the cluster with the default prefix, and more patience than the default: the machine may be busy.
    pub(crate) async fn join(&self) -> Redis {
        patient().connect(&self.url()).await.expect("the server runs")
    }

    /// Kills the server as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Starts a server that was killed again, with the same folder and port.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.folder, self.port, &self.options);
        assert!(self.wait_ready(), "the server starts again");
    }

    /// Starts a server that was killed again, with the same folder and port and other options.
    pub(crate) fn restart_with(&mut self, options: &[&str]) {
        self.options = options.iter().map(ToString::to_string).collect();
        self.restart();
    }

    /// Sends a signal, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(status.expect("there is a program kill").success());
    }

    /// Sends a command without a client, and returns the beginning of the answer.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        try_command(self.port, words).expect("the server answers")
    }

    /// Returns all keys, sorted.
    pub(crate) fn keys(&self) -> Vec<String> {
        let answer = self.command(&["KEYS", "*"]);
        let mut keys: Vec<String> =
            answer.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect();
        keys.sort();
        keys
    }

    fn wait_ready(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            if self.child.try_wait().expect("it is our child").is_some() {
                return false;
            }
            // With TLS, a password or while it loads, it is ready for the test: what follows is the matter of the test.
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            let starts = log.matches("Ready to accept connections").count();
            if starts > 0 && log.rfind("Ready to accept connections") > log.rfind("Running mode=") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server does not start");
    }

    /// Returns the folder of a server that has ended.
    fn forget(mut self) -> PathBuf {
        std::mem::take(&mut self.folder)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.folder.as_os_str().is_empty() {
            return;
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns settings for a test that is not about time.
pub(crate) fn patient() -> RedisBuilder {
    Redis::builder().response_timeout(Duration::from_secs(10))
}

/// Creates a folder that no other test uses.
pub(crate) fn new_folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = env::temp_dir().join(format!("barewire-redis-{}-{count}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
}

/// Returns a port that nobody uses, below those that systems give to connections and to listeners that take any port:
/// the program that will use it starts a moment later.
pub(crate) fn free_port() -> u16 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Test processes at the same time begin at different places.
    let first = std::process::id().wrapping_mul(97);
    for _ in 0..PORTS {
        let offset = first.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed)) % PORTS;
        let port = FIRST_PORT + u16::try_from(offset).expect("below the number of ports");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("there is no free port");
}

/// The ports for programs that tests start.
const FIRST_PORT: u16 = 12_000;
const PORTS: u32 = 20_000;

fn spawn(folder: &Path, port: u16, options: &[String]) -> Child {
    let program = env::var_os("BAREWIRE_REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
    let mut command = Command::new(&program);
    command.args(["--bind", "127.0.0.1", "--save", "", "--logfile", "log", "--dir"]).arg(folder).current_dir(folder);
    if !options.iter().any(|option| option == "--port") {
        command.args(["--port", &port.to_string()]);
    }
    let port = port.to_string();
    let bus_port = free_port().to_string();
    command.args(options.iter().map(|option| option.replace("BUS", &bus_port).replace("PORT", &port)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| {
        panic!("{program:?} does not start ({error}): these tests need Redis; on Debian: apt-get install redis-server")
    })
}

fn try_command(port: u16, words: &[&str]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(text.as_bytes())?;
    let (mut reader, mut answer) = (BufReader::new(stream), String::new());
    read_reply(&mut reader, &mut answer)?;
    Ok(answer)
}

/// Reads one whole reply, with everything in it.
fn read_reply(reader: &mut impl BufRead, answer: &mut String) -> std::io::Result<()> {
    let mut replies = 1_u64;
    while replies > 0 {
        replies -= 1;
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        answer.push_str(&line);
        let (kind, rest) = line.split_at(1);
        let length = rest.trim().parse::<u64>();
        match (kind, length) {
            ("$", Ok(length)) => {
                let mut bulk = Vec::new();
                reader.by_ref().take(length + 2).read_to_end(&mut bulk)?;
                answer.push_str(&String::from_utf8_lossy(&bulk));
            }
            ("*", Ok(length)) => replies += length,
            _ => {}
        }
    }
    Ok(())
}
