//! Health for load balancers, and metrics.

use std::time::Duration;

use barewire::server::Call;
use barewire::server::http::{BearerTokens, HttpError, HttpService, Principal, StoreMetrics};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tower_service::Service;

use crate::wire::{ACCEPT, Events, HttpResponse, call};
use crate::{TestSite, test_server};

/// Sends a GET, and returns the response.
async fn get(site: &TestSite, path: &str, headers: &[&str]) -> HttpResponse {
    let mut wire = site.connect().await;
    wire.request(&format!("GET {path}"), headers, "").await;
    wire.answer().await
}

/// Returns the value of a metric, which `name` names with its labels.
fn value(text: &str, name: &str) -> f64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = lines.next().unwrap_or_else(|| panic!("no {name}:\n{text}")).parse().expect("a number");
    assert_eq!(lines.next(), None, "{name}");
    value
}

/// Returns the text of the metrics.
async fn metrics(site: &TestSite) -> String {
    let answer = get(site, "/metrics", &["Host: localhost"]).await;
    assert_eq!(answer.status(), 200, "{answer:?}");
    answer.body
}

/// Reads the metrics until one of them has this value.
async fn until(site: &TestSite, name: &str, expected: f64) {
    let mut last = String::new();
    for _ in 0..500 {
        last = metrics(site).await;
        if value(&last, name) == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{name} is never {expected}:\n{last}");
}

fn requests(era: &str, outcome: &str) -> String {
    format!("barewire_requests_total{{era=\"{era}\",outcome=\"{outcome}\"}}")
}

#[tokio::test]
async fn health_and_metrics_are_off_by_default() {
    let (site, _) = TestSite::new().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(&site, path, &["Host: localhost"]).await.refusal(), (404, -32600), "{path}");
    }
    // One does not turn the other on.
    let site = TestSite::of(test_server().0.http().metrics("/metrics")).await;
    assert_eq!(get(&site, "/healthz", &["Host: localhost"]).await.status(), 404);
    let site = TestSite::of(test_server().0.http().health()).await;
    assert_eq!(get(&site, "/metrics", &["Host: localhost"]).await.status(), 404);
}

#[tokio::test]
async fn health_is_told_to_anybody_by_get_and_head_only() {
    let http = test_server().0.http().authenticate(BearerTokens::new().token("t", Principal::new("ada"))).health();
    let site = TestSite::of(http).await;
    for path in ["/healthz", "/readyz"] {
        for headers in [&["Host: localhost"][..], &["Host: balancer.example", "Origin: http://evil.example"]] {
            let answer = get(&site, path, headers).await;
            assert_eq!((answer.status(), answer.body.as_str()), (200, "ok\n"), "{path} {headers:?}");
            assert_eq!(answer.head.get("content-type"), Some("text/plain; charset=utf-8"));
            assert_eq!(answer.head.get("cache-control"), Some("no-store"));
        }
        let mut wire = site.connect().await;
        wire.request(&format!("HEAD {path}"), &["Host: localhost"], "").await;
        let head = wire.head().await;
        assert_eq!((head.status, head.get("content-length")), (200, Some("3")));
        // No body was sent: the next bytes are the next response.
        wire.request(&format!("POST {path}"), &["Host: localhost", "Content-Type: application/json", ACCEPT], "{}")
            .await;
        let answer = wire.answer().await;
        assert_eq!((answer.refusal(), answer.head.get("allow")), ((405, -32600), Some("GET, HEAD")));
    }
    // Only the health is public.
    assert_eq!(site.connect().await.ask(&[], &call(1, "echo", json!({"text": "a"}))).await.status(), 401);
}

#[tokio::test]
async fn a_server_that_drains_is_not_ready_and_serves_on() {
    let site = TestSite::of(test_server().0.http().health().metrics("/metrics")).await;
    assert_eq!(value(&metrics(&site).await, "barewire_ready"), 1.0);
    site.stop.drain();
    let answer = get(&site, "/readyz", &["Host: localhost"]).await;
    assert_eq!((answer.status(), answer.body.as_str()), (503, "draining: the server will shut down soon\n"));
    assert_eq!(get(&site, "/healthz", &["Host: localhost"]).await.status(), 200);
    assert_eq!(value(&metrics(&site).await, "barewire_ready"), 0.0);
    let mut wire = site.connect().await;
    assert_eq!(wire.ask_modern(1, "tools/list", json!({})).await.status(), 200);
    wire.initialize("2025-11-25", json!({})).await;
}

#[tokio::test]
async fn a_service_that_shuts_down_says_why_it_is_not_ready() {
    async fn answer(service: &mut HttpService, path: &str) -> (u16, String) {
        // No `Host`: a service behind another server of HTTP may get none.
        let request = Request::get(path).body(Full::new(Bytes::new())).expect("a request");
        let response = service.call(request).await.expect("a response");
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        (status, String::from_utf8(body.to_vec()).expect("UTF-8"))
    }
    let mut service = test_server().0.http().health().service().expect("a service");
    assert_eq!(answer(&mut service, "/readyz").await, (200, "ok\n".to_owned()));
    service.drain();
    service.close();
    let reasons = "draining: the server will shut down soon\nshutting down\n".to_owned();
    assert_eq!(answer(&mut service, "/readyz").await, (503, reasons));
    assert_eq!(answer(&mut service, "/healthz").await, (200, "ok\n".to_owned()));
}

#[tokio::test]
async fn requests_are_counted_by_era_and_outcome() {
    let (server, running_handlers) = test_server();
    let site = TestSite::of(server.http().metrics("/metrics")).await;
    let mut wire = site.connect().await;
    // Modern: a result, an error, a refusal by its headers.
    let echo = json!({"name": "echo", "arguments": {"text": "a"}});
    assert_eq!(wire.ask_modern(1, "tools/call", echo.clone()).await.status(), 200);
    assert_eq!(wire.ask_modern(2, "tools/call", json!({"name": "unknown"})).await.json()["error"]["code"], -32602);
    let (headers, message) = crate::wire::modern(3, "tools/call", echo);
    let headers: Vec<&str> = headers.iter().map(String::as_str).filter(|header| !header.starts_with("Mcp-N")).collect();
    assert_eq!(wire.ask(&headers, &message).await.status(), 400);
    // Before the era is known: another host. The request without `Mcp-Name` counts here too.
    wire.request("POST /mcp", &["Host: evil.example", "Content-Type: application/json", ACCEPT], "{}").await;
    assert_eq!(wire.answer().await.status(), 403);
    // Legacy: `initialize` and its notification, a result, a session that has ended.
    let session = wire.initialize("2025-11-25", json!({})).await;
    assert_eq!(wire.ask(&[&session], &call(1, "echo", json!({"text": "a"}))).await.status(), 200);
    let text = metrics(&site).await;
    assert_eq!(value(&text, "barewire_sessions"), 1.0);
    assert_eq!(wire.delete(&session).await.status(), 200);
    assert_eq!(wire.ask(&[&session], &call(1, "echo", json!({"text": "a"}))).await.status(), 404);
    // Streams: one that ends with its response, one whose client leaves.
    wire.post_modern(4, "tools/call", json!({"name": "hold", "_meta": {"progressToken": 1}, "arguments": {"ms": 0}}))
        .await;
    let messages = Events::of(wire).await.rest().await;
    assert_eq!(messages.last().expect("a response")["result"]["content"][0]["text"], "held");
    let mut leaving = site.connect().await;
    let hold = json!({"name": "hold", "_meta": {"progressToken": 1}, "arguments": {"ms": 60_000}});
    leaving.post_modern(5, "tools/call", hold).await;
    let mut events = Events::of(leaving).await;
    events.message().await;
    let text = metrics(&site).await;
    let gauges = ["barewire_streams{era=\"modern\"}", "barewire_exchanges", "barewire_streams{era=\"legacy\"}"];
    assert_eq!(gauges.map(|name| value(&text, name)), [1.0, 1.0, 0.0]);
    drop(events);
    running_handlers.until(0).await;
    until(&site, gauges[0], 0.0).await;
    // Without a stream it is the same: the client leaves before its response.
    let mut leaving = site.connect().await;
    leaving.post_modern(6, "tools/call", json!({"name": "hold", "arguments": {"ms": 60_000}})).await;
    running_handlers.until(1).await;
    drop(leaving);
    running_handlers.until(0).await;
    until(&site, &requests("modern", "abandoned"), 2.0).await;
    let text = metrics(&site).await;
    for (era, outcome, count) in [
        ("modern", "answered", 2.0),
        ("modern", "accepted", 0.0),
        ("modern", "refused", 1.0),
        ("modern", "failed", 0.0),
        ("modern", "unavailable", 0.0),
        ("modern", "abandoned", 2.0),
        ("legacy", "answered", 2.0),
        ("legacy", "accepted", 2.0),
        ("legacy", "refused", 1.0),
        ("legacy", "failed", 0.0),
        ("legacy", "abandoned", 0.0),
        ("unknown", "refused", 2.0),
        ("unknown", "accepted", 0.0),
    ] {
        assert_eq!(value(&text, &requests(era, outcome)), count, "{era} {outcome}\n{text}");
    }
    // Only answered requests have a duration.
    for (era, count) in [("modern", 2.0), ("legacy", 2.0)] {
        let name = format!("barewire_request_duration_seconds_count{{era=\"{era}\"}}");
        assert_eq!(value(&text, &name), count, "{text}");
        let sum = value(&text, &format!("barewire_request_duration_seconds_sum{{era=\"{era}\"}}"));
        assert!(sum > 0.0 && sum < 10.0, "{sum}");
    }
    assert_eq!(["barewire_sessions", "barewire_exchanges"].map(|name| value(&text, name)), [0.0, 0.0]);
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[tokio::test]
async fn a_legacy_stream_is_counted_by_the_response_in_it() {
    let (server, _) = test_server();
    let panics = |call: Call| async move {
        call.progress(1.0, None, None).await?;
        if call.principal().is_none() {
            panic!("as expected by the test");
        }
        Ok::<_, barewire::peer::CallError>("unreachable")
    };
    let site = TestSite::of(server.tool("panics", "Panics", panics).http().metrics("/metrics")).await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({})).await;
    let ms = json!({"ms": 0});
    for (tool, arguments, outcome) in
        [("hold", &ms, "answered"), ("panics", &json!({}), "failed"), ("hang_up", &ms, "accepted")]
    {
        let before = value(&metrics(&site).await, &requests("legacy", outcome));
        let mut message = call(1, tool, arguments.clone());
        message["params"]["_meta"] = json!({"progressToken": 1});
        let mut wire = site.connect().await;
        wire.post(&[&session], &message).await;
        Events::of(wire).await.rest().await;
        until(&site, &requests("legacy", outcome), before + 1.0).await;
    }
    // `initialize`, and the two that have got a response.
    assert_eq!(value(&metrics(&site).await, "barewire_request_duration_seconds_count{era=\"legacy\"}"), 3.0);
}

#[tokio::test]
async fn streams_without_a_request_have_no_duration() {
    let (server, _) = test_server();
    let site = TestSite::of(server.http().metrics("/metrics")).await;
    let mut wire = site.connect().await;
    let session = wire.initialize("2025-11-25", json!({})).await;
    let mut stream = site.connect().await;
    stream.get(&[&session]).await;
    let stream = Events::of(stream).await;
    let mut listen = site.connect().await;
    listen.post_modern(1, "subscriptions/listen", json!({"notifications": {}})).await;
    let listen = Events::of(listen).await;
    let text = metrics(&site).await;
    for era in ["legacy", "modern"] {
        assert_eq!(value(&text, &format!("barewire_streams{{era=\"{era}\"}}")), 1.0, "{text}");
    }
    assert_eq!(value(&text, &requests("modern", "accepted")), 1.0);
    drop((stream, listen));
    for era in ["legacy", "modern"] {
        until(&site, &format!("barewire_streams{{era=\"{era}\"}}"), 0.0).await;
    }
    let text = metrics(&site).await;
    assert_eq!(value(&text, "barewire_request_duration_seconds_count{era=\"modern\"}"), 0.0);
    assert_eq!(value(&text, "barewire_request_duration_seconds_count{era=\"legacy\"}"), 1.0, "initialize");
    let counts = ["answered", "accepted", "abandoned"].map(|outcome| value(&text, &requests("modern", outcome)));
    assert_eq!(counts, [0.0, 1.0, 0.0]);
}

#[tokio::test]
async fn a_request_without_room_is_counted_as_unavailable() {
    let (server, running_handlers) = test_server();
    let mut limits = barewire::server::http::HttpLimits::default();
    limits.exchanges = 1;
    let site = TestSite::of(server.http().limits(limits).metrics("/metrics")).await;
    let mut first = site.connect().await;
    first.post_modern(1, "tools/call", json!({"name": "hold", "arguments": {"ms": 60_000}})).await;
    running_handlers.until(1).await;
    assert_eq!(site.connect().await.ask_modern(1, "tools/list", json!({})).await.status(), 503);
    // Health and metrics need no room.
    assert_eq!(value(&metrics(&site).await, &requests("modern", "unavailable")), 1.0);
}

#[tokio::test]
async fn metrics_need_an_allowed_host_and_the_token_of_the_server() {
    let site = TestSite::of(test_server().0.http().metrics("/internal/metrics")).await;
    let path = "/internal/metrics";
    for (headers, status) in [
        (&["Host: localhost"][..], 200),
        (&["Host: evil.example"], 403),
        (&["Host: localhost", "Origin: http://evil.example"], 403),
    ] {
        assert_eq!(get(&site, path, headers).await.status(), status, "{headers:?}");
    }
    let answer = get(&site, path, &["Host: localhost"]).await;
    let expected = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.head.get("content-type"), Some(expected));
    let mut wire = site.connect().await;
    wire.request(&format!("DELETE {path}"), &["Host: localhost"], "").await;
    assert_eq!(wire.answer().await.refusal(), (405, -32600));
    let tokens = BearerTokens::new()
        .token("monitor", Principal::new("monitor").scopes(["mcp"]))
        .token("eve", Principal::new("eve"))
        .require(["mcp"]);
    let site = TestSite::of(test_server().0.http().authenticate(tokens).metrics(path)).await;
    for (token, status) in [("", 401), ("Authorization: Bearer eve", 403), ("Authorization: Bearer monitor", 200)] {
        let headers: Vec<&str> = ["Host: localhost", token].into_iter().filter(|header| !header.is_empty()).collect();
        let answer = get(&site, path, &headers).await;
        assert_eq!(answer.status(), status, "{token}");
        assert_eq!(answer.body.contains("barewire_"), status == 200, "{}", answer.body);
    }
}

#[tokio::test]
async fn paths_that_are_taken_are_refused() {
    let http = || test_server().0.http();
    for http in [
        http().metrics("/mcp"),
        http().metrics("metrics"),
        http().metrics("/healthz"),
        http().health().path("/readyz"),
        http().metrics("/x").path("/x"),
    ] {
        let error = http.bind("127.0.0.1:0").await.expect_err("a path that cannot be used");
        assert!(matches!(error, HttpError::MonitoringPath(_)), "{error}");
    }
    assert!(http().path("/healthz").bind("127.0.0.1:0").await.is_ok(), "without health the path is free");
}

#[tokio::test]
async fn round_trips_to_a_store_are_shown_if_there_is_one() {
    let site = TestSite::of(test_server().0.http().metrics("/metrics")).await;
    assert!(!metrics(&site).await.contains("store"));
    let store = StoreMetrics::default();
    let site = TestSite::of(test_server().0.http().metrics("/metrics").store_metrics(&store)).await;
    let _ = store.measure(async { Ok::<_, ()>(()) }).await;
    let _ = store.measure(async { Err::<(), _>(()) }).await;
    let text = metrics(&site).await;
    for outcome in ["succeeded", "failed"] {
        assert_eq!(value(&text, &format!("barewire_store_round_trips_total{{outcome=\"{outcome}\"}}")), 1.0);
    }
    assert_eq!(value(&text, "barewire_store_round_trip_duration_seconds_count"), 2.0);
}
