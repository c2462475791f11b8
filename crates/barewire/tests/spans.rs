//! The spans that a `tracing` subscriber sees. In its own file, because `tracing` caches interest for the whole
//! process.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use barewire::peer::{Connection, Context, Methods};
use barewire::transport::memory;

/// Records the spans that are opened and entered.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Spans {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!(" {field}={value:?}"));
            }
        }
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        let mut spans = self.0.lock().expect("no panic");
        spans.push(fields.0);
        tracing::span::Id::from_u64(spans.len() as u64)
    }

    fn enter(&self, span: &tracing::span::Id) {
        self.0.lock().expect("no panic").push(format!("enter {}", span.into_u64()));
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn every_request_is_handled_in_a_span_with_its_id_and_method() {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let methods =
        Methods::new().on("now", |_: Context, (): ()| async { Ok(()) }).on("later", |_: Context, (): ()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(())
        });
    let (here, mut raw) = memory(4096);
    let _peer = Connection::new(here).methods(methods).spawn();
    for (id, method) in [("a", "now"), ("b", "later")] {
        let request = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}"}}"#);
        raw.send_line(&request).await.expect("memory");
        let answer = raw.recv_line().await.expect("memory").expect("an answer");
        assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":null}}"#));
    }
    let spans = spans.0.lock().expect("no panic").clone();
    let opened = |wanted: &str| spans.iter().position(|span| span == wanted);
    let opened = |wanted: &str| opened(wanted).unwrap_or_else(|| panic!("no {wanted} in {spans:?}")) + 1;
    let now = opened(r#"request method="now" id="\"a\"""#);
    let later = opened(r#"request method="later" id="\"b\"""#);
    let entered = |span: usize| spans.iter().filter(|it| **it == format!("enter {span}")).count();
    assert_eq!(entered(now), 1);
    assert!(entered(later) >= 2, "the first poll, and those of the task: {spans:?}");
}
