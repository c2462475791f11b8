//! Allowed and refused hosts, origins, methods and content types: a row each, over a real socket.

use barewire::server::http::HttpError;
use serde_json::json;

use crate::wire::modern;
use crate::{TestSite, test_server};

const JSON: &str = "Content-Type: application/json";
const BOTH: &str = "Accept: application/json, text/event-stream";

#[tokio::test]
async fn hosts_origins_methods_and_content_types() {
    let http = test_server().0.http().hosts(["mcp.example.com", "port.example.com:8443"]);
    let site = TestSite::of(http.origins(["https://app.example.com"])).await;
    let port = site.addr.port();
    let at_port = format!("127.0.0.1:{port}");
    let hosts = [
        ("localhost", 200),
        ("LOCALHOST", 200),
        ("localhost:1", 200),
        (at_port.as_str(), 200),
        ("127.0.0.1", 200),
        ("[::1]", 200),
        ("[::1]:8080", 200),
        ("mcp.example.com", 200),
        ("MCP.example.COM:99", 200),
        ("port.example.com:8443", 200),
        ("port.example.com", 403),
        ("port.example.com:8444", 403),
        ("evil.com", 403),
        ("localhost.evil.com", 403),
        ("evil.com.localhost", 403),
        ("127.0.0.1.evil.com", 403),
        ("mcp.example.com.evil.com", 403),
        ("evilmcp.example.com", 403),
        ("user@localhost", 403),
        ("localhost:evil", 403),
        ("localhost:99999", 403),
        ("localhost/evil.com", 403),
        ("evil.com#localhost", 403),
        ("evil.com,localhost", 403),
        ("localhost evil.com", 403),
        ("0x7f.1", 403),
        ("0.0.0.0", 403),
        ("2130706433", 403),
        ("[::ffff:127.0.0.1]", 403),
        ("[::1", 403),
        ("", 403),
    ];
    let origins = [
        ("http://localhost", 200),
        ("http://localhost:6274", 200),
        ("https://127.0.0.1:1", 200),
        ("http://[::1]:3000", 200),
        ("https://app.example.com", 200),
        ("HTTPS://APP.example.com", 200),
        ("https://app.example.com:443", 200),
        ("https://app.example.com:444", 403),
        ("http://app.example.com", 403),
        ("https://app.example.com.evil.com", 403),
        ("https://evil.com", 403),
        ("http://localhost.evil.com", 403),
        ("http://evil.com/localhost", 403),
        ("http://localhost@evil.com", 403),
        ("null", 403),
        ("file://", 403),
        ("localhost", 403),
        ("chrome-extension://abc", 403),
        ("http://localhost, http://evil.com", 403),
        ("", 403),
    ];
    let kinds = [
        ("Content-Type: application/json", 200),
        ("Content-Type: application/json; charset=utf-8", 200),
        ("Content-Type: APPLICATION/JSON;charset=\"UTF-8\"", 200),
        ("Content-Type: application/json; charset=latin1", 415),
        ("Content-Type: text/plain", 415),
        ("Content-Type: application/x-www-form-urlencoded", 415),
        ("Content-Type: multipart/form-data; boundary=a", 415),
        ("Content-Type: application/jsonx", 415),
        ("Content-Type: application/json, text/plain", 415),
        ("X-Nothing: there", 415),
        ("Content-Type: application/json\r\nContent-Encoding: gzip", 415),
        ("Content-Type: application/json\r\nContent-Encoding: identity", 200),
    ];
    let accepts = [
        ("Accept: application/json, text/event-stream", 200),
        ("Accept: text/event-stream;q=0.5, application/json;q=0.9", 200),
        ("Accept: */*", 200),
        ("X-Nothing: there", 200),
        ("Accept: application/json", 406),
        ("Accept: text/event-stream", 406),
        ("Accept: text/html", 406),
        ("Accept: application/json, text/event-stream;q=0", 406),
    ];
    let methods =
        [("PUT", 405), ("PATCH", 405), ("OPTIONS", 405), ("HEAD", 405), ("BREW", 405), ("GET", 405), ("DELETE", 405)];
    let (usual, message) = modern(1, "tools/list", json!({}));
    let message = message.to_string();
    let mut rows = 0;
    let mut check = async |first: &str, headers: Vec<String>, body: &str, status: u16| {
        rows += 1;
        let mut wire = site.connect().await;
        let mut all: Vec<&str> = headers.iter().map(String::as_str).collect();
        all.extend(usual.iter().map(String::as_str));
        wire.request(first, &all, body).await;
        let head = wire.head().await;
        assert_eq!(head.status, status, "{first} {headers:?}");
        if status >= 400 && !first.starts_with("HEAD") {
            assert_eq!(head.get("content-type"), Some("application/json"), "{first} {headers:?}");
        }
        if status == 405 {
            assert!(head.get("allow").is_some_and(|allow| allow.contains("POST")));
        }
    };
    for (host, status) in hosts {
        check("POST /mcp", vec![format!("Host: {host}"), JSON.into(), BOTH.into()], &message, status).await;
    }
    for (origin, status) in origins {
        let headers = vec!["Host: localhost".into(), format!("Origin: {origin}"), JSON.into(), BOTH.into()];
        check("POST /mcp", headers, &message, status).await;
    }
    for (kind, status) in kinds {
        check("POST /mcp", vec!["Host: localhost".into(), kind.into(), BOTH.into()], &message, status).await;
    }
    for (accept, status) in accepts {
        check("POST /mcp", vec!["Host: localhost".into(), JSON.into(), accept.into()], &message, status).await;
    }
    for (method, status) in methods {
        // The modern era has neither GET nor DELETE.
        check(&format!("{method} /mcp"), vec!["Host: localhost".into(), BOTH.into()], "", status).await;
    }
    // Requests that a web page cannot send, but a program with a socket can.
    let twice = vec!["Host: localhost".into(), "Host: localhost".into(), JSON.into(), BOTH.into()];
    let origins = ["Origin: http://localhost".to_owned(), "Origin: http://localhost".to_owned()];
    check("POST http://evil.com/mcp", vec!["Host: localhost".into(), JSON.into(), BOTH.into()], &message, 403).await;
    check("POST http://localhost/mcp", vec!["Host: evil.com".into(), JSON.into(), BOTH.into()], &message, 403).await;
    check("POST http://localhost/mcp", vec!["Host: localhost".into(), JSON.into(), BOTH.into()], &message, 200).await;
    check("POST /mcp", [&twice[..1], &origins, &twice[2..]].concat(), &message, 403).await;
    check("POST /mcp", twice, &message, 403).await;
    assert!(rows >= 80, "{rows}");
}

#[tokio::test]
async fn a_refusal_is_an_error_without_an_id_and_the_body_is_not_read() {
    let (site, _) = TestSite::new().await;
    let mut wire = site.connect().await;
    // The body is announced and never sent: a server that waits for it would wait forever.
    wire.send("POST /mcp HTTP/1.1\r\nHost: evil.com\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
        .await;
    let answer = wire.answer().await;
    assert_eq!(answer.refusal(), (403, -32600));
    assert_eq!(answer.json().as_object().expect("an object").keys().collect::<Vec<_>>(), ["error", "jsonrpc"]);
    assert!(wire.is_closed().await);
}

#[tokio::test]
async fn a_public_address_needs_host_names() {
    let http = || test_server().0.http();
    for addr in ["0.0.0.0:0", "[::]:0"] {
        match http().bind(addr).await {
            Err(HttpError::NoHosts(_)) => {}
            // This machine may not have such an address.
            Err(HttpError::Bind(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    // Every loopback address is a name of this machine.
    let site = TestSite::of(test_server().0.http()).await;
    let other = test_server().0.http().bind("127.0.0.2:0").await.expect("bound");
    let addr = other.local_addr().expect("bound");
    tokio::spawn(other.run());
    for (addr, host, status) in [(addr, "127.0.0.2", 200), (addr, "127.0.0.1", 200), (site.addr, "127.0.0.2", 403)] {
        let (mut wire, (usual, message)) = (crate::wire::Wire::to(addr).await, modern(1, "tools/list", json!({})));
        let host = format!("Host: {host}");
        let headers: Vec<&str> =
            [host.as_str(), JSON, BOTH].into_iter().chain(usual.iter().map(String::as_str)).collect();
        wire.request("POST /mcp", &headers, &message.to_string()).await;
        assert_eq!(wire.answer().await.status(), status, "{host} at {addr}");
    }
    assert!(matches!(http().hosts([""; 0]).bind("0.0.0.0:0").await, Err(HttpError::NoHosts(_))));
    assert!(http().hosts(["example.com"]).bind("0.0.0.0:0").await.is_ok());
    assert!(matches!(http().hosts(["exa mple"]).bind("127.0.0.1:0").await, Err(HttpError::Access(_))));
    assert!(matches!(http().origins(["https://"]).service(), Err(HttpError::Access(_))));
}
