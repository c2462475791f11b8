//! A party on this machine that answers HTTP requests as a test says, and remembers them: honest, slow or lying.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A listening party.
pub(crate) struct Party {
    pub(crate) origin: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    requests: Mutex<Vec<Asked>>,
    /// The bytes of bodies that were written, whether or not they were read.
    written: AtomicU64,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// A response, or what comes instead.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A JSON document with this status.
    Json(u16, Value),
    /// A body of another type.
    Text(u16, &'static str, String),
    /// A response without a body, with this header line.
    Header(u16, String),
    /// Nothing, until the other side leaves.
    Silence,
    /// A head, and then a byte from time to time, without an end.
    Trickle,
    /// A body of this many bytes (a multiple of 16 KiB), as fast as it is read.
    Flood(u64),
    /// A part of the body that the head announces, and the end of the connection.
    Half,
    /// This reply, once the gate is open.
    Held(Arc<Gate>, Box<Reply>),
}

/// A gate that a test opens.
#[derive(Debug)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(false)))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

impl Reply {
    pub(crate) fn redirect(status: u16, to: impl std::fmt::Display) -> Self {
        Self::Header(status, format!("Location: {to}"))
    }
}

impl Party {
    /// Starts a party. `make` gets its origin, and returns the function that answers its requests.
    pub(crate) async fn start<F>(make: impl FnOnce(&str) -> F) -> Self
    where
        F: Fn(&Asked) -> Reply + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("bound"));
        let (shared, answer) = (Arc::<Shared>::default(), Arc::new(make(&origin)));
        let served = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (served, answer) = (Arc::clone(&served), Arc::clone(&answer));
                tokio::spawn(async move { serve(stream, &served, &*answer).await });
            }
        });
        Self { origin, shared }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.shared.requests.lock().expect("no panic").clone()
    }

    /// Returns the requests so far, each as its method and path.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests().iter().map(|asked| format!("{} {}", asked.method, asked.path)).collect()
    }

    /// Returns the number of requests for this path.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.requests().iter().filter(|asked| asked.path == path).count()
    }

    /// Returns the number of bytes of bodies that were written.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::SeqCst)
    }
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    /// Returns a field of a form.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        parameter(&self.body, name)
    }

    /// Returns a parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        parameter(&self.query, name)
    }

    /// Whether any part of the request has this text.
    pub(crate) fn has(&self, text: &str) -> bool {
        let headers = self.headers.iter().any(|(_, value)| value.contains(text));
        headers || self.query.contains(text) || self.body.contains(text) || self.path.contains(text)
    }

    async fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        };
        let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, target) = (first.next()?.to_owned(), first.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, query) = (path.to_owned(), query.to_owned());
        let pairs = lines.filter_map(|line| line.split_once(": "));
        let headers: Vec<_> = pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(Some(0), |(_, value)| value.parse().ok())?;
        let mut body = bytes.split_off(head + 4);
        while body.len() < length {
            if stream.read_buf(&mut body).await.ok()? == 0 {
                return None;
            }
        }
        Some(Self { method, path, query, headers, body: String::from_utf8(body).ok()? })
    }
}

async fn serve(mut stream: TcpStream, shared: &Shared, answer: &(dyn Fn(&Asked) -> Reply + Send + Sync)) {
    let Some(asked) = Asked::read(&mut stream).await else { return };
    shared.requests.lock().expect("no panic").push(asked.clone());
    // A failure to write is the other side's wish.
    let _ = write(&mut stream, shared, answer(&asked)).await;
}

async fn write(stream: &mut TcpStream, shared: &Shared, mut reply: Reply) -> std::io::Result<()> {
    while let Reply::Held(gate, inner) = reply {
        gate.wait().await;
        reply = *inner;
    }
    let head = |status: u16, length: u64, line: &str| {
        format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n{line}\r\n\r\n")
    };
    let whole = |status: u16, kind: &str, body: &str| {
        format!("{}{body}", head(status, body.len() as u64, &format!("Content-Type: {kind}")))
    };
    match reply {
        Reply::Json(status, json) => {
            stream.write_all(whole(status, "application/json", &json.to_string()).as_bytes()).await?;
        }
        Reply::Text(status, kind, body) => stream.write_all(whole(status, kind, &body).as_bytes()).await?,
        Reply::Header(status, line) => stream.write_all(head(status, 0, &line).as_bytes()).await?,
        Reply::Silence => return stream.read_to_end(&mut Vec::new()).await.map(drop),
        Reply::Trickle => {
            stream.write_all(head(200, 1 << 20, "Content-Type: application/json").as_bytes()).await?;
            loop {
                stream.write_all(b" ").await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Reply::Flood(length) => {
            stream.write_all(head(200, length, "Content-Type: application/json").as_bytes()).await?;
            let chunk = [b' '; 16 * 1024];
            for _ in 0..length / chunk.len() as u64 {
                stream.write_all(&chunk).await?;
                shared.written.fetch_add(chunk.len() as u64, Ordering::SeqCst);
            }
        }
        Reply::Held(..) => unreachable!("the gate is open"),
        Reply::Half => {
            let half = format!("{}{{\"issuer\":", head(200, 1000, "Content-Type: application/json"));
            stream.write_all(half.as_bytes()).await?;
        }
    }
    stream.shutdown().await?;
    // The other side closes, so that a reset does not lose data.
    stream.read_to_end(&mut Vec::new()).await.map(drop)
}

/// Returns a value of a query or a form.
pub(crate) fn parameter(text: &str, name: &str) -> Option<String> {
    let pair = text.split('&').find_map(|pair| pair.split_once('=').filter(|(found, _)| *found == name));
    pair.map(|(_, value)| decoded(value))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = std::str::from_utf8(&digits).expect("ASCII");
                bytes.push(u8::from_str_radix(digits, 16).expect("an encoded byte"));
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}
