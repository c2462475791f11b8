//! An issuer on this machine: metadata, keys and introspection over HTTP, and the ways in which it can fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::keys::SigningKey;

/// A running issuer.
pub(crate) struct TestIssuer {
    pub(crate) url: String,
    state: Arc<Mutex<IssuerState>>,
}

/// The answers of the issuer.
pub(crate) struct IssuerState {
    /// The public keys.
    pub(crate) keys: Vec<Value>,
    /// The issuer that the metadata names.
    pub(crate) named: String,
    /// The status of each response.
    pub(crate) status: u16,
    /// The time before each response.
    pub(crate) delay: Duration,
    /// The answers about tokens.
    pub(crate) active: BTreeMap<String, Value>,
    /// The requests so far: the first line, the `Authorization` header and the body.
    pub(crate) requests: Vec<(String, String, String)>,
}

impl TestIssuer {
    pub(crate) async fn start(keys: Vec<Value>) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let url = format!("http://{}", tcp.local_addr().expect("bound"));
        let state = IssuerState {
            keys,
            named: url.clone(),
            status: 200,
            delay: Duration::ZERO,
            active: BTreeMap::new(),
            requests: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let (shared, base) = (Arc::clone(&state), url.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&shared), base.clone()));
            }
        });
        Self { url, state }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, IssuerState> {
        self.state.lock().expect("no panic")
    }

    /// Returns the number of requests for a path.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.state().requests.iter().filter(|(first, ..)| first.contains(path)).count()
    }

    /// Returns the claims of a good token for this server.
    pub(crate) fn claims(&self, audience: &str) -> Value {
        json!({
            "iss": self.url, "sub": "ada", "aud": audience, "exp": now() + 300, "iat": now(), "client_id": "app",
            "scope": "mcp",
        })
    }
}

async fn answer(stream: TcpStream, state: Arc<Mutex<IssuerState>>, url: String) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut first, mut authorization, mut length) = (String::new(), String::new(), 0);
        stream.read_line(&mut first).await.ok().filter(|read| *read > 0)?;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("authorization") => authorization = value.to_owned(),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok()?,
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let body = String::from_utf8(body).ok()?;
        let (status, delay, json) = {
            let mut state = state.lock().expect("no panic");
            let json = match first.split(' ').nth(1)? {
                "/.well-known/oauth-authorization-server" => json!({
                    "issuer": state.named, "jwks_uri": format!("{url}/keys"),
                    "introspection_endpoint": format!("{url}/introspect"),
                }),
                "/keys" => json!({"keys": state.keys}),
                "/introspect" => {
                    let token = body.strip_prefix("token=")?.split('&').next()?.to_owned();
                    state.active.get(&token).cloned().unwrap_or(json!({"active": false}))
                }
                _ => Value::Null,
            };
            state.requests.push((first.trim_end().to_owned(), authorization, body));
            let status = if json.is_null() { 404 } else { state.status };
            (status, state.delay, json.to_string())
        };
        tokio::time::sleep(delay).await;
        let location = if status == 307 { "Location: http://127.0.0.1:9/elsewhere\r\n" } else { "" };
        let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{location}");
        let response = format!("{head}Content-Length: {}\r\n\r\n{json}", json.len());
        stream.write_all(response.as_bytes()).await.ok()?;
    }
}

/// Returns the time in seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("small")
}

/// A key of the issuer and the issuer that publishes it.
pub(crate) async fn issuer_with_key() -> (SigningKey, TestIssuer) {
    let key = SigningKey::p256();
    let issuer = TestIssuer::start(vec![key.named("k1")]).await;
    (key, issuer)
}
