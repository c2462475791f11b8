//! Valid and invalid server certificates.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::net::{Authority, TestServer, ok, redirect};
use super::*;
use crate::client::http::fetch::RedirectError;

fn endpoint(server: &TestServer, authority: &Authority) -> Endpoint {
    Endpoint::new(format!("https://{}/", server.addr)).no_proxy().trust_pem(authority.pem())
}

#[tokio::test]
async fn an_added_authority_is_trusted() {
    let authority = Authority::new();
    let server = TestServer::with_tls(authority.certify("127.0.0.1"), |_| ok("here")).await;
    let fetch = fetch(&endpoint(&server, &authority));
    for _ in 0..2 {
        assert_eq!(post(&fetch).await.unwrap().text_up_to(100).await, "here");
    }
    assert_eq!(server.requests()[0].line, "POST / HTTP/1.1");
}

#[tokio::test]
async fn an_unknown_authority_is_not_trusted() {
    let authority = Authority::new();
    let server = TestServer::with_tls(authority.certify("127.0.0.1"), |_| ok("here")).await;
    // An authority with the same name but another key is not trusted either.
    for another in [Authority::named("Other CA"), Authority::new()] {
        let error = refused(&fetch(&endpoint(&server, &another))).await;
        assert!(matches!(error, FetchError::Tls { .. }) && !error.may_have_been_sent(), "{error}");
        assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_certificate_with_another_name_or_an_expired_one_is_refused() {
    let authority = Authority::new();
    let server = TestServer::with_tls(authority.certify("mcp.example"), |_| ok("here")).await;
    let error = refused(&fetch(&endpoint(&server, &authority))).await;
    assert!(matches!(error, FetchError::Tls { .. }) && error.to_string().contains("use the name"), "{error}");

    let server = TestServer::with_tls(authority.certify_until("127.0.0.1", 2000), |_| ok("here")).await;
    let error = refused(&fetch(&endpoint(&server, &authority))).await;
    assert!(matches!(error, FetchError::Tls { .. }) && error.to_string().contains("expired"), "{error}");
}

#[tokio::test]
async fn the_wrong_scheme_gets_a_hint() {
    let authority = Authority::new();
    for said in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b""] {
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", plain.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut tcp, _) = plain.accept().await.unwrap();
            // Read the whole first message, so that closing does not reset the connection.
            assert_ne!(tcp.read(&mut [0; 16 * 1024]).await.unwrap(), 0);
            tcp.write_all(said).await.unwrap();
        });
        let error = refused(&fetch(&Endpoint::new(url).no_proxy())).await;
        assert!(matches!(error, FetchError::Tls { .. }) && error.to_string().contains("http://"), "{error}");
    }

    let server = TestServer::with_tls(authority.certify("127.0.0.1"), |_| ok("here")).await;
    let error = refused(&fetch(&Endpoint::new(server.url("/")).no_proxy())).await;
    assert!(matches!(error, FetchError::Answer { .. }) && error.to_string().contains("https://"), "{error}");
}

#[tokio::test]
async fn a_redirect_never_leads_out_of_tls() {
    let authority = Authority::new();
    let plain = TestServer::answering(|_| ok("here")).await;
    let to = plain.url("/");
    let server = TestServer::with_tls(authority.certify("127.0.0.1"), move |_| redirect(307, &to)).await;
    let error = refused(&fetch(&endpoint(&server, &authority))).await;
    assert!(matches!(error, FetchError::Redirect { why: RedirectError::Downgrade { .. }, .. }), "{error}");
    assert!(plain.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_may_lead_into_tls() {
    let authority = Authority::new();
    let secure = TestServer::with_tls(authority.certify("127.0.0.1"), |_| ok("here")).await;
    let to = format!("https://{}/", secure.addr);
    let server = TestServer::answering(move |_| redirect(308, &to)).await;
    let endpoint = Endpoint::new(server.url("/")).no_proxy().trust_pem(authority.pem()).header("X-Key", "key-1");
    assert_eq!(post(&fetch(&endpoint)).await.unwrap().status, 200);
    assert_eq!(secure.requests()[0].header("x-key"), None, "another scheme is another origin");
}
