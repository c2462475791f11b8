//! The number of allocations for a request whose handler is ready at its first poll.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll};

use barewire::Server;
use barewire::peer::{Connection, Context, Methods, Raw, RunningConnection};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Deserialize)]
struct Params {
    name: Tool,
    arguments: Arguments,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Tool {
    Echo,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    text: String,
}

#[derive(Serialize)]
struct ToolResult {
    content: Vec<Content>,
}

#[derive(Serialize)]
struct Content {
    r#type: &'static str,
    text: String,
}

/// The opening of a connection, and then the same request many times, many in one read.
struct Requests {
    opening: &'static [u8],
    request: &'static [u8],
    left: usize,
}

impl AsyncRead for Requests {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        buffer.put_slice(std::mem::take(&mut self.opening));
        while self.left > 0 && buffer.remaining() > self.request.len() {
            buffer.put_slice(self.request);
            self.left -= 1;
        }
        Poll::Ready(Ok(()))
    }
}

/// Counts the answers that contain the text, so that refusals are not measured by mistake.
#[derive(Clone, Default)]
struct Answers(Arc<AtomicUsize>);

impl AsyncWrite for Answers {
    fn poll_write(self: Pin<&mut Self>, _: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let lines = bytes.split(|&byte| byte == b'\n');
        let answers = lines.filter(|line| line.windows(TEXT.len()).any(|part| part == TEXT));
        self.0.fetch_add(answers.count(), Ordering::Relaxed);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

const REQUEST: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":\"a longer id than most\",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\
\"arguments\":{\"text\":\"0123456789012345678901234567890123456789012345678901234567890123\"}}}\n";

const MODERN_REQUEST: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":\"a longer id than most\",\"method\":\"tools/call\",\"params\":{\
\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
\"io.modelcontextprotocol/clientInfo\":{\"name\":\"allocations\",\"version\":\"0.0.0\"},\
\"io.modelcontextprotocol/clientCapabilities\":{}},\"name\":\"echo\",\
\"arguments\":{\"text\":\"0123456789012345678901234567890123456789012345678901234567890123\"}}}\n";

const INITIALIZE: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\
\"capabilities\":{},\"clientInfo\":{\"name\":\"allocations\",\"version\":\"0.0.0\"}}}\n\
{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

const TEXT: &[u8] = b"0123456789012345678901234567890123456789012345678901234567890123";

/// The allocations of a connection that answers this number of requests.
fn allocations(
    requests: usize,
    (opening, request): (&'static [u8], &'static [u8]),
    run: &dyn Fn((Requests, Answers)) -> RunningConnection,
) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let answers = Answers::default();
    let running = run((Requests { opening, request, left: requests }, answers.clone()));
    let counted = allocation_counter::measure(|| runtime.block_on(running).expect("a clean end"));
    assert_eq!(answers.0.load(Ordering::Relaxed), requests, "the requests were answered");
    counted.count_total
}

/// The allocations of one more request.
fn each(wire: (&'static [u8], &'static [u8]), run: &dyn Fn((Requests, Answers)) -> RunningConnection) -> u64 {
    let (once, twice) = (allocations(10_000, wire, run), allocations(20_000, wire, run));
    // Allocations that do not depend on the number of requests cancel out. Growing tables and buffers are a few.
    (twice - once - 50) / 10_000 + 1
}

#[test]
fn a_request_that_is_answered_at_once_allocates_at_most_four_times() {
    let typed = |transport| {
        let methods =
            Methods::new().on("tools/call", |_: Context, Params { name: Tool::Echo, arguments }: Params| async move {
                Ok(ToolResult { content: vec![Content { r#type: "text", text: arguments.text }] })
            });
        Connection::new(transport).methods(methods).run()
    };
    let raw = |transport| {
        let methods = Methods::new().on("tools/call", |_: Context, params: Raw| async move { Ok(params) });
        Connection::new(transport).methods(methods).run()
    };
    for (run, most) in [(&typed as &dyn Fn(_) -> _, 4), (&raw, 4)] {
        let each = each((b"", REQUEST), run);
        assert!(each <= most, "{each} allocations for each request");
    }
}

#[test]
fn a_tool_call_of_mcp_allocates_at_most_eight_times() {
    let server = |transport| {
        let echo = |Arguments { text }| async move { text };
        Server::new("echo", "1.0.0").tool("echo", "Say it back", echo).serve(transport)
    };
    for (era, wire) in [("legacy", (INITIALIZE, REQUEST)), ("modern", (b"", MODERN_REQUEST))] {
        let each = each(wire, &server);
        assert!(each <= 8, "{each} allocations for each {era} call");
    }
}
