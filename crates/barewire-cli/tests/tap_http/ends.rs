//! Both ends of a tap: the program itself, a server on a socket that does what the test says, and a client that reads
//! whole messages.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::eventually::{DEADLINE, eventually};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire");

/// A tap that runs until it is dropped.
pub(crate) struct Tap {
    process: Child,
    pub(crate) url: String,
    /// Host and port.
    pub(crate) at: String,
    said: Arc<Mutex<String>>,
    record: PathBuf,
}

impl Tap {
    /// One to this URL, which records.
    pub(crate) fn to(url: &str, name: &str) -> Self {
        Self::with(url, name, &[])
    }

    pub(crate) fn with(url: &str, name: &str, options: &[&str]) -> Self {
        Self::as_user(url, name, options, None)
    }

    /// One of the user whose sign-ins are below this folder.
    pub(crate) fn as_user(url: &str, name: &str, options: &[&str], state: Option<&std::path::Path>) -> Self {
        let record = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tap-http-{name}.wire"));
        let _ = fs::remove_file(&record);
        let mut command = Command::new(PROGRAM);
        command.args(["tap", "--http", "127.0.0.1:0", "--to", url, "--record"]).arg(&record).args(options);
        command.envs(state.map(|state| ("XDG_STATE_HOME", state)));
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut stderr = BufReader::new(process.stderr.take().expect("piped"));
        let mut first = String::new();
        stderr.read_line(&mut first).expect("text");
        let url = first.split(" at ").nth(1).and_then(|rest| rest.split(',').next());
        let url = url.unwrap_or_else(|| panic!("no URL: {first}")).to_owned();
        let at = url.trim_start_matches("http://").split('/').next().expect("an address").to_owned();
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                heard.lock().expect("unpoisoned").push_str(&format!("{line}\n"));
            }
        });
        Self { process, url, at, said, record }
    }

    /// Its stderr, once that contains this text.
    pub(crate) fn says(&self, what: &str) -> String {
        let said = || self.said.lock().expect("unpoisoned").clone();
        eventually(what, || said().contains(what));
        said()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(TcpStream::connect(&self.at).expect("connected"))
    }

    /// The path of its capture.
    pub(crate) fn record(&self) -> &std::path::Path {
        &self.record
    }

    /// The most memory that it has had, in KiB.
    pub(crate) fn most_memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let kib = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.trim().parse().ok()
        };
        // Without the pages of the executable, which the system reads when it wants to.
        Some(kib("VmHWM:")?.saturating_sub(kib("RssFile:")?))
    }

    /// Sends it a signal.
    pub(crate) fn interrupt(&self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::INT).expect("it is there");
    }

    /// Waits until it has ended. Gives its exit code.
    pub(crate) fn ends(&mut self) -> Option<i32> {
        self.process.wait().expect("it ended").code()
    }

    /// Ends it, and gives what it has recorded.
    pub(crate) fn end(mut self) -> String {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::TERM).expect("it is there");
        assert_eq!(self.process.wait().expect("it ended").code(), Some(0));
        fs::read_to_string(&self.record).expect("a capture")
    }

    /// The output of `barewire read` for its capture.
    pub(crate) fn read(record: &str, name: &str) -> super::program_output::ProgramOutput {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tap-http-read-{name}.wire"));
        fs::write(&file, record).expect("written");
        super::program_output::ProgramOutput::of(
            Command::new(PROGRAM).arg("read").arg(&file).output().expect("it runs"),
        )
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server that does this with each connection. Gives its URL.
pub(crate) fn server(each: impl Fn(Client) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let each = Arc::new(each);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let each = Arc::clone(&each);
            thread::spawn(move || each(Client::new(stream)));
        }
    });
    url
}

/// One end of a connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Client {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        Self { reader: BufReader::new(stream.try_clone().expect("a socket")), writer: stream }
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.writer.write_all(bytes.as_ref()).expect("it is read");
    }

    /// Up to the empty line, with it; empty if the connection is closed.
    #[track_caller]
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.reader.read_line(&mut head).expect("it comes") == 0 {
                break;
            }
        }
        head
    }

    #[track_caller]
    pub(crate) fn exactly(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes).expect("it comes");
        String::from_utf8(bytes).expect("text")
    }

    /// Everything up to the end of the connection; what was reset has ended as well.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.reader.read_to_end(&mut rest);
        rest
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> usize {
        self.reader.read(into).expect("it comes")
    }
}

/// A server of ours that runs until it is dropped.
pub(crate) struct Served {
    process: Child,
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn new(options: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--http", "127.0.0.1:0"]).args(options).env(super::TOKEN, super::SECRET);
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut first = String::new();
        BufReader::new(process.stderr.take().expect("piped")).read_line(&mut first).expect("text");
        let url = first.split([' ', ',']).find(|word| word.starts_with("http://")).expect("a URL").to_owned();
        Self { process, url }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
