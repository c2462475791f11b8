//! The transcripts of `testdata/mcp`: the behaviour of an MCP server in every revision, byte for byte. They run over
//! memory with paused time, over a pipe of one byte, and over a child process.
//!
//! `BLESS=1 cargo test` rewrites the `<` lines with the output over memory. `BAREWIRE_ONLY=NAME` runs the transcripts
//! whose name contains this. `BAREWIRE_EMITTED=FOLDER` writes all messages there, for other validators.

#[path = "mcp/emitted.rs"]
mod emitted;
#[path = "mcp/fixture.rs"]
mod fixture;
#[path = "mcp/script.rs"]
mod script;
#[path = "mcp/secrets.rs"]
mod secrets;

use std::path::PathBuf;
use std::time::Duration;

use barewire::transport::{Child, Stderr, Transport, memory};
use tokio::io::{AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use emitted::Emitted;
use script::{Script, Step};
use secrets::Secrets;

/// The place where the fixture runs.
#[derive(Debug, Clone, Copy)]
enum FixturePlace {
    /// In this process, over a pipe of this many bytes. Time is paused while any task has work to do, so it is known at
    /// once that no more output follows.
    Memory(usize),
    /// In a process of its own. Only at the end is it known that no more output follows.
    Child,
}

/// A connection to the fixture.
struct FixtureConnection {
    place: FixturePlace,
    writer: Option<Box<dyn AsyncWrite + Unpin>>,
    lines: mpsc::UnboundedReceiver<String>,
    end: std::pin::Pin<Box<dyn Future<Output = ()>>>,
}

impl FixtureConnection {
    fn open(place: FixturePlace, arguments: &[String]) -> Self {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match place {
            FixturePlace::Memory(room) => {
                let (here, there) = memory(room);
                let connection = fixture::server(&arguments).connection(there);
                let served = tokio::spawn(connection.run());
                let end = async { served.await.expect("no panic").expect("a clean end") };
                Self::over(place, here, end)
            }
            FixturePlace::Child => {
                let child = Child::new(example()).args(&arguments).stderr(Stderr::discard()).spawn();
                let mut parts = child.expect("cargo test builds the examples").into_parts();
                let ending = parts.exit.take().expect("a child has an end");
                let end = async {
                    let exit = ending.await.expect("a child has an end");
                    assert_eq!(exit.code, Some(0), "{exit}");
                };
                Self::of_parts(place, parts.reader, parts.writer, end)
            }
        }
    }

    fn over(place: FixturePlace, transport: impl Transport, end: impl Future<Output = ()> + 'static) -> Self {
        let parts = transport.into_parts();
        Self::of_parts(place, parts.reader, parts.writer, end)
    }

    fn of_parts(
        place: FixturePlace,
        reader: impl tokio::io::AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + 'static,
        end: impl Future<Output = ()> + 'static,
    ) -> Self {
        let (send, lines) = mpsc::unbounded_channel();
        // Reads all the time, because a server that cannot write does not read either.
        tokio::spawn(async move {
            let mut reader = BufReader::new(reader).lines();
            while let Some(line) = reader.next_line().await.expect("it writes UTF-8") {
                let _ = send.send(line);
            }
        });
        Self { place, writer: Some(Box::new(writer)), lines, end: Box::pin(end) }
    }

    async fn send(&mut self, lines: &[Vec<u8>]) {
        let writer = self.writer.as_mut().expect("it is open");
        writer.write_all(&lines.concat()).await.expect("it reads");
        writer.flush().await.expect("it reads");
    }

    /// Returns the output up to now: all of it if that is known, else as many lines as expected.
    async fn receive(&mut self, expected: usize) -> Vec<String> {
        let mut got = Vec::new();
        let patience = match self.place {
            FixturePlace::Memory(_) => QUIET_TIME,
            FixturePlace::Child => CHILD_TIMEOUT,
        };
        while matches!(self.place, FixturePlace::Memory(_)) || got.len() < expected {
            match tokio::time::timeout(patience, self.lines.recv()).await {
                Ok(Some(line)) => got.push(line),
                Ok(None) | Err(_) => break,
            }
        }
        got
    }

    /// Closes the connection to the server, and returns the rest of the output.
    async fn close(mut self) -> Vec<String> {
        let mut writer = self.writer.take().expect("it was open");
        writer.shutdown().await.expect("it is there");
        drop(writer);
        let mut rest = Vec::new();
        while let Some(line) = self.lines.recv().await {
            rest.push(line);
        }
        self.end.await;
        rest
    }
}

/// Returns the path of `examples/everything`, which is built beside this test.
fn example() -> PathBuf {
    let mut program = std::env::current_exe().expect("this test");
    program.pop();
    program.pop();
    program.join("examples/everything")
}

/// Runs a transcript, and returns the output after each step.
async fn run(script: &Script, place: FixturePlace, emitted: &mut Emitted) -> Vec<Vec<String>> {
    let mut secrets = Secrets::default();
    let mut connection: Option<FixtureConnection> = None;
    let mut outputs = Vec::new();
    for (step, expected) in script.steps() {
        let output = match step {
            Step::Open(arguments) => {
                if let Some(connection) = connection.take() {
                    finish(script, connection).await;
                }
                connection = Some(FixtureConnection::open(place, arguments));
                emitted.open();
                Vec::new()
            }
            Step::Send(lines) => {
                let connection = connection.as_mut().unwrap_or_else(|| panic!("{}: not open", script.name));
                let lines: Vec<Vec<u8>> = lines.iter().map(|line| secrets.show(line)).collect();
                connection.send(&lines).await;
                lines.iter().for_each(|line| emitted.client(line));
                connection.receive(expected.len()).await
            }
            Step::Close => connection.take().expect("it is open").close().await,
        };
        output.iter().for_each(|line| emitted.server(line.as_bytes()));
        let mut output: Vec<String> = output.iter().map(|line| secrets.hide(line)).collect();
        if let (Step::Send(lines), false) = (step, matches!(place, FixturePlace::Memory(PIPE_BYTES)))
            && lines.len() > 1
        {
            // Lines that are sent together do not arrive together here, so the output may be in another order.
            output = in_order_of(output, expected);
        }
        outputs.push(output);
    }
    if let Some(connection) = connection {
        finish(script, connection).await;
    }
    outputs
}

/// Ends a connection that must have no output left.
async fn finish(script: &Script, connection: FixtureConnection) {
    let rest = connection.close().await;
    assert!(rest.is_empty(), "{}: came at the end, which is no step: {rest:#?}", script.name);
}

/// Returns the lines in the order of `expected`, as far as they are there.
fn in_order_of(mut lines: Vec<String>, expected: &[String]) -> Vec<String> {
    let mut ordered = Vec::new();
    for wanted in expected {
        if let Some(at) = lines.iter().position(|line| line == wanted) {
            ordered.push(lines.remove(at));
        }
    }
    ordered.extend(lines);
    ordered
}

async fn run_all(place: FixturePlace) {
    let mut wrong = Vec::new();
    for script in script::all() {
        // The messages are written once for each transcript.
        let mut emitted = match place {
            FixturePlace::Memory(PIPE_BYTES) => Emitted::new(&script.name),
            _ => Emitted::silent(),
        };
        let is_first = matches!(place, FixturePlace::Memory(PIPE_BYTES));
        let bless = std::env::var_os("BLESS").is_some();
        if bless && !is_first {
            // A file that is being rewritten cannot be compared with.
            return;
        }
        let written = script.written(run(&script, place, &mut emitted).await);
        if bless {
            std::fs::write(&script.file, &written).expect("writable");
            continue;
        }
        let text = std::fs::read_to_string(&script.file).expect("readable");
        let (mut expected, mut actual) = (text.lines(), written.lines());
        let differs = (1..=text.lines().count().max(written.lines().count())).find_map(|number| {
            let (expected, actual) = (expected.next(), actual.next());
            (expected != actual).then_some((number, expected, actual))
        });
        if let Some((number, expected, actual)) = differs {
            wrong.push(format!(
                "{}:{number}\n  should be {}\n  but is    {}",
                script.name,
                expected.unwrap_or("the end"),
                actual.unwrap_or("the end"),
            ));
        }
    }
    assert!(wrong.is_empty(), "{place:?}:\n{}", wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn over_memory() {
    run_all(FixturePlace::Memory(PIPE_BYTES)).await;
}

#[tokio::test(start_paused = true)]
async fn over_a_pipe_of_one_byte() {
    run_all(FixturePlace::Memory(1)).await;
}

#[tokio::test]
async fn over_a_child_process() {
    run_all(FixturePlace::Child).await;
}

/// Enough for all lines that are sent at once.
const PIPE_BYTES: usize = 1 << 16;

/// The silence after which no more output follows. Time is paused, so no real time passes.
const QUIET_TIME: Duration = Duration::from_secs(1);

/// The time that a process has to answer, on a busy machine.
const CHILD_TIMEOUT: Duration = Duration::from_secs(20);
