//! The result of a case -> a line with pass, skip, known or FAIL.

use std::fmt::Debug;
use std::time::Duration;

use rmcp::service::ServiceError;
use tokio::time::{sleep, timeout};

/// The outcome of a case that did not fail.
pub(crate) enum CaseOutcome {
    Passed,
    /// Not in this revision.
    Skipped,
}

/// The outcome, or the text of the failure.
pub(crate) type CaseResult = Result<CaseOutcome, String>;

/// Runs the cases one after the other and prints a line for each.
pub(crate) struct Report {
    pub(crate) label: String,
    pub(crate) known: Vec<String>,
    pub(crate) only: Option<Vec<String>>,
    pub(crate) failed: bool,
}

impl Report {
    pub(crate) async fn case(&mut self, name: &str, work: impl Future<Output = CaseResult>) {
        if self.only.as_ref().is_some_and(|only| !only.iter().any(|one| one == name)) {
            return;
        }
        let outcome = timeout(Duration::from_secs(15), work).await;
        let (verdict, why) = match outcome.unwrap_or_else(|_| Err("no result within 15 s".to_owned())) {
            Ok(CaseOutcome::Passed) => ("pass", String::new()),
            Ok(CaseOutcome::Skipped) => ("skip", String::new()),
            Err(why) if self.known.iter().any(|known| known == name) => ("known", format!(": {why}")),
            Err(why) => {
                self.failed = true;
                ("FAIL", format!(": {why}"))
            }
        };
        println!("{verdict} {}: {name}{why}", self.label);
    }
}

pub(crate) fn debug_text(error: impl Debug) -> String {
    format!("{error:?}")
}

pub(crate) fn expect_equal<T: PartialEq + Debug>(given: &T, wanted: &T) -> CaseResult {
    if given == wanted { Ok(CaseOutcome::Passed) } else { Err(format!("got {given:?}, expected {wanted:?}")) }
}

pub(crate) fn expect_contains(given: &str, wanted: &str) -> CaseResult {
    if !given.is_empty() && given.contains(wanted) {
        Ok(CaseOutcome::Passed)
    } else {
        Err(format!("{wanted:?} is not in {given:?}"))
    }
}

/// Fails unless the result is a JSON-RPC error with this code.
pub(crate) fn expect_error<T: Debug>(answer: Result<T, ServiceError>, code: i32) -> CaseResult {
    match answer {
        Err(ServiceError::McpError(error)) => expect_equal(&error.code.0, &code),
        other => Err(format!("got {other:?}, expected error {code}")),
    }
}

pub(crate) async fn wait_until(limit: Duration, found: impl Fn() -> bool) -> Result<(), String> {
    let wait = async {
        while !found() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(limit, wait).await.map_err(|_| format!("nothing within {limit:?}"))
}
