//! How many allocations a request costs that is answered at once.

use std::io;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use barewire::peer::{Connection, Context, Methods, Raw};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, ReadBuf};

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

#[derive(Deserialize)]
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

/// The same request many times over, many to a read.
struct Requests {
    left: usize,
}

impl AsyncRead for Requests {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left > 0 && buffer.remaining() > REQUEST.len() {
            buffer.put_slice(REQUEST);
            self.left -= 1;
        }
        Poll::Ready(Ok(()))
    }
}

const REQUEST: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":\"a longer id than most\",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\
\"arguments\":{\"text\":\"0123456789012345678901234567890123456789012345678901234567890123\"}}}\n";

/// Allocations of a connection that answers so many requests.
fn allocations(requests: usize, methods: Methods) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let transport = (Requests { left: requests }, tokio::io::sink());
    let running = Connection::new(transport).methods(methods).run();
    let counted = allocation_counter::measure(|| runtime.block_on(running).expect("a clean end"));
    counted.count_total
}

#[test]
fn a_request_that_is_answered_at_once_costs_at_most_four() {
    let typed = || {
        Methods::new().on(
            "tools/call",
            |_: Context, Params { name: Tool::Echo, arguments }: Params| async move {
                Ok(ToolResult { content: vec![Content { r#type: "text", text: arguments.text }] })
            },
        )
    };
    let raw = || Methods::new().on("tools/call", |_: Context, params: Raw| async move { Ok(params) });
    for (methods, most) in [(&typed as &dyn Fn() -> Methods, 4), (&raw, 4)] {
        let (once, twice) = (allocations(10_000, methods()), allocations(20_000, methods()));
        // What does not depend on the number of requests falls out; tables and buffers that grow are a few.
        let each = (twice - once - 50) / 10_000;
        assert!(each < most, "{} allocations for each request", each + 1);
        assert!(twice > 20_000, "the requests were answered");
    }
}
