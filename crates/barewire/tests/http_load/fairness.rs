//! Clients that take all the room there is: what frees room needs none itself.

use std::time::Duration;

use super::wire::Wire;
use super::{LoadServer, Text, before_deadline, echo, limits, requests, threads};

#[test]
fn notifications_responses_pings_and_deletes_need_no_room() {
    threads().block_on(async {
        let server = echo().tool("wait", "Waits for ever", |Text { text }| async move {
            std::future::pending::<()>().await;
            text
        });
        let set = limits(|limits| (limits.exchanges, limits.keep_alive) = (3, Duration::from_millis(50)));
        let server = LoadServer::start(server, set).await;
        let mut wire = Wire::connect(server.addr).await;
        let session = wire.initialize().await;
        let status = async |request: Vec<u8>| {
            let mut wire = Wire::connect(server.addr).await;
            wire.send(&request).await.expect("sent");
            before_deadline("a response", wire.head()).await.expect("a response").status
        };
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
        // The cancelled call has left its place to another one.
        assert_eq!(status(wait(6)).await, 200);
        assert_eq!(status(wait(7)).await, 503);
        assert_eq!(status(requests::delete(&session)).await, 200);
        server.is_alive().await;
        server.end().await;
    });
}
