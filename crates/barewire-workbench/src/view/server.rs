//! The web server of the page: checks each request, and answers it or passes it to its route.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use barewire::server::http::{HttpLimits, ServiceListener};
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, SET_COOKIE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::answer::{Answer, AnswerError};
use super::assets::asset;
use super::events::send_sources;
use super::query::ViewRequest;
use super::saved_file::{SavedContent, send_file};
use super::{View, routes};
use crate::Error;

/// The server of a page, on a port of 127.0.0.1.
pub struct ViewServer {
    view: View,
    listener: ServiceListener,
    port: u16,
}

impl ViewServer {
    /// Binds a port; the system chooses one if it is 0.
    pub async fn bind(view: View, port: u16) -> Result<Self, Error> {
        let cannot = |error| Error::new(format!("cannot listen on port {port} of 127.0.0.1: {error}"));
        let mut limits = HttpLimits::default();
        // A browser opens six connections for each tab at most, and one of them may be a stream.
        limits.connections = MAX_CONNECTIONS;
        limits.head_timeout = IDLE_TIMEOUT;
        limits.grace = Duration::from_millis(500);
        let listener = ServiceListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), limits).await;
        let listener = listener.map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        view.state().access.listens_on(port);
        Ok(Self { view, listener, port })
    }

    /// Returns the URL for the user's browser, with the token.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/#token={}", self.port, self.view.state().access.token())
    }

    /// Returns the URL to open a browser with. Its token is valid once, because other users can see the command line of
    /// the program that opens the browser.
    pub fn url_for_once(&self) -> String {
        format!("http://127.0.0.1:{}/#token={}", self.port, self.view.state().access.token_for_once())
    }

    /// Serves until `stop` is ready.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        self.listener.run_until(ViewService(self.view), stop).await;
    }
}

#[derive(Clone)]
struct ViewService(View);

impl hyper::service::Service<Request<Incoming>> for ViewService {
    type Response = Response<PageBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<PageBody>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let view = self.0.clone();
        Box::pin(async move {
            let is_head = request.method() == Method::HEAD;
            let mut response = respond(view, request).await.unwrap_or_else(|error| refusal(&error));
            secure(&mut response);
            if is_head {
                *response.body_mut() = PageBody::Whole(None);
            }
            Ok(response)
        })
    }
}

async fn respond(view: View, request: Request<Incoming>) -> Result<Response<PageBody>, AnswerError> {
    let (head, body) = request.into_parts();
    let access = &view.state().access;
    let target = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    let path = head.uri.path();
    let is_document = path == "/" && matches!(head.method, Method::GET | Method::HEAD);
    access.check_place(target, &head.headers, is_document)?;
    let Some(api) = path.strip_prefix("/api/") else {
        if head.method != Method::GET && head.method != Method::HEAD {
            return Err(AnswerError::new(405, "files of the page are only read"));
        }
        let asset = asset(path).ok_or_else(|| AnswerError::not_found("there is no such file"))?;
        return Ok(response(StatusCode::OK, asset.kind, Bytes::from_static(asset.content)));
    };
    if head.method != Method::GET && head.method != Method::POST {
        return Err(AnswerError::new(405, "the page sends GET and POST only"));
    }
    access.check_post(&head.method, &head.headers)?;
    let is_post = head.method == Method::POST;
    if api == "enter" && is_post {
        let entered: Entered = serde_json::from_slice(&read(body, MAX_TOKEN_BODY).await?)
            .map_err(|_| AnswerError::new(400, "the body must be {\"token\": TEXT}"))?;
        let cookie = access.enter(&entered.token)?;
        let mut response = response(StatusCode::NO_CONTENT, "", Bytes::new());
        let cookie = HeaderValue::from_str(&cookie).map_err(|error| AnswerError::new(500, error))?;
        response.headers_mut().insert(SET_COOKIE, cookie);
        return Ok(response);
    }
    access.check_cookie(&head.headers)?;
    if api == "events" && !is_post {
        let (sender, events) = mpsc::channel(1);
        tokio::spawn(send_sources(view.clone(), sender));
        let mut response = response(StatusCode::OK, "text/event-stream", Bytes::new());
        *response.body_mut() = PageBody::Parts(events);
        return Ok(response);
    }
    let body = if is_post { read(body, MAX_BODY).await? } else { Vec::new() };
    let request = ViewRequest::new(is_post, api, head.uri.query().unwrap_or_default(), body);
    // Routes read files and copy records, so they do not run on the threads that move bytes.
    let answered = tokio::task::spawn_blocking(move || routes::answer(&view, &request)).await;
    let answered = answered.map_err(|_| AnswerError::new(500, "the answer could not be made"))?;
    Ok(match answered? {
        Answer::Json(text) => response(StatusCode::OK, JSON, Bytes::from(text)),
        Answer::Done => response(StatusCode::NO_CONTENT, "", Bytes::new()),
        Answer::Download { name, kind, content } => {
            let mut response = download(kind, content);
            let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
            if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
                response.headers_mut().insert(CONTENT_DISPOSITION, value);
            }
            response
        }
    })
}

/// Returns the answer with a file to save.
fn download(kind: &'static str, content: SavedContent) -> Response<PageBody> {
    match content {
        SavedContent::Memory(bytes) => response(StatusCode::OK, kind, Bytes::from(bytes)),
        SavedContent::File(file, length) => {
            let (sender, parts) = mpsc::channel(PARTS_AHEAD);
            tokio::task::spawn_blocking(move || send_file(&file, length, &sender));
            let mut response = response(StatusCode::OK, kind, Bytes::new());
            *response.body_mut() = PageBody::Parts(parts);
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
            response
        }
    }
}

#[derive(Deserialize)]
struct Entered {
    token: String,
}

async fn read(body: Incoming, most: usize) -> Result<Vec<u8>, AnswerError> {
    let whole = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, most).collect()).await;
    let whole = whole.map_err(|_| AnswerError::new(408, "the body came too slowly"))?;
    let whole = whole.map_err(|_| AnswerError::new(413, format!("the body is longer than {most} bytes, or broken")))?;
    Ok(whole.to_bytes().to_vec())
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<PageBody> {
    let mut response = Response::new(PageBody::Whole(Some(body).filter(|body| !body.is_empty())));
    *response.status_mut() = status;
    if !kind.is_empty() {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    response
}

fn refusal(error: &AnswerError) -> Response<PageBody> {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = response(status, JSON, Bytes::from(error.body()));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
    }
    response
}

/// Adds the headers that keep everything out of the page that is not ours, and the page out of other pages.
fn secure(response: &mut Response<PageBody>) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in SECURITY_HEADERS {
        headers.insert(*name, HeaderValue::from_static(value));
    }
}

/// A body of the page: whole, or the parts of a file or the events of a stream as they come.
enum PageBody {
    Whole(Option<Bytes>),
    Parts(mpsc::Receiver<Bytes>),
}

impl Body for PageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Parts(parts) => parts.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Parts(_) => SizeHint::default(),
        }
    }
}

/// The page uses no script but its own files, no style but its own file, and nothing from elsewhere. Trusted Types make
/// the browser refuse code that would turn a text into markup.
const SECURITY_HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

const JSON: &str = "application/json";
/// The maximum number of connections: several browsers with several tabs.
const MAX_CONNECTIONS: usize = 64;
/// The time that a connection may be idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The time in which a body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The number of parts of a file that are read before its reader takes them.
const PARTS_AHEAD: usize = 2;
/// The maximum length of the body with the token, in bytes.
const MAX_TOKEN_BODY: usize = 4096;
/// The maximum length of any other body, in bytes: a frame that the user sends, as text in JSON.
const MAX_BODY: usize = 4 * 1024 * 1024;
