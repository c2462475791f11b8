//! Connections for callers that speak HTTP themselves.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::net::{Authority, TestServer, ok};
use super::*;
use crate::client::http::Dialer;

async fn get(dial: &Dialer) -> String {
    let mut wire = dial.connect().await.unwrap();
    let head = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", dial.path_and_query(), dial.host());
    wire.write_all(head.as_bytes()).await.unwrap();
    wire.flush().await.unwrap();
    let (mut answer, mut piece) = (String::new(), [0; 1024]);
    // The server keeps the connection open, so there is no end of file.
    while !answer.ends_with("here") {
        let count = wire.read(&mut piece).await.unwrap();
        assert_ne!(count, 0, "{answer}");
        answer.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
    answer
}

#[tokio::test]
async fn the_caller_speaks_http() {
    let server = TestServer::answering(|_| ok("here")).await;
    let dial = Dialer::new(&Endpoint::new(server.url("/mcp?a=b")).no_proxy()).unwrap();
    assert_eq!(dial.origin(), format!("http://{}", server.addr));
    assert!(get(&dial).await.ends_with("here"));
    assert_eq!(server.requests()[0].line, "GET /mcp?a=b HTTP/1.1");
    assert!(!dial.to_proxy());
}

#[tokio::test]
async fn tls_uses_the_endpoints_certificates() {
    let authority = Authority::new();
    let server = TestServer::with_tls(authority.certify("127.0.0.1"), |_| ok("here")).await;
    let url = format!("https://{}/", server.addr);
    let dial = Dialer::new(&Endpoint::new(&url).no_proxy().trust_pem(authority.pem())).unwrap();
    assert!(get(&dial).await.ends_with("here"));
    let stranger = Dialer::new(&Endpoint::new(&url).no_proxy().trust_pem(Authority::new().pem())).unwrap();
    assert!(matches!(stranger.connect().await, Err(FetchError::Tls { .. })));
}

#[test]
fn the_proxys_requirements_are_reported() {
    let endpoint = |url| Endpoint::new(url).proxy("http://us%65r:pass@127.0.0.1:1");
    let read = Dialer::new(&endpoint("http://example.com/")).unwrap();
    assert!(read.to_proxy() && read.proxy_authorization().is_some());
    // In a tunnel the proxy does not see the requests.
    let tunnelled = Dialer::new(&endpoint("https://example.com:443/")).unwrap();
    assert!(!tunnelled.to_proxy() && tunnelled.proxy_authorization().is_none());
    assert_eq!(tunnelled.host(), "example.com");
}

#[cfg(feature = "oauth")]
#[tokio::test]
async fn metadata_is_fetched_without_credentials_and_from_no_nearer_network() {
    use barewire_proto::auth::{AddressKind, NetworkRefusal};

    use crate::client::http::{MetadataError, Secret};

    let elsewhere = TestServer::answering(|_| ok("{}")).await;
    let to = elsewhere.url("/moved");
    let server = TestServer::answering(move |request| match request.line.as_str() {
        "GET /moved HTTP/1.1" => format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"),
        "GET /loop HTTP/1.1" => "HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n".into(),
        _ => ok("{}"),
    })
    .await;
    let endpoint = Endpoint::new(server.url("/mcp")).no_proxy();
    let dial = Dialer::new(&endpoint.bearer(Secret::new("sesame")).header("x-key", "sesame")).unwrap();
    let found = dial.metadata(&server.url("/document")).await.unwrap();
    assert_eq!((found.status, found.body.as_slice()), (200, &b"{}"[..]));
    assert_eq!(dial.metadata(&server.url("/moved")).await.unwrap().status, 200);
    let requests = [server.requests(), elsewhere.requests()].concat();
    assert_eq!(requests.len(), 3);
    for request in requests {
        assert!(request.header("authorization").is_none() && request.header("x-key").is_none(), "{request:?}");
    }
    assert!(matches!(dial.metadata(&server.url("/loop")).await, Err(MetadataError::Failed(_))));
    assert!(matches!(dial.metadata("/document").await, Err(MetadataError::Url(_))));

    let count = elsewhere.requests().len();
    let public = Dialer::new(&Endpoint::new("https://1.1.1.1/mcp").no_proxy()).unwrap();
    let refused = public.metadata(&elsewhere.url("/document")).await.unwrap_err();
    assert_eq!(refused, MetadataError::Refused(NetworkRefusal::Near(AddressKind::Loopback)));
    let refused = public.metadata("http://1.0.0.1/document").await.unwrap_err();
    assert_eq!(refused, MetadataError::Refused(NetworkRefusal::PlainHttp));
    assert_eq!(elsewhere.requests().len(), count);
}
