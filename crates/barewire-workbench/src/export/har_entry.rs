//! One exchange -> one entry of a HAR 1.2 file, as JSON.

use std::io::{self, Write};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// An exchange: a request and its response, over HTTP or, as if over HTTP, over a byte stream.
#[derive(Debug, Default)]
pub(super) struct HarEntry {
    /// The wall-clock time of the request, in RFC 3339.
    pub(super) started: String,
    /// The time from the request to the end of the response.
    pub(super) took: Duration,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) request: HarPart,
    /// The status code; 0 if there is no response.
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) response: HarPart,
    /// Why there is no response, or why it ended early.
    pub(super) error: Option<String>,
    /// The members of our own: how the exchange was on the wire, if it was not HTTP.
    pub(super) extension: Option<Value>,
}

/// A request or a response.
#[derive(Debug, Default)]
pub(super) struct HarPart {
    pub(super) version: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) media_type: String,
    pub(super) body: Vec<u8>,
    /// The length of the whole body, of which `body` may be only the beginning.
    pub(super) length: u64,
}

impl HarPart {
    /// Creates a message that is not HTTP.
    pub(super) fn message(text: &[u8], length: u64) -> Self {
        Self { media_type: JSON.to_owned(), body: text.to_vec(), length, ..Self::default() }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn version(&self) -> &str {
        if self.version.is_empty() { "HTTP/1.1" } else { &self.version }
    }

    fn headers(&self) -> Value {
        self.headers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
    }

    /// Returns the members of a body. A body that is not UTF-8 is encoded as Base64.
    fn body(&self) -> Value {
        let mut body = match std::str::from_utf8(&self.body) {
            Ok(text) => json!({ "mimeType": self.media_type, "text": text }),
            Err(_) => json!({ "mimeType": self.media_type, "text": STANDARD.encode(&self.body), "encoding": "base64" }),
        };
        if self.length > self.body.len() as u64 {
            body["comment"] = json!(format!("{} of {} bytes", self.body.len(), self.length));
        }
        body
    }
}

impl HarEntry {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let took = self.took.as_secs_f64() * 1000.0;
        let (request, response) = (&self.request, &self.response);
        let mut asked = json!({
            "method": self.method, "url": self.url, "httpVersion": request.version(), "cookies": [],
            "headers": request.headers(), "queryString": query(&self.url), "headersSize": -1, "bodySize": request.length,
        });
        if request.length > 0 {
            asked["postData"] = request.body();
        }
        let mut content = response.body();
        content["size"] = json!(response.length);
        let location = response.header("location").unwrap_or_default();
        let mut answered = json!({
            "status": self.status, "statusText": self.reason, "httpVersion": response.version(), "cookies": [],
            "headers": response.headers(), "content": content, "redirectURL": location, "headersSize": -1,
            "bodySize": response.length,
        });
        if let Some(error) = &self.error {
            answered["_error"] = json!(error);
        }
        let mut entry = json!({
            "startedDateTime": self.started, "time": took, "request": asked, "response": answered, "cache": {},
            "timings": { "send": 0, "wait": took, "receive": 0 },
        });
        if let Some(extension) = &self.extension {
            entry["_barewire"] = extension.clone();
        }
        serde_json::to_writer(out, &entry).map_err(io::Error::from)
    }
}

/// Returns the parameters of a URL, as written.
fn query(url: &str) -> Value {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect()
}

pub(super) const JSON: &str = "application/json";
