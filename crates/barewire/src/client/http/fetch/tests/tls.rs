//! Servers that prove who they are, and others.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::net::{Authority, Server, ok, redirect};
use super::*;
use crate::client::http::fetch::RedirectError;

fn endpoint(server: &Server, authority: &Authority) -> Endpoint {
    Endpoint::new(format!("https://{}/", server.addr)).no_proxy().trust_pem(authority.pem())
}

#[tokio::test]
async fn an_authority_that_was_added_is_trusted() {
    let authority = Authority::new();
    let server = Server::with_tls(authority.certify("127.0.0.1"), |_| ok("here")).await;
    let fetch = fetch(&endpoint(&server, &authority));
    for _ in 0..2 {
        assert_eq!(post(&fetch).await.unwrap().text_up_to(100).await, "here");
    }
    assert_eq!(server.asked()[0].line, "POST / HTTP/1.1");
}

#[tokio::test]
async fn an_authority_that_nobody_added_is_not() {
    let authority = Authority::new();
    let server = Server::with_tls(authority.certify("127.0.0.1"), |_| ok("here")).await;
    // One with its name is not it either, as when it was made anew.
    for another in [Authority::named("Somebody's"), Authority::new()] {
        let error = refused(&fetch(&endpoint(&server, &another))).await;
        assert!(matches!(error, FetchError::Tls { .. }) && !error.may_have_been_sent(), "{error}");
        assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_certificate_is_for_its_name_and_its_time() {
    let authority = Authority::new();
    let server = Server::with_tls(authority.certify("mcp.example"), |_| ok("here")).await;
    let error = refused(&fetch(&endpoint(&server, &authority))).await;
    assert!(matches!(error, FetchError::Tls { .. }) && error.to_string().contains("use the name"), "{error}");

    let server = Server::with_tls(authority.certify_until("127.0.0.1", 2000), |_| ok("here")).await;
    let error = refused(&fetch(&endpoint(&server, &authority))).await;
    assert!(matches!(error, FetchError::Tls { .. }) && error.to_string().contains("expired"), "{error}");
}

#[tokio::test]
async fn the_wrong_scheme_is_found_out() {
    let authority = Authority::new();
    for said in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b""] {
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", plain.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut tcp, _) = plain.accept().await.unwrap();
            // All of the first message, so that closing is no reset.
            assert_ne!(tcp.read(&mut [0; 16 * 1024]).await.unwrap(), 0);
            tcp.write_all(said).await.unwrap();
        });
        let error = refused(&fetch(&Endpoint::new(url).no_proxy())).await;
        assert!(matches!(error, FetchError::Tls { .. }) && error.to_string().contains("http://"), "{error}");
    }

    let server = Server::with_tls(authority.certify("127.0.0.1"), |_| ok("here")).await;
    let error = refused(&fetch(&Endpoint::new(server.url("/")).no_proxy())).await;
    assert!(matches!(error, FetchError::Answer { .. }) && error.to_string().contains("https://"), "{error}");
}

#[tokio::test]
async fn a_redirect_never_leads_out_of_tls() {
    let authority = Authority::new();
    let plain = Server::answering(|_| ok("here")).await;
    let to = plain.url("/");
    let server = Server::with_tls(authority.certify("127.0.0.1"), move |_| redirect(307, &to)).await;
    let error = refused(&fetch(&endpoint(&server, &authority))).await;
    assert!(matches!(error, FetchError::Redirect { why: RedirectError::Downgrade { .. }, .. }), "{error}");
    assert!(plain.asked().is_empty());
}

#[tokio::test]
async fn a_redirect_may_lead_into_tls() {
    let authority = Authority::new();
    let secure = Server::with_tls(authority.certify("127.0.0.1"), |_| ok("here")).await;
    let to = format!("https://{}/", secure.addr);
    let server = Server::answering(move |_| redirect(308, &to)).await;
    let endpoint = Endpoint::new(server.url("/")).no_proxy().trust_pem(authority.pem()).header("X-Key", "key-1");
    assert_eq!(post(&fetch(&endpoint)).await.unwrap().status, 200);
    assert_eq!(secure.asked()[0].header("x-key"), None, "another scheme is another origin");
}
