//! A server of ours that requires tokens, its authorization server, and a user with a browser, all on this machine.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barewire::client::http::Endpoint;
use barewire::client::oauth::{DeviceCode, MemoryStore, SignIn, SignInPage, SignInUser, UserFuture};
use barewire::server::Tool;
use barewire::server::http::AccessTokens;
use barewire::{Client, ClientError, Failure, Server};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service;

use super::issuer::Issuer;

/// The server, its requests, and the authorization server.
pub(crate) struct Scene {
    /// The URL of the server.
    pub(crate) url: String,
    pub(crate) issuer: Issuer,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let issuer = Issuer::start().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        let tokens = AccessTokens::jwt(issuer.name(), &url).keys(&issuer.jwks()).require(["mcp"]);
        let server = Server::new("guarded", "1")
            .tool("echo", "Answers", || async { "echo" })
            .with(Tool::new("write", "Needs more", || async { "written" }).scope("mcp").scope("mcp:write"));
        let service = server.http().authenticate(tokens).service().expect("valid settings");
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (service, seen) = (service.clone(), Arc::clone(&seen));
                let answer = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let method = request.headers().get("mcp-method").and_then(|method| method.to_str().ok());
                    let line = format!("{} {}", request.method(), method.unwrap_or(request.uri().path()));
                    seen.lock().expect("no panic").push(line);
                    let mut service = service.clone();
                    async move { Ok::<_, Infallible>(service.call(request).await.expect("infallible")) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(async move { connection.serve_connection(TokioIo::new(stream), answer).await });
            }
        });
        Self { url, issuer, requests }
    }

    /// Returns the requests to the server since the last call, each as its HTTP method and its MCP method or path.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().expect("no panic"))
    }
}

/// Connects with a sign-in.
pub(crate) async fn connect(url: &str, sign_in: SignIn) -> Result<Client, ClientError> {
    let endpoint = Endpoint::new(url).sign_in(sign_in);
    Client::builder("tester", "0.1").timeout(CALL_TIMEOUT).http(endpoint).await
}

/// A sign-in whose requests have some seconds.
pub(crate) fn sign_in(store: &MemoryStore, browser: &Browser) -> SignIn {
    SignIn::with_store("tester", store.clone()).user(browser.clone())
}

/// Longer than any step of these tests takes.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Whom the browser visits before it follows the redirect to the client: the URL of that redirect -> other URLs.
type Detour = dyn Fn(&str) -> Vec<String> + Send + Sync;

/// A browser that follows the redirects of a page to the client, unless it is told to go elsewhere.
#[derive(Clone)]
pub(crate) struct Browser {
    opened: Arc<Mutex<Vec<String>>>,
    statuses: Arc<Mutex<Vec<u16>>>,
    detour: Arc<Detour>,
}

impl Browser {
    pub(crate) fn new() -> Self {
        Self::visiting(|callback| vec![callback.to_owned()])
    }

    /// Creates a browser that visits other URLs in place of the redirect to the client.
    pub(crate) fn visiting(detour: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self { opened: Arc::default(), statuses: Arc::default(), detour: Arc::new(detour) }
    }

    /// Returns the pages that were opened.
    pub(crate) fn opened(&self) -> Vec<String> {
        self.opened.lock().expect("no panic").clone()
    }

    /// Returns the statuses of the URLs that were visited instead of the redirect.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        self.statuses.lock().expect("no panic").clone()
    }

    async fn browse(&self, page: &SignInPage) -> Result<(), Failure> {
        self.opened.lock().expect("no panic").push(page.url.clone());
        let mut url = page.url.clone();
        while !url.starts_with(&page.redirect_uri) {
            let (_, location) = get(&url, None).await;
            url = location.unwrap_or_else(|| panic!("no redirect at {url}"));
        }
        for visited in (self.detour)(&url) {
            let (visited, host) = visited.split_once(" as ").unwrap_or((&visited, ""));
            let (status, _) = get(visited, Some(host).filter(|host| !host.is_empty())).await;
            self.statuses.lock().expect("no panic").push(status);
        }
        Ok(())
    }
}

impl SignInUser for Browser {
    fn open_page<'a>(&'a self, page: &'a SignInPage) -> UserFuture<'a, Option<String>> {
        Box::pin(async { self.browse(page).await.map(|()| None) })
    }

    fn show_code<'a>(&'a self, _: &'a DeviceCode) -> UserFuture<'a, ()> {
        Box::pin(async { Err(Failure::internal("Browser", "there is no device")) })
    }
}

/// Gets a URL. Returns the status and the location.
pub(crate) async fn visit(url: &str) -> (u16, Option<String>) {
    get(url, None).await
}

/// Posts a form. Returns the status.
pub(crate) async fn post_form(url: &str, form: &str) -> u16 {
    let length = form.len();
    let more = format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}");
    exchange("POST", url, None, &more).await.0
}

async fn get(url: &str, host: Option<&str>) -> (u16, Option<String>) {
    exchange("GET", url, host, "\r\n").await
}

/// Sends a request with the rest of its head and its body. Returns the status and the location.
async fn exchange(method: &str, url: &str, host: Option<&str>, more: &str) -> (u16, Option<String>) {
    let (authority, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a URL");
    let mut stream = TcpStream::connect(authority).await.expect("connected");
    let host = host.unwrap_or(authority);
    let request = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut text = String::new();
    // A client that has what it needs may close early.
    let _ = stream.read_to_string(&mut text).await;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let location = text.lines().find_map(|line| line.strip_prefix("Location: "));
    (status, location.map(|location| location.trim().to_owned()))
}
