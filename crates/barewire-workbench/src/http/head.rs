//! The head of an HTTP message -> what follows it, and for a request: the head as it goes on to the server, or why it does not.

use barewire_proto::http::{Access, Authority, Media};
use barewire_proto::transcript::Framing;
use httparse::{EMPTY_HEADER, Header};

use super::decoder::BodyLength;

/// How the heads of requests go on.
pub(crate) struct Passage {
    /// By which names clients may call us. Origins are the server's to judge.
    pub(crate) access: Access,
    /// What the server is called.
    pub(crate) host: String,
    /// Ask for bodies that can be read, whatever the client accepts.
    pub(crate) uncompressed: bool,
    /// What a proxy that reads requests wants in them.
    pub(crate) proxy: Option<Proxy>,
}

/// A proxy on the way to the server that reads requests.
pub(crate) struct Proxy {
    /// What stands before the path.
    pub(crate) origin: String,
    pub(crate) authorization: Option<Vec<u8>>,
}

/// The head of a request that goes on.
pub(crate) struct Asks {
    /// The bytes for the server.
    pub(crate) head: Vec<u8>,
    /// The lines as they are written down: what is only for a proxy is not among them.
    pub(crate) lines: Vec<Vec<u8>>,
    /// The lines that were changed, as the client had written them.
    pub(crate) changed: Vec<Vec<u8>>,
    pub(crate) follows: BodyLength,
    pub(crate) body: Body,
    pub(crate) kind: Kind,
}

/// What a request is, as far as its response depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A HEAD: answered without a body.
    Head,
    /// A POST with JSON in it: a message, most likely.
    Message,
    /// Anything else.
    Other,
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) status: u16,
    pub(crate) follows: BodyLength,
    pub(crate) body: Body,
}

/// What can be said of a body before it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    Read(Framing),
    /// Its `Content-Encoding`. What is in it cannot be seen, nor can the secrets in it.
    Encoded(String),
}

/// A request that does not go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: &'static str,
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn new(status: &'static str, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }

    pub(crate) fn bad(why: impl Into<String>) -> Self {
        Self::new("400 Bad Request", why)
    }
}

impl Passage {
    /// Takes a whole head.
    pub(crate) fn request(&self, head: &[u8]) -> Result<Asks, Refusal> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(Refusal::bad("the head is not complete")),
            Err(error) => return Err(Refusal::bad(format!("this is no request of HTTP/1.1: {error}"))),
        }
        let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        let (authority, target) = split(method, target)?;
        let hosts = request.headers.iter().filter(|it| it.name.eq_ignore_ascii_case("host"));
        let hosts: Vec<(&str, &[u8])> = hosts.map(|it| (it.name, it.value)).collect();
        // A page that had its name rebound to this machine calls us by that name.
        self.access
            .check(authority.map(str::as_bytes), &hosts[..])
            .map_err(|rejection| Refusal::new("403 Forbidden", rejection.error.message))?;
        let follows = Length::of(request.headers).map_err(Refusal::bad)?.of_request()?;
        let kind = match (method, media(request.headers)) {
            ("HEAD", _) => Kind::Head,
            // Who leaves out the type has not thought of it.
            ("POST", Type::Is(Media::Json) | Type::Unsaid) => Kind::Message,
            _ => Kind::Other,
        };
        let body = Body::of(request.headers, if kind == Kind::Message { Framing::Body } else { Framing::None });
        let mut asks = Asks { head: Vec::new(), lines: Vec::new(), changed: Vec::new(), follows, body, kind };
        self.pass(head, target, !hosts.is_empty(), &mut asks);
        Ok(asks)
    }

    /// Copies the head line by line. What is not ours to change is not touched: not its order, its case or its spaces.
    fn pass(&self, head: &[u8], target: &str, has_host: bool, asks: &mut Asks) {
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
                    // The last proxy on the way makes `*` of a URL without a path: RFC 9112, section 3.2.4.
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
                    asks.head.extend_from_slice(b"Proxy-Authorization: ");
                    asks.head.extend_from_slice(authorization);
                    asks.head.extend_from_slice(b"\r\n");
                }
                asks.head.extend_from_slice(whole);
                return;
            }
            let recorded_line = recorded.unwrap_or_else(|| passed.clone());
            if recorded_line != line {
                asks.changed.push(line.to_vec());
            }
            asks.lines.push(recorded_line);
            asks.head.extend_from_slice(&passed);
            asks.head.extend_from_slice(&whole[line.len()..]);
            // A whole URL in the request line names the host as well, and only its path goes on: RFC 9112, section 3.2.2.
            if index == 0 && !has_host {
                let host = format!("Host: {}", self.host).into_bytes();
                asks.head.extend_from_slice(&host);
                asks.head.extend_from_slice(&whole[line.len()..]);
                asks.lines.push(host);
            }
        }
    }
}

/// The host and the path of what stands in a request line. Only a proxy is sent whole URLs, but everybody has to take them.
fn split<'a>(method: &str, target: &'a str) -> Result<(Option<&'a str>, &'a str), Refusal> {
    if target.starts_with('/') || (method == "OPTIONS" && target == "*") {
        return Ok((None, target));
    }
    let url = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")).map(|_| &target[7..]);
    let Some(url) = url else {
        return Err(Refusal::bad("the request line must hold a path; this is no proxy for other servers"));
    };
    let end = url.find(['/', '?']).unwrap_or(url.len());
    let (authority, path) = url.split_at(end);
    let path = if method == "OPTIONS" && path.is_empty() { "*" } else { path };
    if Authority::parse(authority.as_bytes()).is_err() || !(path.starts_with('/') || path == "*") {
        return Err(Refusal::bad("the request line must hold a path"));
    }
    Ok((Some(authority), path))
}

/// Takes the whole head of a response to a request of this kind.
pub(crate) fn response(head: &[u8], to: Kind) -> Result<Answers, &'static str> {
    let mut headers = [EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    // What clients take as well, and what is only looked at here.
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
    let length = Length::of(response.headers)?;
    let follows = match status {
        // Another protocol.
        101 => BodyLength::UntilClose,
        100..=199 | 204 | 304 => BodyLength::None,
        _ if to == Kind::Head => BodyLength::None,
        _ => match length {
            Length::Chunks | Length::Both => BodyLength::Chunked,
            Length::Is(length) => BodyLength::Known(length),
            Length::Other | Length::Unsaid => BodyLength::UntilClose,
        },
    };
    // Clients look for other things than messages as well: metadata, tokens, pages that say what went wrong.
    let framing = match (media(response.headers), to) {
        (Type::Is(Media::Events), _) => Framing::Sse,
        (Type::Is(Media::Json), Kind::Message) => Framing::Body,
        // Said to be something else, but in the place of a message.
        (_, Kind::Message) if (200..=299).contains(&status) => Framing::Body,
        _ => Framing::None,
    };
    Ok(Answers { status, follows, body: Body::of(response.headers, framing) })
}

/// What a body is said to be.
enum Type {
    Unsaid,
    Is(Media),
    Other,
}

fn media(headers: &[Header<'_>]) -> Type {
    match headers.iter().find(|it| it.name.eq_ignore_ascii_case("content-type")) {
        None => Type::Unsaid,
        Some(header) => Media::parse(header.value).map_or(Type::Other, Type::Is),
    }
}

/// What a head says about the length of its body: RFC 9112, section 6.
enum Length {
    Unsaid,
    Is(u64),
    Chunks,
    /// In chunks, and of a length.
    Both,
    /// Another transfer coding.
    Other,
}

impl Length {
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
            let number: u64 = number.ok_or("Content-Length is no number")?;
            if length.is_some_and(|length| length != number) {
                return Err("Content-Length says two different things");
            }
            length = Some(number);
        }
        match (coding, length) {
            (Some(coding), Some(_)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Self::Both),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Self::Chunks),
            (Some(_), _) => Ok(Self::Other),
            (None, Some(length)) => Ok(Self::Is(length)),
            (None, None) => Ok(Self::Unsaid),
        }
    }

    fn of_request(self) -> Result<BodyLength, Refusal> {
        match self {
            Self::Unsaid => Ok(BodyLength::None),
            Self::Is(length) => Ok(BodyLength::Known(length)),
            Self::Chunks => Ok(BodyLength::Chunked),
            // The server might find another end of the body than we, and take for a request what we have not checked.
            Self::Both => Err(Refusal::bad("there is a Content-Length beside a Transfer-Encoding")),
            Self::Other => Err(Refusal::bad("the Transfer-Encoding is not chunked, so the body has no end")),
        }
    }
}

impl Body {
    fn of(headers: &[Header<'_>], framing: Framing) -> Self {
        let value = |name: &str| headers.iter().find(|it| it.name.eq_ignore_ascii_case(name));
        if let Some(coding) = value("content-encoding")
            && !coding.value.trim_ascii().eq_ignore_ascii_case(b"identity")
        {
            return Self::Encoded(String::from_utf8_lossy(coding.value).into_owned());
        }
        Self::Read(framing)
    }
}

/// More than anybody sends.
const MOST_HEADERS: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::decoder::{HttpDecoder, HttpPart};
    use super::*;

    const SERVER: &str = "server.example:8080";

    fn passage(is_through_proxy: bool) -> Passage {
        let mut access = Access::loopback();
        access.allow_host(SERVER).expect("a host");
        let proxy = Proxy { origin: format!("http://{SERVER}"), authorization: Some(b"Basic dTpw".to_vec()) };
        let proxy = is_through_proxy.then_some(proxy);
        Passage { access, host: SERVER.to_owned(), uncompressed: true, proxy }
    }

    fn passed(head: &str, is_through_proxy: bool) -> String {
        let asks = passage(is_through_proxy).request(head.as_bytes()).expect(head);
        String::from_utf8(asks.head).expect("UTF-8")
    }

    #[test]
    fn a_host_is_sent_also_where_only_the_url_names_one() {
        let head = "GET http://localhost/a?b HTTP/1.1\r\na: b\r\n\r\n";
        let expected = "GET /a?b HTTP/1.1\r\nHost: server.example:8080\r\na: b\r\n\r\n";
        assert_eq!(passed(head, false), expected);
        let asks = passage(false).request(head.as_bytes()).expect(head);
        assert_eq!(asks.lines, [&b"GET /a?b HTTP/1.1"[..], b"Host: server.example:8080", b"a: b"].map(<[u8]>::to_vec));
    }

    #[test]
    fn options_of_the_server_itself_pass_a_proxy_as_a_url_without_a_path() {
        let head = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let expected = "OPTIONS http://server.example:8080 HTTP/1.1\r\nHost: server.example:8080\r\n\
            Proxy-Authorization: Basic dTpw\r\n\r\n";
        assert_eq!(passed(head, true), expected);
        assert!(passed(expected, false).starts_with("OPTIONS * HTTP/1.1\r\n"));
    }

    const WORDS: &[&str] = &[
        "Host: localhost\r\n",
        "host:[::1]:80\n",
        "Content-Length: 3\r\n",
        "content-length: 0, 0\r\n",
        "Content-Type: application/json\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Accept-Encoding: gzip\r\n",
        "accept-encoding:identity\n",
        "Content-Encoding: br\r\n",
        "a: b\r\n",
        "a:\r\n",
        " ",
        "\t",
        "\r",
        ":",
        "\u{e9}",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The server finds the same end of a head as we, and reads the same in it.
        #[test]
        fn what_goes_on_is_read_as_what_came(
            first in prop::sample::select(&[
                "POST /mcp HTTP/1.1\r\n", "GET http://localhost/ HTTP/1.1\n", "OPTIONS * HTTP/1.0\r\n", "HEAD /?a=b HTTP/1.1\r\n",
            ][..]),
            words in prop::collection::vec(prop::sample::select(WORDS), 0..8),
            is_through_proxy in any::<bool>(),
        ) {
            let head = format!("{first}{}\r\n", words.concat());
            let Ok(asks) = passage(is_through_proxy).request(head.as_bytes()) else { return Ok(()) };
            let (mut messages, mut input) = (HttpDecoder::new(), &asks.head[..]);
            prop_assert_eq!(messages.next(&mut input), Ok(Some(HttpPart::Head(asks.head.clone()))));
            let again = passage(false).request(&asks.head);
            let again = again.unwrap_or_else(|refusal| panic!("{refusal:?}: {head:?}"));
            prop_assert_eq!((again.follows, again.kind, &again.body), (asks.follows, asks.kind, &asks.body));
            if !is_through_proxy {
                prop_assert_eq!(again.head, asks.head);
                prop_assert!(again.changed.is_empty());
            }
        }
    }
}
