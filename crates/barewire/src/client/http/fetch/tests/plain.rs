//! Requests to authorization servers: which addresses are contacted, and what a response can cost.

use barewire_proto::auth::{AddressKind, NetworkPolicy};
use bytes::Bytes;
use http::{HeaderMap, Method};

use super::super::proxy::Proxies;
use super::super::{Connector, FetchError, HttpUrl, PlainFetch, PlainRequest, PlainResponse, Tls};
use super::net::TestServer;

async fn send(url: &str, nearest: AddressKind, max_body: usize) -> Result<PlainResponse, FetchError> {
    let tls = Tls::trusting(&[]).unwrap();
    let connector = Connector::new(tls, std::sync::Arc::new(Proxies::none()), std::time::Duration::from_secs(5));
    let (url, policy) = (HttpUrl::parse(url).unwrap(), NetworkPolicy::default().nearest(nearest));
    let (headers, body) = (HeaderMap::new(), Bytes::from_static(b"secret=1"));
    let timeout = std::time::Duration::from_secs(30);
    let request = PlainRequest { method: Method::POST, url: &url, headers, body, policy, max_body, timeout };
    PlainFetch::new(&connector).send(request).await
}

#[tokio::test]
async fn a_server_elsewhere_cannot_make_the_client_contact_this_machine() {
    let server = TestServer::answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".into()).await;
    let port = server.addr.port();
    // The name is looked up, so the address that is connected to is checked, and not only the text of the URL.
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1"] {
        for nearest in [AddressKind::Public, AddressKind::Private] {
            let error = send(&format!("http://{host}:{port}/token"), nearest, 100).await.err().unwrap();
            let is_refused = matches!(&error, FetchError::Address { .. } | FetchError::Resolve { .. });
            assert!(is_refused && !error.may_have_been_sent(), "{host}: {error}");
        }
    }
    let private = send("http://10.1.2.3/token", AddressKind::Public, 100).await.err().unwrap();
    assert!(matches!(private, FetchError::Address { .. }), "{private}");
    let metadata = send("http://169.254.169.254/latest", AddressKind::Loopback, 100).await.err().unwrap();
    assert!(matches!(metadata, FetchError::Address { .. }), "{metadata}");
    assert!(server.requests().is_empty());
    let response = send(&server.url("/token"), AddressKind::Loopback, 100).await.unwrap();
    assert_eq!((response.status.as_u16(), response.body.as_slice()), (200, &b"{}"[..]));
}

#[tokio::test]
async fn a_redirect_does_not_take_a_secret_elsewhere() {
    let target = TestServer::answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into()).await;
    let to = target.url("/stolen");
    let server = TestServer::answering(move |_| {
        format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
    })
    .await;
    let response = send(&server.url("/token"), AddressKind::Loopback, 100).await.unwrap();
    assert_eq!(response.status.as_u16(), 307);
    assert!(target.requests().is_empty());
}

#[tokio::test]
async fn a_long_response_is_an_error() {
    let server = TestServer::answering(|_| {
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n{}\r\n0\r\n\r\n", "x".repeat(0x65))
    })
    .await;
    let error = send(&server.url("/token"), AddressKind::Loopback, 100).await.err().unwrap();
    assert!(matches!(error, FetchError::TooLong { limit: 100, .. }), "{error}");
}
