//! What transcripts cannot show of the engine: time, cancelling from our side, limits, order, closing. Over memory, with time
//! paused wherever time matters.

use std::future::{Future, pending};
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::Duration;

use barewire::Failure;
use barewire::peer::{
    CallError, Connection, Context, Handler, Limits, Methods, Next, Peer, Raw, Reason, Trace,
};
use barewire::proto::rpc::Params;
use barewire::proto::session::Conventions;
use barewire::transport::{Memory, memory};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A peer whose other side is written by hand.
fn by_hand(methods: Methods) -> (Peer, Memory) {
    let (here, there) = memory(1 << 20);
    (Connection::new(here).methods(methods).log_to(io::sink()).spawn(), there)
}

/// A connection of two peers.
fn pair(here: Methods, there: Methods) -> (Peer, Peer) {
    let (a, b) = memory(4096);
    let quiet = |end, methods| Connection::new(end).methods(methods).log_to(io::sink()).spawn();
    (quiet(a, here), quiet(b, there))
}

async fn line(raw: &mut Memory) -> Value {
    let line = timeout(seconds(100), raw.recv_line()).await.expect("a line in time");
    serde_json::from_str(&line.expect("memory").expect("not the end")).expect("JSON")
}

async fn say(raw: &mut Memory, message: Value) {
    raw.send_line(&message.to_string()).await.expect("memory");
}

/// What a connection logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }
}

// ── Our calls ──────────────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_cancelled_and_its_late_answer_dropped() {
    let (peer, mut raw) = by_hand(Methods::new());
    let began = Instant::now();
    let call = tokio::spawn(peer.call::<Raw>("slow", ()).timeout(seconds(5)).into_future());
    assert_eq!(line(&mut raw).await, json!({"jsonrpc":"2.0","id":1,"method":"slow"}));
    assert!(matches!(call.await.expect("no panic"), Err(CallError::TimedOut)));
    assert_eq!(began.elapsed(), seconds(5));
    assert_eq!(line(&mut raw).await, json!({"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}));
    say(&mut raw, json!({"jsonrpc":"2.0","id":1,"result":1})).await;
    // The connection goes on.
    let call = tokio::spawn(peer.call::<i64>("quick", [1]).into_future());
    assert_eq!(line(&mut raw).await["id"], 2);
    say(&mut raw, json!({"jsonrpc":"2.0","id":2,"result":7})).await;
    assert_eq!(call.await.expect("no panic").expect("answered"), 7);
}

#[tokio::test(start_paused = true)]
async fn progress_begins_the_time_anew_up_to_a_hard_maximum() {
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
    let asked = line(&mut raw).await;
    assert_eq!(asked["params"], json!({"_meta": {"progressToken": 1, "x": 1}}));
    for n in 1..=3 {
        sleep(seconds(4)).await;
        let params = json!({"progressToken": 1, "progress": n});
        say(&mut raw, json!({"jsonrpc":"2.0","method":"notifications/progress","params":params})).await;
    }
    assert!(matches!(call.await.expect("no panic"), Err(CallError::TimedOut)));
    assert_eq!(began.elapsed(), seconds(12));
    assert!(seen.lock().expect("no panic").len() >= 2);
    let cancelled = line(&mut raw).await;
    assert_eq!(
        cancelled,
        json!({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})
    );
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_tells_the_other_side() {
    let (peer, mut raw) = by_hand(Methods::new());
    {
        let mut call = peer.call::<Raw>("slow", ()).into_future();
        assert!(timeout(seconds(1), &mut call).await.is_err());
        assert_eq!(line(&mut raw).await["method"], "slow");
    }
    assert_eq!(line(&mut raw).await, json!({"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}));
    // What was never awaited was never asked.
    drop(peer.call::<Raw>("never", ()));
    drop(peer.call::<Raw>("never", ()).into_future());
    peer.notify("done", ()).await.expect("open");
    assert_eq!(line(&mut raw).await["method"], "done");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_in_any_order_and_may_have_entries_missing() {
    let (peer, mut raw) = by_hand(Methods::new());
    let mut batch = peer.batch();
    let one = batch.call::<i64>("one", [1]).expect("params");
    batch.notify("told", ()).expect("params");
    let two = batch.call::<i64>("two", ()).expect("params");
    let three = batch.call::<i64>("three", ()).expect("params");
    drop(batch.call::<i64>("nobody wants this", ()).expect("params"));
    batch.send().await.expect("open");
    let sent = line(&mut raw).await;
    let shown: Vec<_> = sent.as_array().expect("an array").iter().map(|it| it["method"].clone()).collect();
    assert_eq!(shown, ["one", "told", "two", "three"]);
    assert_eq!(sent[0]["params"], json!([1]));
    let error = json!({"code": 3, "message": "no"});
    say(
        &mut raw,
        json!([{"jsonrpc":"2.0","id":sent[3]["id"],"result":3}, {"jsonrpc":"2.0","id":sent[0]["id"],"error":error}]),
    )
    .await;
    assert_eq!(three.await.expect("a result"), 3);
    assert!(matches!(one.await, Err(CallError::Refused(error)) if error.code.get() == 3));
    assert!(matches!(two.await, Err(CallError::Missing)));
    // One that the other side would refuse as a whole is not sent.
    let mut batch = peer.batch();
    (0..1001).for_each(|_| batch.notify("n", ()).expect("params"));
    assert!(batch.send().await.expect_err("too long").to_string().contains("at most 1000"));
    // An empty batch is not sent, and one that is dropped says so.
    peer.batch().send().await.expect("nothing to do");
    let mut batch = peer.batch();
    let lost = batch.call::<i64>("one", ()).expect("params");
    drop(batch);
    assert!(lost.await.expect_err("not sent").to_string().contains("never sent"));
}

#[tokio::test(start_paused = true)]
async fn results_and_params_are_typed_or_raw_and_what_does_not_fit_says_so() {
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
async fn an_answer_that_is_no_response_is_the_other_sides_fault() {
    let (peer, mut raw) = by_hand(Methods::new());
    let call = tokio::spawn(peer.call::<Raw>("m", ()).into_future());
    line(&mut raw).await;
    say(&mut raw, json!({"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"both"}})).await;
    let error = call.await.expect("no panic").expect_err("no response");
    assert!(matches!(&error, CallError::Fault(what) if what.contains("result")), "{error}");
}

// ── Handlers ───────────────────────────────────────────────────────────────────────────────────────────────────────

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
    let (_peer, mut raw) = by_hand(methods);
    for (id, (name, time)) in [("a", 9), ("b", 5), ("c", 7)].into_iter().enumerate() {
        say(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"work","params":[name, time]})).await;
        say(&mut raw, json!({"jsonrpc":"2.0","method":"note","params":[name, time]})).await;
    }
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(line(&mut raw).await["result"].clone());
    }
    assert_eq!(answers, ["b", "c", "a"], "answers leave in completion order");
    sleep(seconds(100)).await;
    assert_eq!(
        *log.lock().expect("no panic"),
        ["start a", "begin a", "start b", "start c", "end a", "begin b", "end b", "begin c", "end c"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_handler_is_told_and_dropped_and_answers_nothing_in_mcp() {
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
    say(&mut raw, json!({"jsonrpc":"2.0","id":"x","method":"forever"})).await;
    sleep(seconds(1)).await;
    let cancellation = kept.lock().expect("no panic").clone().expect("it has started");
    assert!(!cancellation.is_cancelled());
    let params = json!({"requestId": "x"});
    say(&mut raw, json!({"jsonrpc":"2.0","method":"notifications/cancelled","params":params})).await;
    timeout(seconds(1), cancellation.cancelled()).await.expect("it is told");
    sleep(seconds(1)).await;
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    say(&mut raw, json!({"jsonrpc":"2.0","id":"y","method":"nobody"})).await;
    assert_eq!(line(&mut raw).await["id"], "y", "nothing was said about x");
}

#[tokio::test]
async fn a_handler_that_blocks_on_a_thread_of_its_own_holds_up_nobody() {
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    async fn blocked(
        _: Context,
        wait: Arc<Mutex<std::sync::mpsc::Receiver<()>>>,
    ) -> Result<&'static str, Failure> {
        wait.lock().expect("no panic").recv()?;
        Ok("woken")
    }
    let block = move |context: Context, (): ()| blocked(context, Arc::clone(&wait));
    let methods = Methods::new()
        .on("block", block.blocking())
        .on(
            "panic",
            (|_: Context, (): ()| async { if true { panic!("on purpose") } else { Ok(()) } }).blocking(),
        )
        .on("quick", |_: Context, (): ()| async move { Ok("quick") });
    let (peer, _other) = pair(Methods::new(), methods);
    let blocked = tokio::spawn(peer.call::<String>("block", ()).into_future());
    assert_eq!(peer.call::<String>("quick", ()).await.expect("answered"), "quick");
    release.send(()).expect("it waits");
    assert_eq!(blocked.await.expect("no panic").expect("answered"), "woken");
    let panic = peer.call::<Raw>("panic", ()).await;
    assert!(matches!(panic, Err(CallError::Refused(error)) if error.code.get() == -32603));
}

/// What has begun on a thread cannot be stopped there, but it must not pile up either.
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
    let (_peer, mut raw) = by_hand(Methods::new().on("block", block.blocking()));
    for id in 0..3000 {
        say(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"block","params":[1]})).await;
        say(&mut raw, json!({"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":id}})).await;
        assert_eq!(line(&mut raw).await["error"]["code"], -32800);
    }
    let held = HELD.load(Ordering::SeqCst);
    drop(release);
    assert!(held <= 1000, "{held} are held, and none is in flight");
}

#[tokio::test]
async fn a_handler_that_had_to_wait_is_not_blamed_for_it() {
    let (here, mut raw) = memory(4096);
    let log = Log::default();
    let methods = Methods::new()
        .on("slow", |_: Context, (): ()| async {
            sleep(Duration::from_millis(50)).await;
            Ok(())
        })
        .on("quick", |context: Context, (): ()| async move { Ok(context.notify("done", ()).await?) });
    let _peer = Connection::new(here).methods(methods).log_to(log.clone()).spawn();
    say(&mut raw, json!({"jsonrpc":"2.0","method":"slow"})).await;
    say(&mut raw, json!({"jsonrpc":"2.0","method":"quick"})).await;
    assert_eq!(line(&mut raw).await["method"], "done");
    assert_eq!(log.text(), "");
}

#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_in_a_handler_costs_one_answer() {
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
        fn incoming(&self, _: &tracing::Span, method: &str, _: Option<Params<'_>>) {
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
    let _other = Connection::new(there).methods(methods).trace(PanicsWhenTraced).log_to(io::sink()).spawn();
    let peer = Connection::new(here).log_to(io::sink()).spawn();
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
async fn wraps_are_around_every_handler_and_the_last_is_outermost() {
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
        fn incoming(&self, _: &tracing::Span, method: &str, params: Option<Params<'_>>) {
            let params = params.map_or("none", |params| params.json().as_str());
            self.0.lock().expect("no panic").push(format!("{method} {params}"));
        }

        fn outgoing(&self, _: &str, params: Option<String>) -> Option<String> {
            Some(
                params
                    .map_or_else(|| r#"{"trace":"t"}"#.to_owned(), |it| it.replace('}', r#","trace":"t"}"#)),
            )
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
    assert_eq!(
        *seen.0.lock().expect("no panic"),
        [r#"echo {"a":1,"trace":"t"}"#, traced, "echo [1]", traced, traced]
    );
}

// ── Flow ───────────────────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test(start_paused = true)]
async fn more_requests_than_the_limit_wait_unless_we_wait_ourselves() {
    let running = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&running);
    let methods = Methods::new().on("work", move |_: Context, (): ()| {
        let running = Arc::clone(&count);
        async move {
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(now <= 4, "{now} at once");
            sleep(seconds(1)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    });
    let mut limits = Limits::default();
    limits.requests = 4;
    let (here, mut raw) = memory(1 << 20);
    let peer = Connection::new(here).methods(methods).limits(limits).log_to(io::sink()).spawn();
    for id in 0..40 {
        say(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"work"})).await;
    }
    for id in 0..40 {
        assert_eq!(line(&mut raw).await, json!({"jsonrpc":"2.0","id":id,"result":null}));
    }
    // While a call of ours waits its answer may stand behind the requests: they are refused.
    let call = tokio::spawn(peer.call::<bool>("question", ()).into_future());
    assert_eq!(line(&mut raw).await["method"], "question");
    for id in 0..6 {
        say(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"work"})).await;
    }
    say(&mut raw, json!({"jsonrpc":"2.0","id":1,"result":true})).await;
    for id in [4, 5] {
        let busy = line(&mut raw).await;
        assert_eq!((&busy["id"], &busy["error"]["data"]), (&json!(id), &json!({"reason":"busy"})));
    }
    assert!(call.await.expect("no panic").expect("answered"));
    for id in 0..4 {
        assert_eq!(line(&mut raw).await["id"], id);
    }
}

/// A short request that waits keeps all that was answered in its batch.
#[tokio::test(start_paused = true)]
async fn batches_that_wait_hold_no_more_than_requests_may() {
    let (here, mut raw) = memory(1 << 20);
    let (begun, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let (count, wait) = (Arc::clone(&begun), Arc::clone(&gate));
    let slow = move |_: Context, (): ()| {
        let wait = Arc::clone(&wait);
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            wait.acquire().await?.forget();
            Ok(())
        }
    };
    let mut limits = Limits::default();
    limits.request_bytes = 100_000;
    let connection = Connection::new(here).methods(Methods::new().on("slow", slow)).limits(limits);
    let _peer = connection.log_to(io::sink()).spawn();
    let wrong = json!({"jsonrpc": "1.0", "id": "i".repeat(40_000), "method": "m"});
    for id in 0..10 {
        say(&mut raw, json!([{"jsonrpc":"2.0","id":id,"method":"slow"}, wrong])).await;
    }
    sleep(seconds(1)).await;
    assert_eq!(begun.load(Ordering::SeqCst), 2);
    gate.add_permits(10);
    for _ in 0..10 {
        assert_eq!(line(&mut raw).await.as_array().map(Vec::len), Some(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_notification_of_a_batch_that_cannot_wait_is_dropped_and_logged() {
    let (here, mut raw) = memory(1 << 20);
    let log = Log::default();
    let mut limits = Limits::default();
    limits.requests = 1;
    let methods = Methods::new().on("n", |_: Context, (): ()| pending::<Result<(), Failure>>());
    let _peer = Connection::new(here).methods(methods).limits(limits).log_to(log.clone()).spawn();
    let n = json!({"jsonrpc":"2.0","method":"n"});
    say(&mut raw, json!([n, n, n])).await;
    sleep(seconds(1)).await;
    let log = log.text();
    assert_eq!(log.matches("dropped").count(), 1, "{log}");
}

#[tokio::test(start_paused = true)]
async fn limits_of_nothing_let_one_of_each_through() {
    for (output, requests) in [(0, 1024), (1 << 20, 0)] {
        let (here, mut raw) = memory(1 << 20);
        let mut limits = Limits::default();
        (limits.output, limits.requests) = (output, requests);
        let methods = Methods::new().on("r", |_: Context, (): ()| async { Ok(1) }).on(
            "n",
            |_: Context, (): ()| async {
                sleep(seconds(1)).await;
                Ok(())
            },
        );
        let _peer = Connection::new(here).methods(methods).limits(limits).spawn();
        for _ in 0..3 {
            say(&mut raw, json!({"jsonrpc":"2.0","method":"n"})).await;
        }
        say(&mut raw, json!({"jsonrpc":"2.0","id":1,"method":"r"})).await;
        assert_eq!(line(&mut raw).await["result"], 1, "output {output}, requests {requests}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever_when_every_handler_waits_for_the_other_side() {
    // Each answer needs the other side's, thirty deep, in both directions at once, through a pipe of a few bytes.
    fn ping_pong() -> Methods {
        Methods::new().on("down", |context: Context, (depth,): (u32,)| async move {
            match depth {
                0 => Ok(0),
                _ => Ok(1 + context.call::<u32>("down", [depth - 1]).await?),
            }
        })
    }
    let (a, b) = memory(16);
    let a = Connection::new(a).methods(ping_pong()).log_to(io::sink()).spawn();
    let b = Connection::new(b).methods(ping_pong()).log_to(io::sink()).spawn();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        calls.spawn(a.call::<u32>("down", [30]).into_future());
        calls.spawn(b.call::<u32>("down", [30]).into_future());
    }
    let depths = calls.join_all().await;
    assert!(depths.iter().all(|depth| matches!(depth, Ok(30))), "{depths:?}");
}

#[tokio::test(start_paused = true)]
async fn a_recursion_without_end_is_ended_by_a_refusal() {
    let down = |context: Context, (): ()| async move { Ok(1 + context.call::<u64>("down", ()).await?) };
    let (a, b) = pair(Methods::new().on("down", down), Methods::new().on("down", down));
    let error = a.call::<u64>("down", ()).await.expect_err("it has no end");
    assert!(matches!(error, CallError::Refused(_)), "{error}");
    assert_eq!(
        b.call::<Raw>("nobody", ()).await.expect_err("no such").to_string(),
        r#"Method not found (-32601): {"method":"nobody"}"#
    );
}

#[tokio::test(start_paused = true)]
async fn two_peers_that_flood_each_other_both_get_through() {
    let seen = Arc::new(AtomicUsize::new(0));
    let methods = || {
        let seen = Arc::clone(&seen);
        Methods::new()
            .on("work", |_: Context, (n, _): (usize, String)| async move {
                if n % 3 == 0 {
                    tokio::task::yield_now().await;
                }
                Ok((n, "y".repeat(5000)))
            })
            .on("told", move |_: Context, _: Raw| {
                seen.fetch_add(1, Ordering::SeqCst);
                async { Ok(()) }
            })
    };
    let (a, b) = memory(64);
    let mut limits = Limits::default();
    limits.output = 64 * 1024;
    let connect =
        |end| Connection::new(end).methods(methods()).limits(limits.clone()).log_to(io::sink()).spawn();
    let (a, b) = (connect(a), connect(b));
    let mut all = tokio::task::JoinSet::new();
    for peer in [&a, &b] {
        for n in 0..300 {
            let peer = peer.clone();
            all.spawn(async move {
                peer.notify("told", ["x".repeat(2000)]).await.expect("open");
                match peer.call::<(usize, String)>("work", (n, "z".repeat(1000))).await {
                    Ok((same, _)) => assert_eq!(same, n),
                    // Refused is an answer too.
                    Err(CallError::Refused(error)) => assert_eq!(error.code.get(), -32603),
                    Err(error) => panic!("{error}"),
                }
            });
        }
    }
    while let Some(done) = all.join_next().await {
        done.expect("no panic");
    }
    assert_eq!(seen.load(Ordering::SeqCst), 600);
}

#[tokio::test(start_paused = true)]
async fn two_peers_that_have_both_given_up_large_calls_go_on() {
    let started = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&started);
    let large = move |_: Context, (): ()| {
        tell.notify_waiters();
        async { Ok("x".repeat(1 << 20)) }
    };
    let methods = Methods::new().on("large", large);
    let (a, b) = pair(methods.clone(), methods);
    let mut calls = tokio::task::JoinSet::new();
    for peer in [&a, &b] {
        for _ in 0..4 {
            let (call, started) = (peer.call::<Raw>("large", ()).into_future(), Arc::clone(&started));
            // As soon as the first answer is made, nobody wants any.
            calls.spawn(async move {
                let began = started.notified();
                tokio::select! { _ = call => {} () = began => {} }
            });
        }
    }
    calls.join_all().await;
    sleep(seconds(100)).await;
    assert!(!a.is_closed(), "{}", a.closed().await);
    assert_eq!(b.call::<String>("large", ()).await.expect("answered").len(), 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn a_side_that_never_reads_ends_with_the_write_timeout() {
    let methods = Methods::new().on("echo", |_: Context, params: Raw| async move { Ok(params) });
    let (here, mut raw) = memory(1024);
    let mut limits = Limits::default();
    limits.write_timeout = Some(seconds(7));
    limits.output = 4096;
    let began = Instant::now();
    let running = tokio::spawn(Connection::new(here).methods(methods).limits(limits).run());
    let flood = async {
        let request = json!({"jsonrpc":"2.0","id":1,"method":"echo","params":["x".repeat(500)]}).to_string();
        loop {
            if raw.send_line(&request).await.is_err() {
                break;
            }
        }
    };
    let (ended, ()) = tokio::join!(running, flood);
    let closed = ended.expect("no panic").expect_err("it is no clean end");
    assert!(matches!(closed.reason(), Reason::WriteTimeout(_)), "{closed}");
    assert_eq!(began.elapsed(), seconds(7));
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_happens_ends_if_it_is_told_to() {
    let methods = Methods::new().on("work", |_: Context, (): ()| async {
        sleep(seconds(60)).await;
        Ok("x".repeat(5000))
    });
    let (here, mut raw) = memory(1024);
    let mut limits = Limits::default();
    limits.idle_timeout = Some(seconds(5));
    let running = tokio::spawn(Connection::new(here).methods(methods).limits(limits).run());
    let began = Instant::now();
    say(&mut raw, json!({"jsonrpc":"2.0","id":1,"method":"work"})).await;
    line(&mut raw).await;
    assert_eq!(began.elapsed(), seconds(60), "it is not idle while something is in flight");
    let closed = running.await.expect("no panic").expect_err("no clean end");
    assert_eq!(began.elapsed(), seconds(65), "the answer was not the end");
    assert!(matches!(closed.reason(), Reason::IdleTimeout(_)), "{closed}");
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_together_is_written_together() {
    /// Counts the writes.
    struct Writes(tokio::io::DuplexStream, Arc<AtomicUsize>);
    impl tokio::io::AsyncWrite for Writes {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<io::Result<usize>> {
            self.1.fetch_add(1, Ordering::SeqCst);
            std::pin::Pin::new(&mut self.0).poll_write(context, bytes)
        }
        fn poll_flush(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::pin::Pin::new(&mut self.0).poll_flush(context)
        }
        fn poll_shutdown(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::pin::Pin::new(&mut self.0).poll_shutdown(context)
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let (mut there, reader) = tokio::io::duplex(1 << 16);
    let (writer, back) = tokio::io::duplex(1 << 16);
    let methods = Methods::new().on("echo", |_: Context, params: Raw| async move { Ok(params) });
    let transport = (reader, Writes(writer, Arc::clone(&count)));
    let running = tokio::spawn(Connection::new(transport).methods(methods).run());
    let burst: String =
        (0..30).map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"echo\"}}\n")).collect();
    tokio::io::AsyncWriteExt::write_all(&mut there, burst.as_bytes()).await.expect("memory");
    sleep(seconds(1)).await;
    assert_eq!(count.load(Ordering::SeqCst), 1);
    drop(there);
    running.await.expect("no panic").expect("a clean end");
    drop(back);
}

// ── The end ────────────────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test(start_paused = true)]
async fn at_the_end_of_the_stream_what_is_in_flight_has_a_grace() {
    let methods = Methods::new().on("work", |_: Context, (time,): (u64,)| async move {
        sleep(seconds(time)).await;
        Ok(time)
    });
    let (here, mut raw) = memory(4096);
    let began = Instant::now();
    let running = tokio::spawn(Connection::new(here).methods(methods).log_to(io::sink()).run());
    for time in [1, 60] {
        say(&mut raw, json!({"jsonrpc":"2.0","id":time,"method":"work","params":[time]})).await;
    }
    raw.close_write();
    assert_eq!(line(&mut raw).await, json!({"jsonrpc":"2.0","id":1,"result":1}));
    let closing = line(&mut raw).await;
    assert_eq!((&closing["id"], &closing["error"]["data"]), (&json!(60), &json!({"reason":"closing"})));
    assert_eq!(raw.recv_line().await.expect("memory"), None);
    running.await.expect("no panic").expect("a clean end");
    assert_eq!(began.elapsed(), seconds(2));
}

#[tokio::test(start_paused = true)]
async fn every_pending_call_ends_with_an_error_that_says_why() {
    let (peer, raw) = by_hand(Methods::new());
    let calls: Vec<_> =
        (0..5).map(|_| tokio::spawn(peer.call::<Raw>("m", ()).no_timeout().into_future())).collect();
    tokio::task::yield_now().await;
    drop(raw);
    for call in calls {
        let error = call.await.expect("no panic").expect_err("nobody answers");
        assert!(matches!(&error, CallError::Closed(_)), "{error}");
    }
    let closed = peer.closed().await;
    assert!(matches!(closed.reason(), Reason::Eof | Reason::Write(_)), "{closed}");
    let late = peer.call::<Raw>("m", ()).await.expect_err("it is over");
    assert_eq!(late.to_string(), closed.to_string());
    assert!(peer.notify("m", ()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_what_is_in_flight_both_ways_and_begins_nothing_new() {
    let methods = Methods::new().on("work", |_: Context, (): ()| async {
        sleep(seconds(1)).await;
        Ok("done")
    });
    let (peer, mut raw) = by_hand(methods);
    let call = tokio::spawn(peer.call::<i64>("question", ()).into_future());
    assert_eq!(line(&mut raw).await["method"], "question");
    say(&mut raw, json!({"jsonrpc":"2.0","id":"a","method":"work"})).await;
    sleep(Duration::from_millis(100)).await;
    let shutdown = tokio::spawn({
        let peer = peer.clone();
        async move { peer.shutdown().await }
    });
    sleep(Duration::from_millis(100)).await;
    assert!(matches!(peer.call::<Raw>("new", ()).await, Err(CallError::Closed(_))));
    say(&mut raw, json!({"jsonrpc":"2.0","id":"b","method":"work"})).await;
    assert_eq!(line(&mut raw).await["error"]["data"], json!({"reason": "closing"}));
    say(&mut raw, json!({"jsonrpc":"2.0","id":1,"result":5})).await;
    assert_eq!(call.await.expect("no panic").expect("in time"), 5);
    assert_eq!(line(&mut raw).await["result"], "done");
    assert_eq!(raw.recv_line().await.expect("memory"), None);
    assert!(matches!(shutdown.await.expect("no panic").reason(), Reason::Shutdown));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_not_answered_ends_with_the_grace() {
    let (peer, mut raw) = by_hand(Methods::new());
    let call = tokio::spawn(peer.call::<i64>("question", ()).no_timeout().into_future());
    line(&mut raw).await;
    let began = Instant::now();
    peer.shutdown().await;
    assert_eq!(began.elapsed(), seconds(2));
    assert_eq!(call.await.expect("no panic").expect_err("over").to_string(), "the connection was shut down");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_peer_shuts_down_and_dropping_the_driver_fails_the_calls() {
    let (peer, mut raw) = by_hand(Methods::new());
    drop(peer.clone());
    peer.notify("still here", ()).await.expect("open");
    line(&mut raw).await;
    drop(peer);
    assert_eq!(raw.recv_line().await.expect("memory"), None);

    let (here, mut raw) = memory(4096);
    let (peer, running) = Connection::new(here).open();
    let running = tokio::spawn(running);
    let call = tokio::spawn(peer.call::<Raw>("m", ()).into_future());
    line(&mut raw).await;
    running.abort();
    let error = call.await.expect("no panic").expect_err("nobody drives it");
    assert!(
        matches!(&error, CallError::Closed(closed) if matches!(closed.reason(), Reason::Abandoned)),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gets_no_answer_is_told_what_came_instead() {
    let (peer, mut raw) = by_hand(Methods::new());
    let call = tokio::spawn(peer.call::<Raw>("ping", ()).into_future());
    line(&mut raw).await;
    raw.send_line("HTTP/1.1 400 Bad Request").await.expect("memory");
    raw.close_write();
    let error = call.await.expect("no panic").expect_err("it was not answered");
    let told = "the other side closed the connection; it sent something that is no message, at byte 0: \
                HTTP/1.1 400 Bad Request";
    assert_eq!(error.to_string(), told);
}

#[tokio::test(start_paused = true)]
async fn refused_frames_are_logged_once_and_banners_are_not_answered_by_who_opened_the_connection() {
    let log = Log::default();
    let (here, mut raw) = memory(4096);
    let peer = Connection::new(here).answer_unreadable(false).log_to(log.clone()).spawn();
    raw.send_line("\u{1b}[31mServer listening").await.expect("memory");
    say(&mut raw, json!({"jsonrpc":"2.0","id":7,"method":7})).await;
    assert_eq!(line(&mut raw).await["id"], 7, "the banner is not answered, the request is");
    raw.close_write();
    let closed = peer.closed().await;
    let noise = closed.noise().expect("it sent no message at all");
    assert_eq!((noise.offset, noise.begins.as_str()), (0, r"\x1b[31mServer listening"));
    let log = log.text();
    assert_eq!(log.lines().count(), 2, "{log}");
}

#[tokio::test(start_paused = true)]
async fn what_no_clock_can_hold_is_for_ever() {
    let (here, mut raw) = memory(1 << 10);
    let mut limits = Limits::default();
    (limits.write_timeout, limits.idle_timeout) = (Some(Duration::MAX), Some(Duration::MAX));
    let slow = |_: Context, (): ()| async {
        sleep(seconds(100)).await;
        Ok("x".repeat(5000))
    };
    let connection = Connection::new(here).methods(Methods::new().on("slow", slow)).limits(limits);
    let (peer, running) = connection.grace(Duration::MAX).open();
    let running = tokio::spawn(running);
    let call = tokio::spawn(peer.call::<i64>("ask", ()).timeout(Duration::MAX).into_future());
    assert_eq!(line(&mut raw).await["id"], 1);
    sleep(seconds(1)).await;
    say(&mut raw, json!({"jsonrpc":"2.0","id":1,"result":7})).await;
    assert_eq!(call.await.expect("no panic").expect("answered"), 7);
    say(&mut raw, json!({"jsonrpc":"2.0","id":1,"method":"slow"})).await;
    raw.close_write();
    sleep(seconds(1000)).await;
    assert_eq!(line(&mut raw).await["id"], 1);
    running.await.expect("no panic").expect("a clean end");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_is_seen_behind_what_cannot_be_taken_yet() {
    for behind in [1, 500] {
        let methods = Methods::new().on("forever", |_: Context, (): ()| pending::<Result<(), Failure>>());
        let mut limits = Limits::default();
        limits.requests = 1;
        let (here, mut raw) = memory(1 << 20);
        let connection = Connection::new(here).methods(methods).limits(limits).log_to(io::sink());
        let running = tokio::spawn(connection.run());
        for id in 0..=behind {
            say(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"forever"})).await;
        }
        raw.close_write();
        let began = Instant::now();
        timeout(seconds(1000), running).await.expect("an end").expect("no panic").expect("a clean one");
        assert_eq!(began.elapsed(), seconds(2));
        for id in 0..=1 {
            let closing = line(&mut raw).await;
            assert_eq!(
                (&closing["id"], &closing["error"]["data"]),
                (&json!(id), &json!({"reason":"closing"}))
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_stood_behind_is_handled_when_there_is_room_also_after_the_end_of_the_stream() {
    let methods = Methods::new().on("work", |_: Context, (): ()| async {
        sleep(Duration::from_millis(10)).await;
        Ok(())
    });
    let mut limits = Limits::default();
    limits.requests = 2;
    let (here, mut raw) = memory(1 << 20);
    let running =
        tokio::spawn(Connection::new(here).methods(methods).limits(limits).log_to(io::sink()).run());
    for id in 0..50 {
        say(&mut raw, json!({"jsonrpc":"2.0","id":id,"method":"work"})).await;
    }
    // The last line needs no newline.
    raw.send(br#"{"jsonrpc":"2.0","id":50,"method":"work"}"#).await.expect("memory");
    raw.close_write();
    running.await.expect("no panic").expect("a clean end");
    for id in 0..=50 {
        assert_eq!(line(&mut raw).await, json!({"jsonrpc":"2.0","id":id,"result":null}));
    }
}
