//! The peer of the transcripts: methods that finish at once, that wait, that call back, and that fail.

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};

use barewire::Failure;
use barewire::peer::{ConnectionLimits, Context, Methods, Raw};
use barewire::{Code, ErrorObject};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// The limits of the transcripts: small, so that one line can exceed them.
pub(crate) fn limits() -> ConnectionLimits {
    let mut limits = ConnectionLimits::default();
    limits.frame = 2000;
    limits
}

/// The methods of `testdata/serve`, which the tests of the blocking connection have as well.
pub(crate) fn serve() -> Methods {
    Methods::new()
        .on("subtract", |_: Context, params: Raw| async move {
            #[derive(serde::Deserialize)]
            struct Named {
                minuend: i64,
                subtrahend: i64,
            }
            if let Ok(Named { minuend, subtrahend }) = params.to() {
                return Ok(minuend - subtrahend);
            }
            let (a, b): (i64, i64) = params.to()?;
            Ok(a - b)
        })
        .on("sum", |_: Context, numbers: Vec<i64>| async move { Ok(numbers.iter().sum::<i64>()) })
        .on("get_data", |_: Context, (): ()| async move { Ok(json!(["hello", 5])) })
        .on("update", |_: Context, (): ()| async move { Ok(Value::Null) })
        .on("notify_hello", |_: Context, (): ()| async move { Ok(Value::Null) })
        .on("notify_sum", |_: Context, (): ()| async move { Ok(Value::Null) })
        .on("echo", |_: Context, params: Raw| async move { Ok(params) })
        .on("work", |context: Context, (): ()| async move {
            context.notify("notifications/progress", json!({"progress": 1})).await?;
            context.notify("notifications/progress", json!({"progress": 2})).await?;
            Ok("done")
        })
        .on("parse", |_: Context, (): ()| async move { Ok("not a number".parse::<i64>()?) })
        .on("refuse", |_: Context, (): ()| async move {
            let error = ErrorObject::new(Code::application(7).expect("free"), "I would rather not");
            Err::<(), Failure>(error.into())
        })
        .on("bad_notify", |context: Context, (): ()| async move {
            context.notify("n", "a string").await.map_err(io::Error::other)?;
            Ok(())
        })
        .on("panic", |_: Context, (): ()| async move {
            if true {
                panic!("on purpose");
            }
            Ok(())
        })
}

/// The state that the methods of `testdata/peer` share.
#[derive(Default)]
struct Scene {
    waiting: HashMap<String, oneshot::Sender<Value>>,
    log: Vec<Value>,
}

/// The methods of `testdata/peer`.
pub(crate) fn peer() -> Methods {
    let scene = Arc::new(Mutex::new(Scene::default()));
    let (wait, release, log, logged) = (scene.clone(), scene.clone(), scene.clone(), scene);
    Methods::new()
        .on("echo", |_: Context, params: Raw| async move { Ok(params) })
        .on("later", |_: Context, params: Raw| async move {
            tokio::task::yield_now().await;
            Ok(params)
        })
        .on("wait", move |_: Context, (name,): (String,)| {
            let scene = wait.clone();
            async move {
                let (send, receive) = oneshot::channel();
                scene.lock().expect("no panic").waiting.insert(name, send);
                Ok(receive.await?)
            }
        })
        .on("release", move |_: Context, (name, value): (String, Value)| {
            let scene = release.clone();
            async move {
                let waiting = scene.lock().expect("no panic").waiting.remove(&name);
                Ok(waiting.is_some_and(|waiting| waiting.send(value).is_ok()))
            }
        })
        .on("forever", |_: Context, (): ()| pending::<Result<(), Failure>>())
        .on("tell", |context: Context, (what,): (Value,)| async move {
            context.notify("told", [&what]).await?;
            tokio::task::yield_now().await;
            context.notify("told", [&what]).await?;
            Ok("done")
        })
        .on("ask", |context: Context, (what,): (Value,)| async move {
            match context.call::<Value>("question", [what]).await {
                Ok(answer) => Ok(json!({ "answer": answer })),
                Err(error) => Ok(json!({ "error": error.to_string() })),
            }
        })
        .on("report", |context: Context, _: Raw| async move {
            context.progress(json!({ "done": 1 })).await?;
            tokio::task::yield_now().await;
            context.progress(json!({ "done": 2 })).await?;
            Ok(context.wants_progress())
        })
        .on("panic_later", |_: Context, (): ()| async move {
            tokio::task::yield_now().await;
            if true {
                panic!("on purpose, later");
            }
            Ok(())
        })
        .on("log", move |_: Context, (what,): (Value,)| {
            let scene = log.clone();
            async move {
                // The first notification takes the longest, and must still be handled first.
                let before = scene.lock().expect("no panic").log.len();
                for _ in 0..10 - before.min(9) {
                    tokio::task::yield_now().await;
                }
                scene.lock().expect("no panic").log.push(what);
                Ok(())
            }
        })
        .on("logged", move |_: Context, (count,): (usize,)| {
            let scene = logged.clone();
            async move {
                while scene.lock().expect("no panic").log.len() < count {
                    tokio::task::yield_now().await;
                }
                Ok(std::mem::take(&mut scene.lock().expect("no panic").log))
            }
        })
}
