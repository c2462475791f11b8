//! Proxies: absolute URLs, CONNECT, SOCKS, and refusals.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::super::proxy::Proxies;
use super::net::{self, Authority, RecordedRequest, TestServer, answer, ok};
use super::*;

/// Returns a `Fetch` that takes its proxies from these environment variables.
fn in_environment(endpoint: &Endpoint, variables: &[(&str, &str)]) -> Fetch {
    let variables: Vec<(String, OsString)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let lookup = |name: &str| variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    Fetch::with_proxies(endpoint, Proxies::from_env(lookup)).unwrap()
}

/// A proxy that connects every client to the same server, whatever target the client requests.
struct TunnelProxy {
    addr: SocketAddr,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl TunnelProxy {
    async fn to(server: SocketAddr, tls: Option<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<RecordedRequest>>>::default();
        let seen = Arc::clone(&requests);
        let tls = tls.map(|tls| TlsAcceptor::from(Arc::new(tls)));
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (seen, tls) = (Arc::clone(&seen), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => tunnel(tcp, server, &seen).await,
                        Some(tls) => tunnel(tls.accept(tcp).await.unwrap(), server, &seen).await,
                    }
                });
            }
        });
        Self { addr, requests }
    }

    fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }
}

async fn tunnel(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    server: SocketAddr,
    seen: &Mutex<Vec<RecordedRequest>>,
) {
    let Some(request) = net::read(&mut client).await else { return };
    seen.lock().unwrap().push(request);
    let mut server = TcpStream::connect(server).await.unwrap();
    client.write_all(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n").await.unwrap();
    copy_bidirectional(&mut client, &mut server).await.ok();
}

#[tokio::test]
async fn plain_requests_go_to_the_proxy_with_absolute_urls_and_its_credentials() {
    let proxy = TestServer::answering(|_| ok("from afar")).await;
    let setting = format!("http://user:p%40ss@{}", proxy.addr);
    let fetch = in_environment(
        &Endpoint::new("http://mcp.example:81/x?y").header("X-Key", "key-1"),
        &[("HTTP_PROXY", &setting), ("HTTPS_PROXY", "http://nowhere.invalid")],
    );
    assert_eq!(post(&fetch).await.unwrap().text_up_to(100).await, "from afar");
    let request = &proxy.requests()[0];
    assert_eq!(request.line, "POST http://mcp.example:81/x?y HTTP/1.1");
    assert_eq!(request.header("host"), Some("mcp.example:81"));
    assert_eq!(request.header("proxy-authorization"), Some("Basic dXNlcjpwQHNz"));
    assert_eq!(request.header("x-key"), Some("key-1"));
}

#[tokio::test]
async fn excepted_hosts_are_reached_without_a_proxy() {
    let server = TestServer::answering(|_| ok("here")).await;
    let proxy = TestServer::answering(|_| ok("from afar")).await;
    let setting = proxy.url("/");
    // Proxies from the environment are not used for this machine.
    let fetch = in_environment(&Endpoint::new(server.url("/")), &[("ALL_PROXY", &setting)]);
    assert_eq!(post(&fetch).await.unwrap().text_up_to(100).await, "here");
    assert_eq!(server.requests()[0].line, "POST / HTTP/1.1");
    assert_eq!(server.requests()[0].header("proxy-authorization"), None);
    // An explicit proxy is used for every host.
    let fetch = super::fetch(&Endpoint::new(server.url("/")).proxy(setting));
    assert_eq!(post(&fetch).await.unwrap().text_up_to(100).await, "from afar");
}

#[tokio::test]
async fn tls_goes_through_a_tunnel() {
    let authority = Authority::new();
    let server = TestServer::with_tls(authority.certify("mcp.example"), |_| ok("here")).await;
    let proxy = TunnelProxy::to(server.addr, None).await;
    let setting = format!("user:pw@{}", proxy.addr);
    let endpoint = Endpoint::new("https://mcp.example/x").trust_pem(authority.pem()).header("X-Key", "key-1");
    let fetch = in_environment(&endpoint, &[("https_proxy", &setting)]);
    for _ in 0..2 {
        assert_eq!(post(&fetch).await.unwrap().text_up_to(100).await, "here");
    }
    let request = &proxy.requests()[0];
    assert_eq!(request.line, "CONNECT mcp.example:443 HTTP/1.1");
    assert_eq!(request.header("host"), Some("mcp.example:443"));
    assert_eq!(request.header("proxy-authorization"), Some("Basic dXNlcjpwdw=="));
    assert_eq!(request.header("x-key"), None);
    let inside = &server.requests()[0];
    assert_eq!(inside.line, "POST /x HTTP/1.1");
    assert_eq!(inside.header("x-key"), Some("key-1"));
    assert_eq!(inside.header("proxy-authorization"), None);
}

#[tokio::test]
async fn the_connection_to_the_proxy_may_use_tls() {
    let authority = Authority::new();
    let server = TestServer::with_tls(authority.certify("mcp.example"), |_| ok("here")).await;
    let proxy = TunnelProxy::to(server.addr, Some(authority.certify("127.0.0.1"))).await;
    let endpoint =
        Endpoint::new("https://mcp.example/").trust_pem(authority.pem()).proxy(format!("https://{}", proxy.addr));
    assert_eq!(post(&fetch(&endpoint)).await.unwrap().text_up_to(100).await, "here");
    assert_eq!(proxy.requests()[0].line, "CONNECT mcp.example:443 HTTP/1.1");
}

#[tokio::test]
async fn certificates_are_checked_through_a_tunnel() {
    let authority = Authority::new();
    let server = TestServer::with_tls(authority.certify("evil.example"), |_| ok("here")).await;
    let proxy = TunnelProxy::to(server.addr, None).await;
    let endpoint =
        Endpoint::new("https://mcp.example/").trust_pem(authority.pem()).proxy(format!("http://{}", proxy.addr));
    let error = refused(&fetch(&endpoint)).await;
    assert!(matches!(&error, FetchError::Tls { origin, .. } if origin == "https://mcp.example"), "{error}");
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_password() {
    for (status, said) in [("407 Proxy Authentication Required", "credentials"), ("403 Forbidden", "403")] {
        let proxy = TestServer::answering(move |_| answer(status, "", "")).await;
        let setting = format!("http://user:hunter2@{}", proxy.addr);
        let error = refused(&fetch(&Endpoint::new("https://mcp.example/").proxy(&*setting))).await;
        assert!(matches!(error, FetchError::Proxy { .. }) && !error.may_have_been_sent(), "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(said) && text.contains(&proxy.addr.to_string()) && !text.contains("hunter2"), "{text}");
    }
    // Without a tunnel, 407 is the only status that certainly comes from the proxy and not from the server.
    let proxy = TestServer::answering(|_| answer("407 Proxy Authentication Required", "", "")).await;
    let error = refused(&fetch(&Endpoint::new("http://mcp.example/").proxy(proxy.url("/")))).await;
    assert!(matches!(error, FetchError::Proxy { .. }), "{error}");
}

#[tokio::test]
async fn an_unreachable_proxy_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed_port = listener.local_addr().unwrap();
    drop(listener);
    for kind in ["http", "socks5"] {
        for url in ["http://mcp.example/", "https://mcp.example/"] {
            let error = refused(&fetch(&Endpoint::new(url).proxy(format!("{kind}://u:hunter2@{closed_port}")))).await;
            assert!(matches!(error, FetchError::Proxy { .. }), "{error}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(&closed_port.to_string()) && !text.contains("hunter2"), "{text}");
        }
    }
    // A proxy that sends nothing, and a proxy that does not speak HTTP.
    for said in ["", "SSH-2.0-x\r\n"] {
        let proxy = TestServer::answering(move |_| said.to_owned()).await;
        let endpoint =
            Endpoint::new("https://mcp.example/").proxy(proxy.url("/")).connect_timeout(Duration::from_secs(1));
        let error = refused(&fetch(&endpoint)).await;
        assert!(matches!(error, FetchError::Proxy { .. }), "{error}");
    }
}

#[tokio::test]
async fn socks_receives_the_host_name_and_connects_to_the_server() {
    let authority = Authority::new();
    let server = TestServer::with_tls(authority.certify("mcp.example"), |_| ok("here")).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let setting = format!("socks5h://user:pw@{}", listener.local_addr().unwrap());
    let to = server.addr;
    let socks = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let requested = socks_handshake(&mut client).await;
        let mut server = TcpStream::connect(to).await.unwrap();
        tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await.ok() });
        requested
    });
    let fetch =
        in_environment(&Endpoint::new("https://mcp.example/").trust_pem(authority.pem()), &[("ALL_PROXY", &setting)]);
    assert_eq!(post(&fetch).await.unwrap().text_up_to(100).await, "here");
    assert_eq!(socks.await.unwrap(), ("user".into(), "pw".into(), "mcp.example".into(), 443));
    assert_eq!(server.requests()[0].line, "POST / HTTP/1.1");
}

/// Runs the server side of a SOCKS 5 handshake (RFC 1928 and 1929). Returns user, password, host and port.
async fn socks_handshake(client: &mut TcpStream) -> (String, String, String, u16) {
    async fn text(client: &mut TcpStream) -> String {
        let length = client.read_u8().await.unwrap();
        let mut text = vec![0; length.into()];
        client.read_exact(&mut text).await.unwrap();
        String::from_utf8(text).unwrap()
    }
    let mut methods = [0; 3];
    client.read_exact(&mut methods).await.unwrap();
    assert_eq!(methods, [5, 1, 2]);
    client.write_all(&[5, 2]).await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), 1);
    let (user, password) = (text(client).await, text(client).await);
    client.write_all(&[1, 0]).await.unwrap();
    let mut connect = [0; 4];
    client.read_exact(&mut connect).await.unwrap();
    assert_eq!(connect, [5, 1, 0, 3], "connect to a name");
    let host = text(client).await;
    let port = client.read_u16().await.unwrap();
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    (user, password, host, port)
}

#[tokio::test]
async fn an_invalid_setting_is_an_error_and_never_a_direct_connection() {
    let fetch = in_environment(&Endpoint::new("http://mcp.example/"), &[("http_proxy", "socks4://hunter2:x@p")]);
    let error = refused(&fetch).await;
    let text = format!("{error} {error:?}");
    assert!(matches!(error, FetchError::ProxySetting { .. }), "{text}");
    assert!(text.contains("http_proxy") && !text.contains("hunter2"), "{text}");
}
