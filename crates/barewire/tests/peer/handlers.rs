//! Handlers: their order, cancellation, blocking, panics, wrappers and tracing.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::Duration;

use super::{Log, pair, peer_with_raw_end, receive, seconds, send};
use barewire::Failure;
use barewire::peer::{CallError, Connection, Context, Conventions, MethodHandler, Methods, Next, Raw, Trace};
use barewire::transport::memory;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

#[tokio::test(start_paused = true)]
async fn handlers_start_in_arrival_order_and_notifications_run_one_after_the_other() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (started, noted) = (Arc::clone(&log), Arc::clone(&log));
    let methods = Methods::new()
        .on("work", move |_: Context, (name, time): (String, u64)| {
            let log = Arc::clone(&started);
            log.lock().expect("no panic").push(format!("start {name}"));
            async move {
                sleep(seconds(time)).await;
                Ok(name)
            }
        })
        .on("note", move |_: Context, (name, time): (String, u64)| {
            let log = Arc::clone(&noted);
            async move {
                log.lock().expect("no panic").push(format!("begin {name}"));
                sleep(seconds(time)).await;
                log.lock().expect("no panic").push(format!("end {name}"));
                Ok(())
            }
        });
    let (_peer, mut raw) = peer_with_raw_end(methods);
    for (id, (name, time)) in [("a", 9), ("b", 5), ("c", 7)].into_iter().enumerate() {
        send(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"work","params":[name, time]})).await;
        send(&mut raw, json!({"jsonrpc":"2.0","method":"note","params":[name, time]})).await;
    }
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(receive(&mut raw).await["result"].clone());
    }
    assert_eq!(answers, ["b", "c", "a"], "answers leave in completion order");
    sleep(seconds(100)).await;
    assert_eq!(
        *log.lock().expect("no panic"),
        ["start a", "begin a", "start b", "start c", "end a", "begin b", "end b", "begin c", "end c"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_handler_is_dropped_and_not_answered_in_mcp() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let kept = Arc::new(Mutex::new(None));
    let (counted, keep) = (Arc::clone(&drops), Arc::clone(&kept));
    let methods = Methods::new().on("forever", move |context: Context, (): ()| {
        let guard = Dropped(Arc::clone(&counted));
        *keep.lock().expect("no panic") = Some(context.cancellation());
        async move {
            let _guard = guard;
            pending::<Result<(), Failure>>().await
        }
    });
    let (here, mut raw) = memory(4096);
    let _peer = Connection::new(here).methods(methods).conventions(Conventions::MCP).spawn();
    send(&mut raw, json!({"jsonrpc":"2.0","id":"x","method":"forever"})).await;
    sleep(seconds(1)).await;
    let cancellation = kept.lock().expect("no panic").clone().expect("it has started");
    assert!(!cancellation.is_cancelled());
    let params = json!({"requestId": "x"});
    send(&mut raw, json!({"jsonrpc":"2.0","method":"notifications/cancelled","params":params})).await;
    timeout(seconds(1), cancellation.cancelled()).await.expect("it is cancelled");
    sleep(seconds(1)).await;
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    send(&mut raw, json!({"jsonrpc":"2.0","id":"y","method":"nobody"})).await;
    assert_eq!(receive(&mut raw).await["id"], "y", "x was not answered");
}

#[tokio::test]
async fn a_blocking_handler_on_its_own_thread_delays_no_other() {
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    async fn blocked(_: Context, wait: Arc<Mutex<std::sync::mpsc::Receiver<()>>>) -> Result<&'static str, Failure> {
        wait.lock().expect("no panic").recv()?;
        Ok("woken")
    }
    let block = move |context: Context, (): ()| blocked(context, Arc::clone(&wait));
    let methods = Methods::new()
        .on("block", block.blocking())
        .on("panic", (|_: Context, (): ()| async { if true { panic!("on purpose") } else { Ok(()) } }).blocking())
        .on("quick", |_: Context, (): ()| async move { Ok("quick") });
    let (peer, _other) = pair(Methods::new(), methods);
    let blocked = tokio::spawn(peer.call::<String>("block", ()).into_future());
    assert_eq!(peer.call::<String>("quick", ()).await.expect("answered"), "quick");
    release.send(()).expect("it waits");
    assert_eq!(blocked.await.expect("no panic").expect("answered"), "woken");
    let panic = peer.call::<Raw>("panic", ()).await;
    assert!(matches!(panic, Err(CallError::Refused(error)) if error.code.get() == -32603));
}

/// A handler on a thread cannot be stopped, but such handlers must not pile up.
#[tokio::test]
async fn cancelled_handlers_that_block_do_not_pile_up() {
    static HELD: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl<'de> serde::Deserialize<'de> for Counted {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let _: [i64; 1] = serde::Deserialize::deserialize(from)?;
            HELD.fetch_add(1, Ordering::SeqCst);
            Ok(Self)
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            HELD.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let block = move |_: Context, _params: Counted| {
        let wait = Arc::clone(&wait);
        async move { Ok(wait.lock().expect("no panic").recv().is_ok()) }
    };
    let (_peer, mut raw) = peer_with_raw_end(Methods::new().on("block", block.blocking()));
    for id in 0..3000 {
        send(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"block","params":[1]})).await;
        send(&mut raw, json!({"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":id}})).await;
        assert_eq!(receive(&mut raw).await["error"]["code"], -32800);
    }
    let held = HELD.load(Ordering::SeqCst);
    drop(release);
    assert!(held <= 1000, "{held} are held, and none is in flight");
}

#[tokio::test]
async fn a_handler_that_had_to_wait_is_not_reported_as_slow() {
    let (here, mut raw) = memory(4096);
    let log = Log::default();
    let methods = Methods::new()
        .on("slow", |_: Context, (): ()| async {
            // Longer than a handler may run without a warning, in real time, which is what handlers are timed with.
            sleep(Duration::from_millis(200)).await;
            Ok(())
        })
        .on("quick", |context: Context, (): ()| async move { Ok(context.notify("done", ()).await?) });
    let _peer = Connection::new(here).methods(methods).spawn();
    send(&mut raw, json!({"jsonrpc":"2.0","method":"slow"})).await;
    send(&mut raw, json!({"jsonrpc":"2.0","method":"quick"})).await;
    assert_eq!(receive(&mut raw).await["method"], "done");
    assert_eq!(log.text(), "");
}

#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_in_a_handler_fails_only_its_request() {
    struct PanicsWhenWritten;
    impl serde::Serialize for PanicsWhenWritten {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("while it is written")
        }
    }
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("when it is dropped");
        }
    }
    struct PanicsTwice {
        at_once: bool,
    }
    impl Future for PanicsTwice {
        type Output = Result<(), Failure>;
        fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
            assert!(!self.at_once, "when it is polled");
            self.at_once = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
    impl Drop for PanicsTwice {
        fn drop(&mut self) {
            panic!("when it is dropped");
        }
    }
    struct PanicsWhenTraced;
    impl Trace for PanicsWhenTraced {
        fn incoming(&self, _: &tracing::Span, method: &str, _: Option<&str>) {
            assert_ne!(method, "traced", "when it is traced");
        }
    }
    let methods = Methods::new()
        .on("start", |_: Context, (): ()| {
            if true {
                panic!("before it starts");
            }
            async { Ok(()) }
        })
        .on("write", |_: Context, (): ()| async { Ok(PanicsWhenWritten) })
        .on("write later", |_: Context, (): ()| async {
            tokio::task::yield_now().await;
            Ok(PanicsWhenWritten)
        })
        .on("drop", |_: Context, (): ()| {
            let guard = PanicsWhenDropped;
            let waits = async move {
                let _guard = &guard;
                pending::<()>().await;
            };
            async move {
                drop(waits);
                Ok(())
            }
        })
        .on("payload", |_: Context, (): ()| async {
            if true {
                std::panic::panic_any(PanicsWhenDropped);
            }
            Ok(())
        })
        .on("twice", |_: Context, (): ()| PanicsTwice { at_once: true })
        .on("twice later", |_: Context, (): ()| PanicsTwice { at_once: false })
        .on("traced", |_: Context, (): ()| async { Ok(()) });
    let (here, there) = memory(4096);
    let _other = Connection::new(there).methods(methods).trace(PanicsWhenTraced).spawn();
    let peer = Connection::new(here).spawn();
    std::panic::set_hook(Box::new(|_| {}));
    let methods = ["start", "write", "write later", "drop", "payload", "twice", "twice later", "traced"];
    for method in methods.into_iter().chain(["start"]) {
        let error = peer.call::<Raw>(method, ()).await.expect_err(method);
        let CallError::Refused(error) = error else { panic!("{method}: {error}") };
        assert_eq!(error.code.get(), -32603, "{method}");
        assert_eq!(error.data.expect("data").get(), r#"{"exception":"panic"}"#, "{method}");
    }
    let _ = std::panic::take_hook();
}

#[tokio::test(start_paused = true)]
async fn every_handler_is_wrapped_and_the_last_wrapper_is_outermost() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let wrap = |name: &'static str| {
        let log = Arc::clone(&log);
        move |context: Context, params: Raw, next: Next| {
            let log = Arc::clone(&log);
            async move {
                log.lock().expect("no panic").push(format!("{name} before {}", context.method()));
                if params.as_str() == Some("[\"stop\"]") {
                    return Err(Failure::invalid_params("stopped"));
                }
                let outcome = next.run(context, params).await;
                log.lock().expect("no panic").push(format!("{name} after {outcome:?}"));
                outcome
            }
        }
    };
    let methods = Methods::new()
        .wrap(wrap("inner"))
        .on("echo", |_: Context, (text,): (String,)| async move { Ok(text) })
        .wrap(wrap("outer"));
    let (peer, _other) = pair(Methods::new(), methods);
    assert_eq!(peer.call::<String>("echo", ["hi"]).await.expect("echoed"), "hi");
    assert_eq!(
        std::mem::take(&mut *log.lock().expect("no panic")),
        ["outer before echo", "inner before echo", "inner after Ok(\"hi\")", "outer after Ok(\"hi\")"]
    );
    assert!(peer.call::<String>("echo", ["stop"]).await.is_err());
    assert_eq!(*log.lock().expect("no panic"), ["outer before echo"]);
}

#[tokio::test(start_paused = true)]
async fn trace_context_goes_out_with_a_call_and_comes_in_with_a_request() {
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);
    impl Trace for Seen {
        fn incoming(&self, _: &tracing::Span, method: &str, params: Option<&str>) {
            let params = params.unwrap_or("none");
            self.0.lock().expect("no panic").push(format!("{method} {params}"));
        }

        fn outgoing(&self, _: &str, params: Option<String>) -> Option<String> {
            Some(params.map_or_else(|| r#"{"trace":"t"}"#.to_owned(), |it| it.replace('}', r#","trace":"t"}"#)))
        }
    }
    let seen = Seen::default();
    let (a, b) = memory(4096);
    let peer = Connection::new(a).trace(seen.clone()).spawn();
    let methods = Methods::new().on("echo", |_: Context, params: Raw| async move { Ok(params) });
    let _other = Connection::new(b).methods(methods).trace(seen.clone()).spawn();
    let echoed: Value = peer.call("echo", json!({"a": 1})).await.expect("echoed");
    assert_eq!(echoed, json!({"a": 1, "trace": "t"}));
    let echoed: Value = peer.call("echo", ()).await.expect("echoed");
    assert_eq!(echoed, json!({"trace": "t"}));
    let mut batch = peer.batch();
    batch.notify("echo", [1]).expect("an array");
    batch.notify("echo", ()).expect("nothing");
    let echoed = batch.call::<Value>("echo", ()).expect("nothing");
    batch.send().await.expect("open");
    assert_eq!(echoed.await.expect("echoed"), json!({"trace": "t"}));
    let traced = r#"echo {"trace":"t"}"#;
    assert_eq!(*seen.0.lock().expect("no panic"), [r#"echo {"a":1,"trace":"t"}"#, traced, "echo [1]", traced, traced]);
}

#[tokio::test]
async fn a_handler_that_blocks_its_connection_is_logged() {
    let log = Log::default();
    let block = |_: Context, milliseconds: (u64,)| async move {
        std::thread::sleep(Duration::from_millis(milliseconds.0));
        Ok(())
    };
    let (_peer, mut raw) = peer_with_raw_end(Methods::new().on("block", block));
    send(&mut raw, json!({"jsonrpc": "2.0", "id": 1, "method": "block", "params": [600]})).await;
    assert_eq!(receive(&mut raw).await["id"], 1);
    let text = log.text();
    assert!(text.contains("handler of block blocked its connection for "), "{text}");
}
