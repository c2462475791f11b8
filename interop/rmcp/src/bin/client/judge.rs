//! What a case gave and what it should give -> pass, skip or FAIL, a line each.

use std::fmt::Debug;
use std::time::Duration;

use rmcp::service::ServiceError;
use tokio::time::{sleep, timeout};

/// What became of a case: done, or not for this revision; an error is what was wrong.
pub(crate) enum Done {
    Here,
    NotHere,
}

pub(crate) type Outcome = Result<Done, String>;

/// Runs the cases one after the other and prints a line for each.
pub(crate) struct Report {
    pub(crate) label: String,
    pub(crate) known: Vec<String>,
    pub(crate) only: Option<Vec<String>>,
    pub(crate) failed: bool,
}

impl Report {
    pub(crate) async fn case(&mut self, name: &str, work: impl Future<Output = Outcome>) {
        if self.only.as_ref().is_some_and(|only| !only.iter().any(|one| one == name)) {
            return;
        }
        let outcome = timeout(Duration::from_secs(15), work).await;
        let (verdict, why) = match outcome.unwrap_or_else(|_| Err("no end after 15 s".to_owned())) {
            Ok(Done::Here) => ("pass", String::new()),
            Ok(Done::NotHere) => ("skip", String::new()),
            Err(why) if self.known.iter().any(|known| known == name) => ("known", format!(": {why}")),
            Err(why) => {
                self.failed = true;
                ("FAIL", format!(": {why}"))
            }
        };
        println!("{verdict} {}: {name}{why}", self.label);
    }
}

pub(crate) fn shown(error: impl Debug) -> String {
    format!("{error:?}")
}

pub(crate) fn same<T: PartialEq + Debug>(given: &T, wanted: &T) -> Outcome {
    if given == wanted { Ok(Done::Here) } else { Err(format!("{given:?} instead of {wanted:?}")) }
}

pub(crate) fn contains(given: &str, wanted: &str) -> Outcome {
    if !given.is_empty() && given.contains(wanted) {
        Ok(Done::Here)
    } else {
        Err(format!("no {wanted:?} in {given:?}"))
    }
}

/// An error unless the answer is a JSON-RPC error of this code.
pub(crate) fn refused<T: Debug>(answer: Result<T, ServiceError>, code: i32) -> Outcome {
    match answer {
        Err(ServiceError::McpError(error)) => same(&error.code.0, &code),
        other => Err(format!("{other:?} instead of error {code}")),
    }
}

pub(crate) async fn until(patience: Duration, found: impl Fn() -> bool) -> Result<(), String> {
    let wait = async {
        while !found() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(patience, wait).await.map_err(|_| format!("nothing in {patience:?}"))
}
