//! The transcripts of `testdata/mcp`, run over memory with time paused, with a byte of room, and over a child process: what
//! an MCP server must do, in every revision, byte for byte.
//!
//! `BLESS=1 cargo test` rewrites the `<` lines with what comes over memory. `BAREWIRE_ONLY=NAME` runs those whose names
//! have this in them. `BAREWIRE_EMITTED=FOLDER` keeps all messages there, for other judges.

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

/// Where the fixture runs.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Here, with so much room in the pipe. Time stands still while anybody has something to do, so that nothing more
    /// comes is known at once.
    Memory(usize),
    /// In a process of its own. That nothing more comes is known at the end.
    Child,
}

/// A connection to the fixture.
struct Talk {
    place: Place,
    writer: Option<Box<dyn AsyncWrite + Unpin>>,
    lines: mpsc::UnboundedReceiver<String>,
    end: std::pin::Pin<Box<dyn Future<Output = ()>>>,
}

impl Talk {
    fn open(place: Place, arguments: &[String]) -> Self {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match place {
            Place::Memory(room) => {
                let (here, there) = memory(room);
                let connection = fixture::server(&arguments).connection(there);
                let served = tokio::spawn(connection.run());
                let end = async { served.await.expect("no panic").expect("a clean end") };
                Self::over(place, here, end)
            }
            Place::Child => {
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

    fn over(place: Place, transport: impl Transport, end: impl Future<Output = ()> + 'static) -> Self {
        let parts = transport.into_parts();
        Self::of_parts(place, parts.reader, parts.writer, end)
    }

    fn of_parts(
        place: Place,
        reader: impl tokio::io::AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + 'static,
        end: impl Future<Output = ()> + 'static,
    ) -> Self {
        let (send, lines) = mpsc::unbounded_channel();
        // Read all the time: a server that cannot write does not read either.
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

    /// What comes now: all of it if that can be known, as much as is expected if not.
    async fn receive(&mut self, expected: usize) -> Vec<String> {
        let mut got = Vec::new();
        let patience = match self.place {
            Place::Memory(_) => QUIET,
            Place::Child => PATIENCE,
        };
        while matches!(self.place, Place::Memory(_)) || got.len() < expected {
            match tokio::time::timeout(patience, self.lines.recv()).await {
                Ok(Some(line)) => got.push(line),
                Ok(None) | Err(_) => break,
            }
        }
        got
    }

    /// Closes the way to the server, and takes all that still comes.
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

/// `examples/everything`, built beside this test.
fn example() -> PathBuf {
    let mut program = std::env::current_exe().expect("this test");
    program.pop();
    program.pop();
    program.join("examples/everything")
}

/// Runs a transcript: what came out after each step.
async fn run(script: &Script, place: Place, emitted: &mut Emitted) -> Vec<Vec<String>> {
    let mut secrets = Secrets::default();
    let mut talk: Option<Talk> = None;
    let mut outputs = Vec::new();
    for (step, expected) in script.steps() {
        let output = match step {
            Step::Open(arguments) => {
                if let Some(talk) = talk.take() {
                    finish(script, talk).await;
                }
                talk = Some(Talk::open(place, arguments));
                emitted.open();
                Vec::new()
            }
            Step::Send(lines) => {
                let talk = talk.as_mut().unwrap_or_else(|| panic!("{}: not open", script.name));
                let lines: Vec<Vec<u8>> = lines.iter().map(|line| secrets.show(line)).collect();
                talk.send(&lines).await;
                lines.iter().for_each(|line| emitted.client(line));
                talk.receive(expected.len()).await
            }
            Step::Close => talk.take().expect("it is open").close().await,
        };
        output.iter().for_each(|line| emitted.server(line.as_bytes()));
        let mut output: Vec<String> = output.iter().map(|line| secrets.hide(line)).collect();
        if let (Step::Send(lines), false) = (step, matches!(place, Place::Memory(ROOM)))
            && lines.len() > 1
        {
            // What goes in together does not arrive together there, so it may come out in another order.
            output = in_order_of(output, expected);
        }
        outputs.push(output);
    }
    if let Some(talk) = talk {
        finish(script, talk).await;
    }
    outputs
}

/// Ends a connection that has nothing more to say.
async fn finish(script: &Script, talk: Talk) {
    let rest = talk.close().await;
    assert!(rest.is_empty(), "{}: came at the end, which is no step: {rest:#?}", script.name);
}

/// The same lines in the order of `expected`, as far as they are there.
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

async fn run_all(place: Place) {
    let mut wrong = Vec::new();
    for script in script::all() {
        // One account of each is enough.
        let mut emitted = match place {
            Place::Memory(ROOM) => Emitted::new(&script.name),
            _ => Emitted::silent(),
        };
        let is_first = matches!(place, Place::Memory(ROOM));
        let bless = std::env::var_os("BLESS").is_some();
        if bless && !is_first {
            // What is being rewritten cannot be compared with.
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
    run_all(Place::Memory(ROOM)).await;
}

#[tokio::test(start_paused = true)]
async fn over_memory_that_holds_one_byte() {
    run_all(Place::Memory(1)).await;
}

#[tokio::test]
async fn over_a_child_process() {
    run_all(Place::Child).await;
}

/// Room for all that goes in at once.
const ROOM: usize = 1 << 16;

/// So long nothing comes if nothing will. No real time passes.
const QUIET: Duration = Duration::from_secs(1);

/// So long a process may take to answer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
