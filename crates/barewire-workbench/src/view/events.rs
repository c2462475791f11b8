//! The sources, as server-sent events: at once, and then whenever something changes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::View;

/// Sends events until the page closes the stream. A page that reads slowly gets fewer events.
pub(super) async fn send_sources(view: View, events: mpsc::Sender<Bytes>) {
    let mut last = String::new();
    let mut last_sent = Instant::now();
    loop {
        let current = view.clone();
        let Ok(sources) = tokio::task::spawn_blocking(move || {
            let state = current.state();
            state.sources.json(state.is_redacted)
        })
        .await
        else {
            return;
        };
        let event = match sources == last {
            false => Some(format!("event: sources\ndata: {sources}\n\n")),
            true if last_sent.elapsed() >= KEEP_ALIVE => Some(":\n\n".to_owned()),
            true => None,
        };
        if let Some(event) = event {
            if events.send(Bytes::from(event)).await.is_err() {
                return;
            }
            (last, last_sent) = (sources, Instant::now());
        }
        tokio::select! {
            () = events.closed() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// The shortest time between two events.
const INTERVAL: Duration = Duration::from_millis(250);
/// The time after which a comment shows that the connection still works.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
