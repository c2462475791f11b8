//! Sessions with notifications that the client has asked for, and with others -> findings.

use super::super::tests::{NOTHING, OPEN, findings};

fn found(session: &str) -> Vec<String> {
    let open = OPEN.replace(r#""tools":{}"#, r#""tools":{},"logging":{},"resources":{"subscribe":true}"#);
    let of_this = findings(&format!("{open}{session}")).into_iter().filter(|it| it.check.id == "unasked-notifications");
    of_this.map(|it| it.detail).collect()
}

fn request(id: u32, method: &str, params: &str) -> String {
    format!("> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
}

fn result(id: u32) -> String {
    format!("< {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n")
}

fn asked(id: u32, method: &str, params: &str) -> String {
    request(id, method, params) + &result(id)
}

fn log(level: &str) -> String {
    format!(
        "< {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"{level}\",\"data\":1}}}}\n"
    )
}

const UPDATED: &str =
    "< {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"x:y\"}}\n";

#[test]
fn a_log_message_below_the_level_is_found() {
    let (set, ping) = (asked(1, "logging/setLevel", r#"{"level":"warning"}"#), asked(2, "ping", "{}"));
    let detail = "a log message has the level notice, the client has set warning";
    assert_eq!(found(&format!("{set}{ping}{}", log("notice"))), [detail]);
    for right in [
        format!("{set}{ping}{}{}", log("warning"), log("emergency")),
        // No level is set, or the server has not confirmed it.
        log("debug"),
        format!("{}{ping}{}", request(1, "logging/setLevel", r#"{"level":"warning"}"#), log("debug")),
        // What was sent before the level was set may arrive until a later request is answered.
        format!("{set}{}{ping}", log("debug")),
        format!("{}{set}{}{}", request(2, "ping", "{}"), result(2), log("debug")),
        // The level was lowered.
        format!("{set}{ping}{}{}", asked(3, "logging/setLevel", r#"{"level":"debug"}"#), log("debug")),
        format!("{set}{ping}{}{}", request(3, "logging/setLevel", r#"{"level":"debug"}"#), log("debug")),
    ] {
        assert_eq!(found(&right), NOTHING, "{right}");
    }
}

#[test]
fn a_change_of_a_resource_without_a_subscription_is_found() {
    let detail = "the client is told that x:y has changed, but has no subscription";
    let subscribed = asked(1, "resources/subscribe", r#"{"uri":"x:"}"#);
    let (unsubscribed, ping) = (asked(2, "resources/unsubscribe", r#"{"uri":"x:"}"#), asked(3, "ping", "{}"));
    assert_eq!(found(UPDATED), [detail]);
    assert_eq!(found(&format!("{subscribed}{unsubscribed}{ping}{UPDATED}")), [detail]);
    for right in [
        // The resource may be a part of the one with the subscription.
        format!("{subscribed}{ping}{UPDATED}"),
        format!("{}{UPDATED}", request(1, "resources/subscribe", r#"{"uri":"x:y"}"#)),
        format!("{subscribed}{unsubscribed}{UPDATED}{ping}"),
        format!("{subscribed}{}{ping}{UPDATED}", request(2, "resources/unsubscribe", r#"{"uri":"x:"}"#)),
    ] {
        assert_eq!(found(&right), NOTHING, "{right}");
    }
}

/// The client may have asked before the capture began.
#[test]
fn nothing_is_found_without_the_handshake() {
    let of_this = findings(UPDATED).into_iter().filter(|it| it.check.id == "unasked-notifications");
    assert_eq!(of_this.count(), 0);
}
