//! Redirects: which targets are followed, and which headers are sent to them.

use std::sync::{Arc, OnceLock};

use http::Method;

use super::net::{TestServer, ok, redirect};
use super::*;
use crate::client::http::fetch::RedirectError;
use crate::client::http::{Endpoint, Secret};

fn endpoint(url: String) -> Endpoint {
    Endpoint::new(url)
        .no_proxy()
        .bearer(Secret::new("token-1"))
        .header("X-Api-Key", "key-1")
        .header("Cookie", "cookie-1")
}

/// The headers that identify the sender or its session.
const CREDENTIALS: [&str; 5] = ["authorization", "x-api-key", "cookie", "mcp-session-id", "last-event-id"];

#[tokio::test]
async fn a_post_stays_a_post_with_its_body_and_its_credentials_within_the_origin() {
    for status in [307, 308] {
        let server = TestServer::answering(move |request| match request.line.as_str() {
            "POST /a/b?q HTTP/1.1" => redirect(status, "../mcp/?r=1#f"),
            _ => ok("here"),
        })
        .await;
        let mut response = post(&fetch(&endpoint(server.url("/a/b?q")))).await.unwrap();
        assert_eq!(response.text_up_to(100).await, "here");
        assert_eq!(response.url.uri().to_string(), server.url("/mcp/?r=1"));
        assert!(response.same_origin);
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[1].line, "POST /mcp/?r=1 HTTP/1.1");
        assert_eq!(requests[1].body, requests[0].body);
        assert_eq!(requests[1].header("authorization"), Some("Bearer token-1"));
        for name in CREDENTIALS {
            assert!(requests[1].header(name).is_some(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_post_that_would_become_a_get_is_an_error_that_says_so() {
    for status in [301, 302, 303] {
        let server = TestServer::answering(move |_| redirect(status, "/elsewhere")).await;
        let error = refused(&fetch(&endpoint(server.url("/")))).await;
        let FetchError::Redirect { why: RedirectError::ChangesMethod { method: Method::POST, .. }, .. } = &error else {
            panic!("{error}")
        };
        assert!(error.to_string().contains(&status.to_string()) && error.to_string().contains("POST"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_get_is_followed_whatever_the_status() {
    for status in [301, 302, 303, 307, 308] {
        let server = TestServer::answering(move |request| match request.line.as_str() {
            "GET / HTTP/1.1" => redirect(status, "/elsewhere"),
            _ => ok("here"),
        })
        .await;
        let response = send(&fetch(&endpoint(server.url("/"))), Method::GET).await.unwrap();
        assert_eq!(response.url.uri().path(), "/elsewhere", "{status}");
    }
}

#[tokio::test]
async fn five_redirects_are_followed_and_no_more() {
    // `/n` redirects to `/n-1`; `/0` is the final target.
    let server = TestServer::answering(|request| {
        let at: usize = request.line.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        if at == 0 { ok("here") } else { redirect(307, &format!("/{}", at - 1)) }
    })
    .await;
    assert_eq!(post(&fetch(&endpoint(server.url("/5")))).await.unwrap().status, 200);
    let error = refused(&fetch(&endpoint(server.url("/6")))).await;
    assert!(matches!(error, FetchError::Redirect { why: RedirectError::TooMany { followed: 5 }, .. }), "{error}");
}

#[tokio::test]
async fn a_redirect_circle_ends() {
    let server = TestServer::answering(|_| redirect(308, "/")).await;
    let error = refused(&fetch(&endpoint(server.url("/")))).await;
    assert!(error.to_string().contains("circle"), "{error}");
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn credentials_do_not_follow_to_another_origin_or_back() {
    let home = Arc::new(OnceLock::<String>::new());
    let back = Arc::clone(&home);
    let other_origin = TestServer::answering(move |_| redirect(307, back.get().unwrap())).await;
    let away = other_origin.url("/away");
    let server = TestServer::answering(move |request| match request.line.as_str() {
        "POST /mcp HTTP/1.1" => redirect(307, &away),
        _ => ok("here"),
    })
    .await;
    home.set(server.url("/home")).unwrap();

    let response = post(&fetch(&endpoint(server.url("/mcp")))).await.unwrap();
    assert!(!response.same_origin);
    assert_eq!(response.url.uri().to_string(), server.url("/home"));
    let (requests, elsewhere) = (server.requests(), other_origin.requests());
    for name in CREDENTIALS {
        assert!(requests[0].header(name).is_some(), "{name} goes to the endpoint");
        assert_eq!(elsewhere[0].header(name), None, "{name} goes to another origin");
        assert_eq!(requests[1].header(name), None, "{name} goes back after another origin");
    }
    // Headers that describe the message are kept.
    assert_eq!(elsewhere[0].body, requests[0].body);
    assert_eq!(elsewhere[0].header("content-type"), Some("application/json"));
    assert_eq!(elsewhere[0].header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(elsewhere[0].header("host"), Some(other_origin.addr.to_string().as_str()));
}

#[tokio::test]
async fn a_url_of_another_origin_gets_no_credentials_in_the_first_place() {
    let (server, other_origin) = (TestServer::answering(|_| ok("")).await, TestServer::answering(|_| ok("")).await);
    let fetch = fetch(&endpoint(server.url("/")));
    let url = super::super::HttpUrl::parse(&other_origin.url("/")).unwrap();
    fetch.send(Method::POST, &url, &headers(), Bytes::new(), None).await.unwrap();
    for name in CREDENTIALS {
        assert_eq!(other_origin.requests()[0].header(name), None, "{name}");
    }
}

#[tokio::test]
async fn another_machine_cannot_send_us_to_this_one() {
    let victim = TestServer::answering(|_| ok("")).await;
    let to = victim.url("/");
    // Acts as a proxy, so that the URL can name another machine.
    let elsewhere = TestServer::answering(move |_| redirect(307, &to)).await;
    let endpoint = Endpoint::new("http://mcp.example/").proxy(elsewhere.url("/"));
    let error = refused(&fetch(&endpoint)).await;
    assert!(matches!(&error, FetchError::Redirect { why: RedirectError::ToThisMachine { .. }, .. }), "{error}");
    assert!(victim.requests().is_empty());
}

#[tokio::test]
async fn an_unusable_location_is_refused_without_being_shown() {
    for (location, said) in [
        ("", ""),
        ("Location: http://u:hunter2@example.com/\r\n", "a user or a password"),
        ("Location: ftp://example.com/hunter2\r\n", "neither http nor https"),
        ("Location: http://[hunter2\r\n", "not a URL"),
        ("Location: /hunter2\u{e4}\r\n", "ASCII"),
    ] {
        let server =
            TestServer::answering(move |_| format!("HTTP/1.1 307 Go\r\n{location}Content-Length: 0\r\n\r\n")).await;
        let error = refused(&fetch(&endpoint(server.url("/")))).await;
        assert!(matches!(error, FetchError::Redirect { .. }), "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(said) && !text.contains("hunter2"), "{text}");
    }
}

#[tokio::test]
async fn other_statuses_are_not_redirects() {
    for status in [300, 304, 305, 399, 404, 500] {
        let server = TestServer::answering(move |_| redirect(status, "/elsewhere")).await;
        assert_eq!(post(&fetch(&endpoint(server.url("/")))).await.unwrap().status, status);
        assert_eq!(server.requests().len(), 1);
    }
}

/// The name of a host says nothing: the addresses that it leads to are checked.
#[tokio::test]
async fn after_a_redirect_from_the_internet_no_address_of_this_machine_is_connected_to() {
    use barewire_proto::auth::AddressKind;
    use http::Request;
    use http_body_util::Full;

    let server = TestServer::answering(|_| ok("here")).await;
    let fetch = fetch(&endpoint(server.url("/mcp")));
    for host in ["127.0.0.1", "localhost"] {
        let request = || {
            let url = format!("http://{host}:{}/", server.addr.port());
            Request::get(url).body(Full::new(Bytes::new())).unwrap()
        };
        for nearest in [AddressKind::Public, AddressKind::Private] {
            let error = fetch.pool_for(Some(nearest)).request(request()).await.unwrap_err();
            let why = FetchError::of_request(&fetch.url().origin(), &error);
            assert!(matches!(why, FetchError::Address { .. }), "{host} {nearest:?}: {why}");
        }
        assert_eq!(server.requests().len(), 0);
    }
    let request = Request::get(server.url("/")).body(Full::new(Bytes::new())).unwrap();
    assert!(fetch.pool_for(Some(AddressKind::Loopback)).request(request).await.is_ok());
}
