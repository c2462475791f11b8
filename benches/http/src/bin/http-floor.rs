//! The floor of the transport: hyper reads a whole request and answers with a fixed text from the command line. Nothing
//! is parsed and nothing is checked. With `--stream`, the text is the first and only event of a stream that stays open.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use barewire_benches_http::harnessed;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let is_stream = args.first().is_some_and(|first| first == "--stream");
    let answer: Bytes = args.pop().ok_or_else(|| io::Error::other("the text of the answer is missing"))?.into();
    let listener = TcpListener::bind(harnessed::LISTEN_ADDRESS).await?;
    harnessed::begin(listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = answer.clone();
        tokio::spawn(async move {
            let io = TokioIo::new(stream);
            // Errors of a connection are the client's problem.
            let _ = if is_stream {
                let service = service_fn(|request| respond(request, SilentStream(Some(answer.clone())), EVENTS));
                http1::Builder::new().serve_connection(io, service).await
            } else {
                let service = service_fn(|request| respond(request, Full::new(answer.clone()), JSON));
                http1::Builder::new().serve_connection(io, service).await
            };
        });
    }
}

async fn respond<B>(request: Request<Incoming>, body: B, kind: HeaderValue) -> hyper::Result<Response<B>> {
    request.into_body().collect().await?;
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

/// A body that sends one chunk and then stays open without sending more.
struct SilentStream(Option<Bytes>);

impl Body for SilentStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Poll::Pending,
        }
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
