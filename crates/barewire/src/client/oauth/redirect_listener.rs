//! The redirect of the browser after a sign-in -> the query of its URL. RFC 8252, section 7.3.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A listener on this machine that waits for one redirect of the browser. Only requests to its one path, under its own
/// address, with the `state` of the sign-in are accepted; all others are refused and change nothing.
pub(super) struct RedirectListener {
    listener: Arc<TcpListener>,
    port: u16,
}

impl RedirectListener {
    /// Listens on a port of this machine; 0 is any free port.
    pub(super) async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener: Arc::new(listener), port })
    }

    /// Returns the URL to which the authorization server must redirect the browser.
    pub(super) fn redirect_uri(&self) -> String {
        Self::redirect_uri_at(self.port)
    }

    /// Returns that URL for a listener on this port.
    pub(super) fn redirect_uri_at(port: u16) -> String {
        format!("http://127.0.0.1:{port}{CALLBACK_PATH}")
    }

    /// Waits for the redirect, and answers it with a page that says that the browser is no longer needed. Returns the
    /// query of the URL when the page is sent. Has no timeout.
    pub(super) async fn wait(&self, state: &str) -> io::Result<String> {
        let expected = Arc::new(ExpectedRedirect { state: state.to_owned(), port: self.port });
        let (found_sender, mut found) = mpsc::channel(1);
        // The set ends the task when this future is dropped.
        let mut acceptor = JoinSet::new();
        acceptor.spawn(accept(Arc::clone(&self.listener), expected, found_sender));
        found.recv().await.ok_or_else(|| io::Error::other("the listener has stopped"))
    }
}

/// The properties of the one request that is accepted.
struct ExpectedRedirect {
    state: String,
    port: u16,
}

/// Accepts connections until the task is ended.
async fn accept(listener: Arc<TcpListener>, expected: Arc<ExpectedRedirect>, found: mpsc::Sender<String>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (expected, found) = (Arc::clone(&expected), found.clone());
                connections.spawn(async move {
                    if let Some(query) = serve(stream, expected).await {
                        let _ = found.try_send(query);
                    }
                    drop(permit);
                });
            }
            // A failure of one connection, or a lack of file descriptors for a moment.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Answers the request of one connection. Returns the query of the awaited request, after its page was sent: the process
/// may end as soon as it has the query.
async fn serve(stream: TcpStream, expected: Arc<ExpectedRedirect>) -> Option<String> {
    let found = Arc::new(OnceLock::new());
    let service = service_fn(|request: Request<Incoming>| {
        let answer = match expected.check(&request) {
            Ok(query) => {
                let is_refused = query.split('&').any(|pair| pair.starts_with("error="));
                let _ = found.set(query);
                match is_refused {
                    false => page(StatusCode::OK, "Signed in", "The sign-in is done. You can close this page."),
                    true => page(StatusCode::OK, "Not signed in", "The program that started the sign-in says why."),
                }
            }
            Err(status) => {
                page(status, "Not a sign-in", "This page only completes a sign-in that a program has started.")
            }
        };
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = timeout(HEADER_TIMEOUT + PAGE_TIMEOUT, served).await;
    found.get().cloned()
}

impl ExpectedRedirect {
    /// Returns the query of the awaited request, or the status that refuses any other request.
    fn check<B>(&self, request: &Request<B>) -> Result<String, StatusCode> {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        // A web page whose host name leads to this machine must not be able to complete a sign-in.
        let names = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        if !host.is_some_and(|host| names.iter().any(|name| host.eq_ignore_ascii_case(name))) {
            return Err(StatusCode::FORBIDDEN);
        }
        if request.uri().path() != CALLBACK_PATH {
            return Err(StatusCode::NOT_FOUND);
        }
        if request.method() != Method::GET {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        let query = request.uri().query().unwrap_or_default();
        // The state is base64url text, so no part of it is percent-encoded.
        let given = query.split('&').find_map(|pair| pair.strip_prefix("state=")).unwrap_or_default();
        match bool::from(given.as_bytes().ct_eq(self.state.as_bytes())) {
            true => Ok(query.to_owned()),
            false => Err(StatusCode::BAD_REQUEST),
        }
    }
}

/// Returns a page of fixed text: nothing of the request is in it, and it has no scripts.
fn page(status: StatusCode, title: &str, text: &str) -> Response<Full<Bytes>> {
    let head = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">";
    let html = format!("{head}<title>{title}</title><h1>{title}</h1><p>{text}</p></html>\n");
    let mut response = Response::new(Full::new(Bytes::from(html)));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        // The code is in the URL of this page.
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONNECTION, "close"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

const CALLBACK_PATH: &str = "/callback";

/// The maximum number of connections at a time: a browser opens up to six to a host.
const MAX_CONNECTIONS: usize = 16;

/// The maximum size of a request's head. A URL with a code and a state takes less than 2 KiB; cookies of other local
/// servers are sent along.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The maximum time for a browser to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time to send the last page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn ask(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_the_awaited_redirect_is_accepted() {
        let listener = RedirectListener::bind(0).await.unwrap();
        let port = listener.port;
        assert_eq!(listener.redirect_uri(), format!("http://127.0.0.1:{port}/callback"));
        let waiting = tokio::spawn(async move { listener.wait("abc").await });
        let host = format!("Host: 127.0.0.1:{port}");
        for (line, host, status) in [
            ("GET /callback?code=1&state=abc", "Host: evil.example".to_owned(), "403"),
            ("GET /callback?code=1&state=abc", format!("Host: evil.example:{port}"), "403"),
            ("GET /callback?code=1&state=abd", host.clone(), "400"),
            ("GET /callback?code=1", host.clone(), "400"),
            ("GET /favicon.ico", host.clone(), "404"),
            ("POST /callback?code=1&state=abc", host.clone(), "405"),
        ] {
            let answer = ask(port, &format!("{line} HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\n\r\n")).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {answer}");
            assert!(!waiting.is_finished());
        }
        let answer = ask(port, &format!("GET /callback?code=1&state=abc HTTP/1.1\r\n{host}\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("The sign-in is done") && !answer.contains("<script") && !answer.contains("abc"));
        assert_eq!(waiting.await.unwrap().unwrap(), "code=1&state=abc");
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err(), "the listener is gone with its sign-in");
    }

    #[tokio::test]
    async fn silent_connections_do_not_keep_the_browser_out() {
        let listener = RedirectListener::bind(0).await.unwrap();
        let port = listener.port;
        let waiting = tokio::spawn(async move { listener.wait("s").await });
        let mut silent = Vec::new();
        for _ in 0..MAX_CONNECTIONS - 1 {
            silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        let answer =
            ask(port, &format!("GET /callback?code=1&state=s HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(waiting.await.unwrap().unwrap(), "code=1&state=s");
    }
}
