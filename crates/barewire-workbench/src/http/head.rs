//! Parses the head of an HTTP message to find the length of its body. The head of a request is also rewritten for the
//! server, or refused.

use barewire_proto::http::{Access, Authority, Media};
use barewire_proto::transcript::Framing;
use httparse::{EMPTY_HEADER, Header};

use super::decoder::BodyLength;

/// Rewrites the heads of a client's requests for the server.
pub(crate) struct HeadRewriter {
    /// The host names by which clients may address us. Only the server checks the `Origin` header.
    pub(crate) access: Access,
    pub(crate) host: String,
    /// Whether to request uncompressed bodies, regardless of the encodings that the client accepts.
    pub(crate) uncompressed: bool,
    /// The proxy between us and the server; `None` without a proxy, or if the proxy does not parse requests.
    pub(crate) proxy: Option<ForwardProxy>,
}

/// A proxy between us and the server that parses requests.
pub(crate) struct ForwardProxy {
    /// The part of the server's URL before the path.
    pub(crate) origin: String,
    pub(crate) authorization: Option<Vec<u8>>,
}

/// The head of a request that is passed on.
pub(crate) struct RequestHead {
    /// The bytes for the server.
    pub(crate) head: Vec<u8>,
    /// The lines to record, without those that are meant only for a proxy.
    pub(crate) lines: Vec<Vec<u8>>,
    /// The original text of the lines that were changed.
    pub(crate) changed: Vec<Vec<u8>>,
    pub(crate) follows: BodyLength,
    pub(crate) body: BodyKind,
    pub(crate) kind: RequestKind,
    pub(crate) method: String,
    /// The path and query in the request line.
    pub(crate) target: String,
    pub(crate) has_authorization: bool,
}

impl RequestHead {
    /// Adds a header at the end.
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        let end = if self.head.ends_with(b"\r\n") { &b"\r\n"[..] } else { b"\n" };
        let line = format!("{name}: {value}").into_bytes();
        self.head.truncate(self.head.len() - end.len());
        self.head.extend([&line[..], end, end].concat());
        self.lines.push(line);
    }
}

/// The kind of a request, which decides how its response is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A HEAD request: its response has no body.
    Head,
    /// A POST with a JSON body, which is most likely an MCP message.
    Message,
    Other,
}

#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) follows: BodyLength,
    pub(crate) body: BodyKind,
}

/// The content of a body: readable or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Readable(Framing),
    /// Not readable because the body has this `Content-Encoding`, which hides messages and secrets.
    Encoded(String),
}

/// The response to a request that is not passed on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestRefusal {
    pub(crate) status: &'static str,
    pub(crate) why: String,
}

impl RequestRefusal {
    pub(crate) fn new(status: &'static str, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }

    pub(crate) fn bad(why: impl Into<String>) -> Self {
        Self::new("400 Bad Request", why)
    }
}

impl HeadRewriter {
    /// Checks and rewrites a complete head.
    pub(crate) fn request(&self, head: &[u8]) -> Result<RequestHead, RequestRefusal> {
        let mut headers = [EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(RequestRefusal::bad("the head is not complete")),
            Err(error) => return Err(RequestRefusal::bad(format!("this is no request of HTTP/1.1: {error}"))),
        }
        let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        let (authority, target) = split(method, target)?;
        let hosts = request.headers.iter().filter(|it| it.name.eq_ignore_ascii_case("host"));
        let hosts: Vec<(&str, &[u8])> = hosts.map(|it| (it.name, it.value)).collect();
        // A web page whose host name was rebound to this machine (DNS rebinding) is refused because of that host name.
        self.access
            .check(authority.map(str::as_bytes), &hosts[..])
            .map_err(|rejection| RequestRefusal::new("403 Forbidden", rejection.error.message))?;
        let follows = LengthHeaders::of(request.headers).map_err(RequestRefusal::bad)?.of_request()?;
        let kind = match (method, media(request.headers)) {
            ("HEAD", _) => RequestKind::Head,
            // Some clients leave out the content type.
            ("POST", ContentType::Known(Media::Json) | ContentType::Absent) => RequestKind::Message,
            _ => RequestKind::Other,
        };
        let body =
            BodyKind::of(request.headers, if kind == RequestKind::Message { Framing::Body } else { Framing::None });
        let mut request_head = RequestHead {
            head: Vec::new(),
            lines: Vec::new(),
            changed: Vec::new(),
            follows,
            body,
            kind,
            method: method.to_owned(),
            target: target.to_owned(),
            has_authorization: request.headers.iter().any(|it| it.name.eq_ignore_ascii_case("authorization")),
        };
        self.rewrite(head, target, !hosts.is_empty(), &mut request_head);
        Ok(request_head)
    }

    /// Copies the head line by line. Unchanged lines keep their order, case and spaces.
    fn rewrite(&self, head: &[u8], target: &str, has_host: bool, request_head: &mut RequestHead) {
        for (index, whole) in head.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line = whole.trim_ascii_end();
            let mut passed = line.to_vec();
            let mut recorded = None;
            if index == 0 {
                let mut words = line.splitn(3, |byte| *byte == b' ');
                let (method, _, version) = (words.next(), words.next(), words.next());
                let written = |target: &str| {
                    [method.unwrap_or_default(), target.as_bytes(), version.unwrap_or_default()].join(&b' ')
                };
                passed = written(target);
                if let Some(proxy) = &self.proxy {
                    // The last proxy turns a URL without a path back into `*`: RFC 9112, section 3.2.4.
                    let path = if target == "*" { "" } else { target };
                    recorded = Some(std::mem::replace(&mut passed, written(&format!("{}{path}", proxy.origin))));
                }
            } else if let Some(colon) = memchr::memchr(b':', line) {
                let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
                let new = match () {
                    () if name.eq_ignore_ascii_case(b"host") => Some(self.host.as_bytes()),
                    () if self.uncompressed && name.eq_ignore_ascii_case(b"accept-encoding") => Some(&b"identity"[..]),
                    () => None,
                };
                if let Some(new) = new.filter(|new| *new != value) {
                    passed = [name, b": ", new].concat();
                }
            } else if line.is_empty() {
                if let Some(authorization) = self.proxy.as_ref().and_then(|it| it.authorization.as_ref()) {
                    request_head.head.extend_from_slice(b"Proxy-Authorization: ");
                    request_head.head.extend_from_slice(authorization);
                    request_head.head.extend_from_slice(b"\r\n");
                }
                request_head.head.extend_from_slice(whole);
                return;
            }
            let recorded_line = recorded.unwrap_or_else(|| passed.clone());
            if recorded_line != line {
                request_head.changed.push(line.to_vec());
            }
            request_head.lines.push(recorded_line);
            request_head.head.extend_from_slice(&passed);
            request_head.head.extend_from_slice(&whole[line.len()..]);
            // Without a `Host` header, the URL in the request line named the host. Only the path of the URL is passed
            // on, so the header is added: RFC 9112, section 3.2.2.
            if index == 0 && !has_host {
                let host = format!("Host: {}", self.host).into_bytes();
                request_head.head.extend_from_slice(&host);
                request_head.head.extend_from_slice(&whole[line.len()..]);
                request_head.lines.push(host);
            }
        }
    }
}

/// Splits the target of a request line into host and path. A whole URL, as for a proxy, must also be accepted.
fn split<'a>(method: &str, target: &'a str) -> Result<(Option<&'a str>, &'a str), RequestRefusal> {
    if target.starts_with('/') || (method == "OPTIONS" && target == "*") {
        return Ok((None, target));
    }
    let url = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")).map(|_| &target[7..]);
    let Some(url) = url else {
        return Err(RequestRefusal::bad("the request line must hold a path; this is no proxy for other servers"));
    };
    let end = url.find(['/', '?']).unwrap_or(url.len());
    let (authority, path) = url.split_at(end);
    let path = if method == "OPTIONS" && path.is_empty() { "*" } else { path };
    if Authority::parse(authority.as_bytes()).is_err() || !(path.starts_with('/') || path == "*") {
        return Err(RequestRefusal::bad("the request line must hold a path"));
    }
    Ok((Some(authority), path))
}

pub(crate) fn response(head: &[u8], to: RequestKind) -> Result<ResponseHead, &'static str> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    // Parsing is as lenient as in clients, because responses are only observed here.
    let mut lenient = httparse::ParserConfig::default();
    lenient.allow_obsolete_multiline_headers_in_responses(true);
    lenient.allow_spaces_after_header_name_in_responses(true);
    match lenient.parse_response(&mut response, head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) | Err(_) => {
            return Err("what the server sends is no response of HTTP/1.1");
        }
    }
    let status = response.code.unwrap_or_default();
    let length = LengthHeaders::of(response.headers)?;
    let follows = match status {
        // Status 101 switches to another protocol.
        101 => BodyLength::UntilClose,
        100..=199 | 204 | 304 => BodyLength::None,
        _ if to == RequestKind::Head => BodyLength::None,
        _ => match length {
            LengthHeaders::Chunked | LengthHeaders::Both => BodyLength::Chunked,
            LengthHeaders::Known(length) => BodyLength::Known(length),
            LengthHeaders::OtherCoding | LengthHeaders::Absent => BodyLength::UntilClose,
        },
    };
    // Not every response carries messages: clients also fetch metadata and tokens, and get error pages.
    let framing = match (media(response.headers), to) {
        (ContentType::Known(Media::Events), _) => Framing::Sse,
        (ContentType::Known(Media::Json), RequestKind::Message) => Framing::Body,
        // A success response to a message is decoded even if its content type is wrong.
        (_, RequestKind::Message) if (200..=299).contains(&status) => Framing::Body,
        _ => Framing::None,
    };
    Ok(ResponseHead { status, follows, body: BodyKind::of(response.headers, framing) })
}

enum ContentType {
    Absent,
    Known(Media),
    Other,
}

fn media(headers: &[Header<'_>]) -> ContentType {
    match headers.iter().find(|it| it.name.eq_ignore_ascii_case("content-type")) {
        None => ContentType::Absent,
        Some(header) => Media::parse(header.value).map_or(ContentType::Other, ContentType::Known),
    }
}

/// The headers that determine the length of a body: RFC 9112, section 6.
enum LengthHeaders {
    Absent,
    Known(u64),
    Chunked,
    /// Both `Content-Length` and `Transfer-Encoding: chunked`.
    Both,
    OtherCoding,
}

impl LengthHeaders {
    fn of(headers: &[Header<'_>]) -> Result<Self, &'static str> {
        let values = |name: &'static str| {
            headers.iter().filter(move |it| it.name.eq_ignore_ascii_case(name)).flat_map(|it| {
                it.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|value| !value.is_empty())
            })
        };
        let coding = values("transfer-encoding").last();
        let mut length = None;
        for value in values("content-length") {
            let text = std::str::from_utf8(value).unwrap_or_default();
            let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
            let number: u64 = number.ok_or("Content-Length is not a number")?;
            if length.is_some_and(|length| length != number) {
                return Err("Content-Length says two different things");
            }
            length = Some(number);
        }
        match (coding, length) {
            (Some(coding), Some(_)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Self::Both),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Self::Chunked),
            (Some(_), _) => Ok(Self::OtherCoding),
            (None, Some(length)) => Ok(Self::Known(length)),
            (None, None) => Ok(Self::Absent),
        }
    }

    fn of_request(self) -> Result<BodyLength, RequestRefusal> {
        match self {
            Self::Absent => Ok(BodyLength::None),
            Self::Known(length) => Ok(BodyLength::Known(length)),
            Self::Chunked => Ok(BodyLength::Chunked),
            // The server might find another end of the body, and treat the rest as a request that we did not check.
            Self::Both => Err(RequestRefusal::bad("there is a Content-Length beside a Transfer-Encoding")),
            Self::OtherCoding => {
                Err(RequestRefusal::bad("the Transfer-Encoding is not chunked, so the body has no end"))
            }
        }
    }
}

impl BodyKind {
    fn of(headers: &[Header<'_>], framing: Framing) -> Self {
        let value = |name: &str| headers.iter().find(|it| it.name.eq_ignore_ascii_case(name));
        if let Some(coding) = value("content-encoding")
            && !coding.value.trim_ascii().eq_ignore_ascii_case(b"identity")
        {
            return Self::Encoded(String::from_utf8_lossy(coding.value).into_owned());
        }
        Self::Readable(framing)
    }
}

/// The maximum number of headers: more than any client or server sends.
const MAX_HEADERS: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::decoder::{HttpDecoder, HttpPart};
    use super::*;

    const SERVER: &str = "server.example:8080";

    fn rewriter(is_through_proxy: bool) -> HeadRewriter {
        let mut access = Access::loopback();
        access.allow_host(SERVER).expect("a host");
        let proxy = ForwardProxy { origin: format!("http://{SERVER}"), authorization: Some(b"Basic dTpw".to_vec()) };
        let proxy = is_through_proxy.then_some(proxy);
        HeadRewriter { access, host: SERVER.to_owned(), uncompressed: true, proxy }
    }

    fn passed(head: &str, is_through_proxy: bool) -> String {
        let request_head = rewriter(is_through_proxy).request(head.as_bytes()).expect(head);
        String::from_utf8(request_head.head).expect("UTF-8")
    }

    #[test]
    fn a_host_is_sent_also_where_only_the_url_names_one() {
        let head = "GET http://localhost/a?b HTTP/1.1\r\na: b\r\n\r\n";
        let expected = "GET /a?b HTTP/1.1\r\nHost: server.example:8080\r\na: b\r\n\r\n";
        assert_eq!(passed(head, false), expected);
        let request_head = rewriter(false).request(head.as_bytes()).expect(head);
        assert_eq!(
            request_head.lines,
            [&b"GET /a?b HTTP/1.1"[..], b"Host: server.example:8080", b"a: b"].map(<[u8]>::to_vec)
        );
    }

    #[test]
    fn options_of_the_server_itself_pass_a_proxy_as_a_url_without_a_path() {
        let head = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let expected = "OPTIONS http://server.example:8080 HTTP/1.1\r\nHost: server.example:8080\r\n\
            Proxy-Authorization: Basic dTpw\r\n\r\n";
        assert_eq!(passed(head, true), expected);
        assert!(passed(expected, false).starts_with("OPTIONS * HTTP/1.1\r\n"));
    }

    #[rustfmt::skip] // a table
    const WORDS: &[&str] = &[
        "Host: localhost\r\n", "host:[::1]:80\n", "Content-Length: 3\r\n", "content-length: 0, 0\r\n",
        "Content-Type: application/json\r\n", "Transfer-Encoding: chunked\r\n",
        "Accept-Encoding: gzip\r\n", "accept-encoding:identity\n", "Content-Encoding: br\r\n",
        "a: b\r\n", "a:\r\n", " ", "\t", "\r", ":", "\u{e9}",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The server finds the same end of the head, and the same headers, as we do.
        #[test]
        fn a_rewritten_head_means_the_same(
            first in prop::sample::select(&[
                "POST /mcp HTTP/1.1\r\n", "GET http://localhost/ HTTP/1.1\n", "OPTIONS * HTTP/1.0\r\n", "HEAD /?a=b HTTP/1.1\r\n",
            ][..]),
            words in prop::collection::vec(prop::sample::select(WORDS), 0..8),
            is_through_proxy in any::<bool>(),
        ) {
            let head = format!("{first}{}\r\n", words.concat());
            let Ok(request_head) = rewriter(is_through_proxy).request(head.as_bytes()) else { return Ok(()) };
            let (mut messages, mut input) = (HttpDecoder::new(), &request_head.head[..]);
            prop_assert_eq!(messages.next(&mut input), Ok(Some(HttpPart::Head(request_head.head.clone()))));
            let again = rewriter(false).request(&request_head.head);
            let again = again.unwrap_or_else(|refusal| panic!("{refusal:?}: {head:?}"));
            prop_assert_eq!((again.follows, again.kind, &again.body), (request_head.follows, request_head.kind, &request_head.body));
            if !is_through_proxy {
                prop_assert_eq!(again.head, request_head.head);
                prop_assert!(again.changed.is_empty());
            }
        }
    }
}
