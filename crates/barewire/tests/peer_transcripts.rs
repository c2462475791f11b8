//! The transcripts of `testdata/serve` and `testdata/peer`, run without IO, over memory with time paused, over a child
//! process and over sockets: `>` lines are sent, and the answers must be exactly the `<` lines, with every transport.
//!
//! `BLESS=1 cargo test` rewrites the `<` lines of `testdata/peer` with the output of the run without IO.

mod scene;

#[path = "scene/pure.rs"]
mod pure;

use std::path::{Path, PathBuf};
use std::time::Duration;

use barewire::peer::{Connection, Methods};
use barewire::transport::{Child, Framing, Transport, memory, stdio, tcp, unix};
use barewire_proto::frame::{Codec, ContentLength, Lines};
use barewire_proto::transcript::{Channel, Entry, Recorder, Stream, read, restore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// One input, and the output that must follow before the next input.
struct TranscriptStep {
    input: Vec<u8>,
    output: Vec<u8>,
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(folder);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("testdata").map(|f| f.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 3);
    files
}

fn entries(file: &Path) -> Vec<Entry> {
    let text = std::fs::read(file).expect("readable");
    read(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Cuts a transcript into steps: a run of `>` lines, and the `<` lines behind it.
fn steps(entries: &[Entry]) -> Vec<TranscriptStep> {
    let channel = Channel::default();
    let stream = |entry: &Entry| match entry {
        Entry::Bytes(bytes) => Some(bytes.stream),
        _ => None,
    };
    let mut steps: Vec<TranscriptStep> = Vec::new();
    let mut before = None;
    for entry in entries {
        let now = stream(entry);
        let one = std::slice::from_ref(entry);
        match now {
            Some(Stream::ToServer) => {
                let mut bytes = restore(one, Stream::ToServer, &channel).expect("whole");
                // In the transcript, a line without a newline ends the stream; here the stream goes on.
                if !bytes.ends_with(b"\n") {
                    bytes.push(b'\n');
                }
                match steps.last_mut() {
                    Some(step) if before == now => step.input.extend(bytes),
                    _ => steps.push(TranscriptStep { input: bytes, output: Vec::new() }),
                }
            }
            Some(Stream::ToClient) => {
                let bytes = restore(one, Stream::ToClient, &channel).expect("whole");
                steps.last_mut().expect("something went in").output.extend(bytes);
            }
            _ => {}
        }
        before = now;
    }
    steps
}

#[test]
fn pure() {
    for file in files("peer") {
        let old = entries(&file);
        let mut peer = pure::PureEngine::new(scene::limits().frame);
        let mut new = Vec::new();
        let mut rest = old.iter().peekable();
        let mut input = Vec::new();
        while let Some(entry) = rest.next() {
            match entry {
                Entry::Bytes(bytes) if bytes.stream == Stream::ToClient => continue,
                Entry::Bytes(bytes) => {
                    new.push(entry.clone());
                    input.extend_from_slice(&bytes.payload);
                    input.extend_from_slice(bytes.end.as_bytes());
                    if !matches!(rest.peek(), Some(Entry::Bytes(b)) if b.stream == Stream::ToServer) {
                        let output = peer.turn(&std::mem::take(&mut input));
                        let mut recorder = Recorder::new(Stream::ToClient, Channel::default(), usize::MAX);
                        recorder.push(&output, None, &mut new);
                    }
                }
                _ => new.push(entry.clone()),
            }
        }
        let mut blessed = String::new();
        new.iter().for_each(|entry| entry.write(&mut blessed));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, &blessed).expect("writable");
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("readable");
        for (number, (expected, actual)) in (1..).zip(text.lines().zip(blessed.lines())) {
            assert_eq!(actual, expected, "{}:{number}", file.display());
        }
        assert_eq!(text.lines().count(), blessed.lines().count(), "{}", file.display());
    }
}

/// Runs all transcripts against the peers that `connect` creates. The answers to one step may come in any order: the
/// messages of a step may not arrive together, and a handler that runs for long, if only because another process runs
/// meanwhile, is the last before its answer is written. [`pure`] compares the order.
async fn run<T, F>(framing: Framing, connect: impl AsyncFn(&'static str) -> (T, F))
where
    T: Transport,
    F: Future<Output = ()>,
{
    for name in ["serve", "peer"] {
        for file in files(name) {
            let (transport, ended) = connect(name).await;
            let mut parts = transport.into_parts();
            let mut end = parts.exit;
            if end.is_some() {
                // The child is this test program, which prints a banner first.
                let mut banner = [0; b"\nrunning 1 test\n".len()];
                parts.reader.read_exact(&mut banner).await.expect("it starts");
                assert_eq!(&banner, b"\nrunning 1 test\n");
            }
            converse(&file, framing, parts.reader, parts.writer).await;
            ended.await;
            if let Some(end) = end.take() {
                let exit = end.await.expect("a child has an end");
                assert_eq!(exit.code, Some(0), "{}: {exit}", file.display());
            }
        }
    }
}

async fn converse(
    file: &Path,
    framing: Framing,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
) {
    let mut buffer = vec![0; 1 << 16];
    for step in steps(&entries(file)) {
        let (input, output) = (framed(&step.input, framing), framed(&step.output, framing));
        writer.write_all(&input).await.expect("it reads");
        writer.flush().await.expect("it reads");
        let mut got = Vec::new();
        while got.len() < output.len() {
            let read = tokio::time::timeout(Duration::from_secs(10), reader.read(&mut buffer)).await;
            let shown = String::from_utf8_lossy(&got).into_owned();
            let read = read.unwrap_or_else(|_| panic!("{}: no more after {shown}", file.display()));
            let count = read.expect("it writes");
            assert!(count > 0, "{}: the end after {shown}", file.display());
            got.extend_from_slice(&buffer[..count]);
        }
        let (got, output) = (sorted_messages(&got, framing), sorted_messages(&output, framing));
        assert_eq!(got, output, "{}: after {}", file.display(), String::from_utf8_lossy(&step.input));
    }
    writer.shutdown().await.expect("it is there");
    drop(writer);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).await.expect("it ends");
    // Only handlers that never finish are left, and their requests are refused.
    for line in rest.lines().filter(|line| line.starts_with('{')) {
        assert!(line.contains(r#""reason":"closing""#), "{}: {line}", file.display());
    }
}

fn sorted_messages(mut bytes: &[u8], framing: Framing) -> Vec<String> {
    let (mut lines, mut headers) = (Lines::default(), ContentLength::default());
    let mut messages = Vec::new();
    while let Some(frame) = match framing {
        Framing::Lines => lines.next_frame(&mut bytes),
        _ => headers.next_frame(&mut bytes),
    } {
        messages.push(String::from_utf8_lossy(frame.expect("a whole frame").bytes).into_owned());
    }
    messages.sort();
    messages
}

/// The messages of `lines` in another framing.
fn framed(lines: &[u8], framing: Framing) -> Vec<u8> {
    match framing {
        Framing::Lines => lines.to_vec(),
        _ => {
            let mut out = Vec::new();
            let (mut rest, mut decoder) = (lines, Lines::default());
            while let Some(Ok(frame)) = decoder.next_frame(&mut rest) {
                ContentLength::encode(&mut out, |out| out.extend_from_slice(frame.bytes));
            }
            out
        }
    }
}

fn methods(name: &str) -> Methods {
    match name {
        "serve" => scene::serve(),
        _ => scene::peer(),
    }
}

async fn serve(transport: impl Transport, name: &str) {
    let connection = Connection::new(transport).methods(methods(name)).limits(scene::limits());
    connection.run().await.expect("a clean end");
}

#[tokio::test(start_paused = true)]
async fn over_memory() {
    for framing in [Framing::Lines, Framing::ContentLength] {
        run(framing, async |name| {
            let (here, there) = memory(1 << 16);
            let ended = tokio::spawn(async move { serve(there.framing(framing), name).await });
            (here, async { ended.await.expect("no panic") })
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn over_memory_that_holds_one_byte() {
    run(Framing::Lines, async |name| {
        let (here, there) = memory(1);
        let ended = tokio::spawn(async move { serve(there, name).await });
        (here, async { ended.await.expect("no panic") })
    })
    .await;
}

#[tokio::test]
async fn over_a_unix_socket() {
    let folder = std::env::temp_dir().join(format!("barewire-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("writable");
    let path = folder.join("transcripts");
    let listener = unix::listen(&path).await.expect("free");
    for framing in [Framing::Lines, Framing::ContentLength] {
        run(framing, async |name| {
            let here = unix::connect(&path).await.expect("it listens");
            let there = listener.accept().await.framing(framing);
            let ended = tokio::spawn(async move { serve(there, name).await });
            (here, async { ended.await.expect("no panic") })
        })
        .await;
    }
    drop(listener);
    std::fs::remove_dir(&folder).expect("the listener has removed its file");
}

#[tokio::test]
async fn over_tcp() {
    let listener = tcp::listen("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("bound");
    run(Framing::Lines, async |name| {
        let here = tcp::connect(addr).await.expect("it listens");
        let there = listener.accept().await;
        let ended = tokio::spawn(async move { serve(there, name).await });
        (here, async { ended.await.expect("no panic") })
    })
    .await;
}

#[tokio::test]
async fn over_a_child_process() {
    for framing in [Framing::Lines, Framing::ContentLength] {
        run(framing, async |name| {
            let this = std::env::current_exe().expect("this test");
            let child = Child::new(this)
                .args(["--exact", "as_a_child", "--nocapture", "--quiet"])
                .env("BAREWIRE_SCENE", name)
                .env("BAREWIRE_FRAMING", format!("{framing:?}"));
            (child.spawn().expect("it starts"), async {})
        })
        .await;
    }
}

/// Not a test: the program that [`over_a_child_process`] starts.
#[test]
fn as_a_child() {
    let Ok(name) = std::env::var("BAREWIRE_SCENE") else { return };
    // Handlers panic on purpose here, and their backtraces on stderr would hide those of tests that fail.
    let print_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<&str>();
        let is_on_purpose = message.is_some_and(|message| message.starts_with("on purpose"));
        if !is_on_purpose {
            print_panic(panic);
        }
    }));
    let framing = match std::env::var("BAREWIRE_FRAMING").as_deref() {
        Ok("ContentLength") => Framing::ContentLength,
        _ => Framing::Lines,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stdio = stdio().expect("taken once").framing(framing);
        serve(stdio, &name).await;
    });
    // The test harness would print more.
    std::process::exit(0);
}
