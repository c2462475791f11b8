//! What a healthy server may do, although it is harder for a client: start and answer slowly, and change its lists.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Server;
use crate::wire::{Outcome, error};

/// The options for a server that is slow or changes, all of which are off by default.
pub(crate) struct Slowness {
    since: Instant,
    /// The time before the server reads its input.
    start: Duration,
    /// The time before each message is handled.
    answer: Duration,
    /// The time in which a call of a tool blocks all other requests.
    call: Duration,
    /// The time after the start in which the last tool is not listed yet.
    loading: Duration,
    changes: ListChanges,
}

/// How the list of tools changes in the legacy era. The client is told each time.
#[derive(PartialEq)]
enum ListChanges {
    None,
    /// Every list has other tools than the one before, and while its pages are read, a tool moves to the second page.
    Moving,
    /// The list changes after the first page, whose cursor is refused then.
    RefusingCursors,
}

impl Slowness {
    pub(crate) fn of(args: &[String]) -> Self {
        let value = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
        let time = |name| Duration::from_millis(value(name).and_then(|ms| ms.parse().ok()).unwrap_or_default());
        let changes = match value("--changes").map(String::as_str) {
            Some("moving") => ListChanges::Moving,
            Some("refusing-cursors") => ListChanges::RefusingCursors,
            _ => ListChanges::None,
        };
        let (start, answer, loading) = (time("--starts-after"), time("--answers-after"), time("--loads-for"));
        Self { since: Instant::now(), start, answer, call: time("--blocks-for"), loading, changes }
    }

    pub(crate) fn start(&self) {
        std::thread::sleep(self.start);
    }

    pub(crate) fn before_answer(&self) {
        std::thread::sleep(self.answer);
    }

    pub(crate) fn block(&self) {
        std::thread::sleep(self.call);
    }
}

impl Server {
    /// Removes the tools that are not loaded yet, and those that a change has removed.
    pub(crate) fn remove_tools(&self, tools: &mut Vec<Value>, is_modern: bool) {
        if self.slowness.since.elapsed() < self.slowness.loading {
            tools.pop();
        }
        if self.slowness.changes == ListChanges::Moving && !is_modern && self.lists.is_multiple_of(2) {
            tools.pop();
        }
    }

    /// Changes the page of a list while its pages are read. Returns an error if the cursor belongs to the old list.
    pub(crate) fn change_page(&self, first: &[Value], page: &mut Vec<Value>, is_modern: bool) -> Outcome {
        if self.slowness.changes == ListChanges::None || is_modern {
            return Ok(Value::Null);
        }
        self.wire.notify("notifications/tools/list_changed", &json!({}));
        if self.slowness.changes == ListChanges::RefusingCursors {
            return error(-32602, "the list has changed");
        }
        page.insert(0, first[first.len() - 1].clone());
        Ok(Value::Null)
    }
}
