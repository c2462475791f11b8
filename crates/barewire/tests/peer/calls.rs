//! Outgoing calls: sent, timed out, cancelled, batched.

use std::sync::{Arc, Mutex};

use super::{pair, peer_with_raw_end, receive, seconds, send};
use barewire::peer::Conventions;
use barewire::peer::{CallError, Connection, Context, Methods, Raw};
use barewire::transport::memory;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_cancelled_and_its_late_answer_dropped() {
    let (peer, mut raw) = peer_with_raw_end(Methods::new());
    let began = Instant::now();
    let call = tokio::spawn(peer.call::<Raw>("slow", ()).timeout(seconds(5)).into_future());
    assert_eq!(receive(&mut raw).await, json!({"jsonrpc":"2.0","id":1,"method":"slow"}));
    assert!(matches!(call.await.expect("no panic"), Err(CallError::TimedOut)));
    assert_eq!(began.elapsed(), seconds(5));
    assert_eq!(receive(&mut raw).await, json!({"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}));
    send(&mut raw, json!({"jsonrpc":"2.0","id":1,"result":1})).await;
    // The connection goes on.
    let call = tokio::spawn(peer.call::<i64>("quick", [1]).into_future());
    assert_eq!(receive(&mut raw).await["id"], 2);
    send(&mut raw, json!({"jsonrpc":"2.0","id":2,"result":7})).await;
    assert_eq!(call.await.expect("no panic").expect("answered"), 7);
}

#[tokio::test(start_paused = true)]
async fn progress_restarts_the_timeout_up_to_a_maximum() {
    let (a, mut raw) = memory(1 << 20);
    let peer = Connection::new(a).conventions(Conventions::MCP).spawn();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&seen);
    let began = Instant::now();
    let call = peer
        .call::<Raw>("slow", json!({"_meta": {"x": 1}}))
        .timeout(seconds(5))
        .reset_by_progress(seconds(12))
        .on_progress(move |value| tell.lock().expect("no panic").push(value.to_string()));
    let call = tokio::spawn(call.into_future());
    let asked = receive(&mut raw).await;
    assert_eq!(asked["params"], json!({"_meta": {"progressToken": 1, "x": 1}}));
    for n in 1..=3 {
        sleep(seconds(4)).await;
        let params = json!({"progressToken": 1, "progress": n});
        send(&mut raw, json!({"jsonrpc":"2.0","method":"notifications/progress","params":params})).await;
    }
    assert!(matches!(call.await.expect("no panic"), Err(CallError::TimedOut)));
    assert_eq!(began.elapsed(), seconds(12));
    assert!(seen.lock().expect("no panic").len() >= 2);
    let cancelled = receive(&mut raw).await;
    assert_eq!(cancelled, json!({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_sends_a_cancellation() {
    let (peer, mut raw) = peer_with_raw_end(Methods::new());
    {
        let mut call = peer.call::<Raw>("slow", ()).into_future();
        assert!(timeout(seconds(1), &mut call).await.is_err());
        assert_eq!(receive(&mut raw).await["method"], "slow");
    }
    assert_eq!(receive(&mut raw).await, json!({"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}));
    // A call that was never awaited was never sent.
    drop(peer.call::<Raw>("never", ()));
    drop(peer.call::<Raw>("never", ()).into_future());
    peer.notify("done", ()).await.expect("open");
    assert_eq!(receive(&mut raw).await["method"], "done");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_in_any_order_and_may_have_entries_missing() {
    let (peer, mut raw) = peer_with_raw_end(Methods::new());
    let mut batch = peer.batch();
    let one = batch.call::<i64>("one", [1]).expect("params");
    batch.notify("told", ()).expect("params");
    let two = batch.call::<i64>("two", ()).expect("params");
    let three = batch.call::<i64>("three", ()).expect("params");
    drop(batch.call::<i64>("nobody wants this", ()).expect("params"));
    batch.send().await.expect("open");
    let sent = receive(&mut raw).await;
    let shown: Vec<_> = sent.as_array().expect("an array").iter().map(|it| it["method"].clone()).collect();
    assert_eq!(shown, ["one", "told", "two", "three"]);
    assert_eq!(sent[0]["params"], json!([1]));
    let error = json!({"code": 3, "message": "no"});
    send(
        &mut raw,
        json!([{"jsonrpc":"2.0","id":sent[3]["id"],"result":3}, {"jsonrpc":"2.0","id":sent[0]["id"],"error":error}]),
    )
    .await;
    assert_eq!(three.await.expect("a result"), 3);
    assert!(matches!(one.await, Err(CallError::Refused(error)) if error.code.get() == 3));
    assert!(matches!(two.await, Err(CallError::Missing)));
    // A batch that the peer would refuse as a whole is not sent.
    let mut batch = peer.batch();
    (0..1001).for_each(|_| batch.notify("n", ()).expect("params"));
    assert!(batch.send().await.expect_err("too long").to_string().contains("the limit is 1000"));
    // An empty batch is not sent, and the calls of a dropped batch fail.
    peer.batch().send().await.expect("nothing to do");
    let mut batch = peer.batch();
    let lost = batch.call::<i64>("one", ()).expect("params");
    drop(batch);
    assert!(lost.await.expect_err("not sent").to_string().contains("never sent"));
}

#[tokio::test(start_paused = true)]
async fn results_and_params_are_typed_or_raw_and_mismatches_are_errors() {
    let methods = Methods::new().on("echo", |_: Context, params: Raw| async move { Ok(params) });
    let (peer, _other) = pair(Methods::new(), methods);
    let raw: Raw = peer.call("echo", json!({"a": [1, 2.50]})).await.expect("echoed");
    assert_eq!(raw.as_str(), Some(r#"{"a":[1,2.5]}"#));
    let typed: (u8, String) = peer.call("echo", (1, "x")).await.expect("echoed");
    assert_eq!(typed, (1, "x".to_owned()));
    let wrong = peer.call::<(u8,)>("echo", (1, "x")).await;
    assert!(matches!(wrong, Err(CallError::Result(_))), "{wrong:?}");
    let wrong = peer.call::<Raw>("echo", 5).await;
    assert!(wrong.expect_err("no params").to_string().contains("object or an array, not a number"));
    assert!(peer.notify("n", "text").await.is_err());
    let missing = peer.call::<Raw>("nobody", ()).await;
    assert!(matches!(missing, Err(CallError::Refused(error)) if error.code.get() == -32601));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_a_response_is_the_peers_fault() {
    let (peer, mut raw) = peer_with_raw_end(Methods::new());
    let call = tokio::spawn(peer.call::<Raw>("m", ()).into_future());
    receive(&mut raw).await;
    send(&mut raw, json!({"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"both"}})).await;
    let error = call.await.expect("no panic").expect_err("no response");
    assert!(matches!(&error, CallError::Fault(what) if what.contains("result")), "{error}");
}
