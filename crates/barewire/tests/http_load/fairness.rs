//! Clients that take all the room there is: what frees room needs none itself, and other clients still get room.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::server::http::{BearerTokens, HttpLimits, Principal};
use tokio::net::TcpSocket;

use super::eventually::DEADLINE;
use super::wire::Wire;
use super::{LoadServer, Text, before_deadline, echo, limits, report, requests, threads};

/// Returns a server with the tool `wait`, whose calls never end.
fn waiting() -> Server {
    echo().tool("wait", "Waits for ever", |Text { text }| async move {
        std::future::pending::<()>().await;
        text
    })
}

/// Connects from this address of the loopback network.
async fn connect_from(host: u8, server: SocketAddr) -> Wire {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((IpAddr::from(Ipv4Addr::new(127, 0, 0, host)), 0).into()).expect("an address of this machine");
    Wire::new(socket.connect(server).await.expect("it listens"))
}

/// Sends `initialize` and nothing else. Returns the id of the session, or the status of the refusal.
async fn open_silently(wire: &mut Wire) -> Result<String, u16> {
    let (head, body) = wire.ask(&requests::initialize()).await;
    match head.header("Mcp-Session-Id") {
        Some(session) => Ok(session.to_owned()),
        None => {
            assert_eq!(head.header("Retry-After"), Some("1"), "{}", body.escape_ascii());
            Err(head.status)
        }
    }
}

/// Returns the status of a ping, which is 404 if the session has ended.
async fn ping(wire: &mut Wire, session: &str) -> u16 {
    wire.ask(&requests::in_session(session, r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#)).await.0.status
}

/// Sends a request on this connection, and returns the status of the response. Its body is not read.
async fn status(wire: &mut Wire, request: &[u8]) -> u16 {
    wire.send(request).await.expect("sent");
    before_deadline("a response", wire.head()).await.expect("a response").status
}

#[test]
fn notifications_responses_pings_and_deletes_need_no_room() {
    threads().block_on(async {
        let set = limits(|limits| (limits.exchanges, limits.keep_alive) = (3, Duration::from_millis(50)));
        let server = LoadServer::start(waiting(), set).await;
        let mut wire = Wire::connect(server.addr).await;
        let session = wire.initialize().await;
        let status = async |request: Vec<u8>| status(&mut Wire::connect(server.addr).await, &request).await;
        let wait = |id| requests::session_call(&session, id, "wait", r#"{"text":""}"#);
        for id in 1..=3 {
            assert_eq!(status(wait(id)).await, 200);
        }
        let post = |body: &str| requests::in_session(&session, body);
        assert_eq!(status(wait(4)).await, 503);
        assert_eq!(status(post(r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#)).await, 200);
        assert_eq!(status(post(r#"{"jsonrpc":"2.0","id":"of the server","result":{}}"#)).await, 202);
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(status(post(cancel)).await, 202);
        // The cancelled call leaves its place to another one.
        eventually_taken(server.addr, &wait(6)).await;
        assert_eq!(status(wait(7)).await, 503);
        assert_eq!(status(requests::delete(&session)).await, 200);
        server.is_alive().await;
        server.end().await;
    });
}

#[test]
fn a_client_that_only_opens_sessions_keeps_nobody_out() {
    only_opens_sessions(limits(|limits| limits.sessions = 200));
}

#[test]
#[ignore = "long: 10,000 sessions"]
fn a_client_that_only_opens_ten_thousand_sessions_keeps_nobody_out() {
    only_opens_sessions(HttpLimits::default());
}

fn only_opens_sessions(set: HttpLimits) {
    threads().block_on(async {
        let count = set.sessions;
        let server = LoadServer::start(echo(), set).await;
        let mut user = Wire::connect(server.addr).await;
        let used = user.initialize().await;
        let mut taker = Wire::connect(server.addr).await;
        let start = Instant::now();
        let mut silent = Vec::new();
        for _ in 1..count {
            silent.push(open_silently(&mut taker).await.expect("there is room"));
        }
        let filled = start.elapsed();
        // There is no room now. Each new session ends the oldest one of those that have sent nothing.
        for _ in 0..count / 10 {
            silent.push(open_silently(&mut taker).await.expect("room was made"));
        }
        report(&format!("{count} sessions in {filled:?}, {} more in {:?}", count / 10, start.elapsed() - filled));
        let mut other = connect_from(2, server.addr).await;
        let others = other.initialize().await;
        assert_eq!(ping(&mut other, &others).await, 200);
        assert_eq!(ping(&mut user, &used).await, 200, "it has been used, so it stays");
        let ended = count / 10 + 1;
        assert_eq!(ping(&mut taker, &silent[ended - 1]).await, 404, "the oldest have ended");
        assert_eq!(ping(&mut taker, &silent[ended]).await, 200, "the others have not");
        server.end().await;
    });
}

#[test]
fn a_client_that_uses_all_sessions_keeps_nobody_else_out() {
    threads().block_on(async {
        let set = limits(|limits| {
            (limits.sessions, limits.session_share, limits.keep_alive) = (20, 5, Duration::from_millis(50));
        });
        let server = LoadServer::start(waiting(), set).await;
        // One has an open stream, one a call that its client has left, and the others have been used.
        let mut taker = connect_from(1, server.addr).await;
        let (streaming, calling) = (taker.initialize().await, taker.initialize().await);
        let mut stream = connect_from(1, server.addr).await;
        assert_eq!(status(&mut stream, &requests::get(&streaming, None)).await, 200);
        let mut leaving = connect_from(1, server.addr).await;
        let call = requests::session_call(&calling, 1, "wait", r#"{"text":""}"#);
        assert_eq!(status(&mut leaving, &call).await, 200);
        drop(leaving);
        let mut idle = Vec::new();
        for _ in 2..20 {
            idle.push(taker.initialize().await);
        }
        // The first of them is used again, so it is not the one that was unused for the longest time.
        assert_eq!(ping(&mut taker, &idle[0]).await, 200);
        assert_eq!(open_silently(&mut taker).await, Err(503), "it has more than its share");
        let mut other = connect_from(2, server.addr).await;
        let mut others = Vec::new();
        for number in 0..5 {
            // A handshake that fails ends no session.
            let bad = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":7}}"#;
            assert_eq!(other.ask(&requests::post("", bad)).await.0.header("Mcp-Session-Id"), None);
            others.push(other.initialize().await);
            assert_eq!(ping(&mut other, &idle[number + 1]).await, 404, "it was unused for the longest time");
        }
        assert_eq!(open_silently(&mut other).await, Err(503), "it has its share");
        let mut third = connect_from(3, server.addr).await;
        let thirds = third.initialize().await;
        for session in others.iter().chain(&idle[7..]).chain([&idle[0], &thirds, &streaming, &calling]) {
            assert_eq!(ping(&mut third, session).await, 200);
        }
        drop(stream);
        server.end().await;
    });
}

#[test]
fn the_calls_that_one_session_abandons_are_its_own_problem() {
    threads().block_on(async {
        let set = limits(|limits| {
            (limits.exchanges_per_session, limits.keep_alive) = (3, Duration::from_millis(50));
        });
        let server = LoadServer::start(waiting(), set).await;
        let mut wire = Wire::connect(server.addr).await;
        let (full, free) = (wire.initialize().await, wire.initialize().await);
        let wait = |session: &str, id| requests::session_call(session, id, "wait", r#"{"text":""}"#);
        let on_its_own = async |request: Vec<u8>| status(&mut Wire::connect(server.addr).await, &request).await;
        for id in 1..=3 {
            assert_eq!(on_its_own(wait(&full, id)).await, 200);
        }
        let (head, body) = wire.ask(&wait(&full, 4)).await;
        let body = String::from_utf8_lossy(&body);
        assert_eq!((head.status, head.header("Retry-After")), (503, Some("1")));
        assert!(body.contains("This session has no room"), "{body}");
        assert_eq!(on_its_own(requests::get(&full, None)).await, 503, "a stream counts too");
        assert_eq!(on_its_own(wait(&free, 1)).await, 200);
        assert_eq!(ping(&mut wire, &full).await, 200);
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(on_its_own(requests::in_session(&full, cancel)).await, 202);
        // The cancelled call leaves its place.
        eventually_taken(server.addr, &wait(&full, 5)).await;
        server.end().await;
    });
}

#[test]
fn the_requests_of_one_address_leave_room_for_others() {
    threads().block_on(async {
        let set = limits(|limits| {
            (limits.exchanges_per_sender, limits.keep_alive) = (4, Duration::from_millis(50));
        });
        let server = LoadServer::start(waiting(), set).await;
        let mut legacy = connect_from(1, server.addr).await;
        let session = legacy.initialize().await;
        let legacy_call = requests::session_call(&session, 1, "wait", r#"{"text":""}"#);
        assert_eq!(status(&mut legacy, &legacy_call).await, 200);
        let mut wires = Vec::new();
        for id in 1..=3 {
            let mut wire = connect_from(1, server.addr).await;
            let request = if id == 1 { requests::listen(id) } else { requests::call(id, "wait", r#"{"text":""}"#) };
            assert_eq!(status(&mut wire, &request).await, 200);
            wires.push(wire);
        }
        let mut more = connect_from(1, server.addr).await;
        let (head, body) = more.ask(&requests::call(9, "echo", r#"{"text":""}"#)).await;
        let body = String::from_utf8_lossy(&body);
        assert_eq!(head.status, 503, "{body}");
        assert!(body.contains("of this client"), "{body}");
        assert_eq!(open_silently(&mut more).await, Err(503));
        let mut other = connect_from(2, server.addr).await;
        assert_eq!(other.ask(&requests::call(1, "echo", r#"{"text":""}"#)).await.0.status, 200);
        // What frees room needs none.
        assert_eq!(ping(&mut more, &session).await, 200);
        assert_eq!(more.ask(&requests::delete(&session)).await.0.status, 200);
        eventually_served(&mut more).await;
        drop(wires);
        server.end().await;
    });
}

#[test]
fn the_requests_of_one_principal_leave_room_for_others() {
    threads().block_on(async {
        let tokens = BearerTokens::new().token("a", Principal::new("ada")).token("b", Principal::new("bob"));
        let set = limits(|limits| {
            (limits.exchanges_per_sender, limits.keep_alive) = (2, Duration::from_millis(50));
            (limits.sessions, limits.session_share) = (4, 1);
        });
        let server = waiting();
        let http = server.http().limits(set).authenticate(tokens);
        let server = LoadServer::start_with(server.handle(), http).await;
        let with_token = |token: &str, request: Vec<u8>| {
            let text = String::from_utf8(request).expect("UTF-8");
            text.replacen("\r\n", &format!("\r\nAuthorization: Bearer {token}\r\n"), 1).into_bytes()
        };
        let mut wire = Wire::connect(server.addr).await;
        // Both principals use the same address and the same connections.
        let mut sessions = Vec::new();
        for _ in 0..4 {
            let (head, _) = wire.ask(&with_token("a", requests::initialize())).await;
            let session = head.header("Mcp-Session-Id").expect("a session").to_owned();
            assert_eq!(wire.ask(&with_token("a", requests::initialized(&session))).await.0.status, 202);
            sessions.push(session);
        }
        assert_eq!(wire.ask(&with_token("a", requests::initialize())).await.0.status, 503);
        assert_eq!(wire.ask(&with_token("b", requests::initialize())).await.0.status, 200);
        let call = |session: &str, id| requests::session_call(session, id, "wait", r#"{"text":""}"#);
        for id in 0..2 {
            let mut leaving = Wire::connect(server.addr).await;
            assert_eq!(status(&mut leaving, &with_token("a", call(&sessions[1 + id], 1))).await, 200);
        }
        let echo = || requests::call(1, "echo", r#"{"text":""}"#);
        assert_eq!(wire.ask(&with_token("a", echo())).await.0.status, 503);
        assert_eq!(wire.ask(&with_token("b", echo())).await.0.status, 200);
        server.end().await;
    });
}

/// Waits until there is room for a request that stays: its status is 200.
async fn eventually_taken(addr: SocketAddr, request: &[u8]) {
    let start = Instant::now();
    while status(&mut Wire::connect(addr).await, request).await != 200 {
        assert!(start.elapsed() < DEADLINE, "there is still no room");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a call is served.
async fn eventually_served(wire: &mut Wire) {
    let start = Instant::now();
    while wire.ask(&requests::call(1, "echo", r#"{"text":""}"#)).await.0.status != 200 {
        assert!(start.elapsed() < DEADLINE, "there is still no room");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
