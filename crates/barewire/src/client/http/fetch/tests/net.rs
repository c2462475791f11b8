//! A server that remembers what it was asked and answers what it is told, byte for byte.

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

/// A request, as it came.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// The first line.
    pub(super) line: String,
    headers: Vec<(String, String)>,
    pub(super) body: String,
    /// Which of the connections it came on.
    pub(super) connection: usize,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Ends with the test.
pub(super) struct Server {
    pub(super) addr: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers every request with what `answer` gives.
    pub(super) async fn answering(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> Self {
        Self::start(None, answer).await
    }

    pub(super) async fn with_tls(tls: ServerConfig, answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> Self {
        Self::start(Some(TlsAcceptor::from(Arc::new(tls))), answer).await
    }

    async fn start(tls: Option<TlsAcceptor>, answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
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
        Self { addr, asked, task }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// All that was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<S>(
    mut stream: S,
    connection: usize,
    seen: &Mutex<Vec<Asked>>,
    answer: &(impl Fn(&Asked) -> String + ?Sized),
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(asked) = read(&mut stream).await {
        let asked = Asked { connection, ..asked };
        seen.lock().unwrap().push(asked.clone());
        if stream.write_all(answer(&asked).as_bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// The next request; `None` at the end of the stream.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let split = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap();
    let mut asked = Asked { line, headers: lines.map(split).collect(), ..Asked::default() };
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    asked.body = String::from_utf8(body).unwrap();
    Some(asked)
}

/// An answer that has a body.
pub(super) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

pub(super) fn ok(body: &str) -> String {
    answer("200 OK", "", body)
}

pub(super) fn redirect(status: u16, to: &str) -> String {
    answer(&format!("{status} Elsewhere"), &format!("Location: {to}\r\n"), "gone")
}

/// A certificate authority that nobody has heard of.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Self {
        Self::named("Nobody's")
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

    /// What a server of this name shows.
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
