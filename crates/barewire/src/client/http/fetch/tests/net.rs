//! A test server that records requests and sends the given text as responses, and certificates for the server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A recorded request.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedRequest {
    /// The request line.
    pub(super) line: String,
    headers: Vec<(String, String)>,
    pub(super) body: String,
    /// The number of the connection on which the request arrived.
    pub(super) connection: usize,
}

impl RecordedRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// A server that stops when it is dropped.
pub(super) struct TestServer {
    pub(super) addr: SocketAddr,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    task: JoinHandle<()>,
}

impl TestServer {
    /// Starts a server that answers every request with the text that `answer` returns.
    pub(super) async fn answering(answer: impl Fn(&RecordedRequest) -> String + Send + Sync + 'static) -> Self {
        Self::start(None, answer).await
    }

    pub(super) async fn with_tls(
        tls: ServerConfig,
        answer: impl Fn(&RecordedRequest) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(TlsAcceptor::from(Arc::new(tls))), answer).await
    }

    async fn start(
        tls: Option<TlsAcceptor>,
        answer: impl Fn(&RecordedRequest) -> String + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<RecordedRequest>>>::default();
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        let task = tokio::spawn(async move {
            for connection in 0.. {
                let (tcp, _) = listener.accept().await.unwrap();
                let (tls, seen, answer) = (tls.clone(), Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move {
                    match tls {
                        None => serve(tcp, connection, &seen, &*answer).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(tcp).await {
                                serve(stream, connection, &seen, &*answer).await;
                            }
                        }
                    }
                });
            }
        });
        Self { addr, requests, task }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Returns all requests so far.
    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<S>(
    mut stream: S,
    connection: usize,
    seen: &Mutex<Vec<RecordedRequest>>,
    answer: &(impl Fn(&RecordedRequest) -> String + ?Sized),
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(request) = read(&mut stream).await {
        let request = RecordedRequest { connection, ..request };
        seen.lock().unwrap().push(request.clone());
        if stream.write_all(answer(&request).as_bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// Reads the next request; `None` at the end of the stream.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<RecordedRequest> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let split = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap();
    let mut request = RecordedRequest { line, headers: lines.map(split).collect(), ..RecordedRequest::default() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    request.body = String::from_utf8(body).unwrap();
    Some(request)
}

/// Returns the text of an HTTP response with a body.
pub(super) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

pub(super) fn ok(body: &str) -> String {
    answer("200 OK", "", body)
}

pub(super) fn redirect(status: u16, to: &str) -> String {
    answer(&format!("{status} Elsewhere"), &format!("Location: {to}\r\n"), "gone")
}

/// A certificate authority that no platform trusts.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Self {
        Self::named("Test CA")
    }

    pub(super) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        let text = BASE64_STANDARD.encode(self.0.der());
        let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    }

    /// Returns the TLS settings of a server with this name.
    pub(super) fn certify(&self, name: &str) -> ServerConfig {
        self.certify_until(name, 4000)
    }

    pub(super) fn certify_until(&self, name: &str, year: i32) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .unwrap()
    }
}
