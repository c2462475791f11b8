//! Stored sign-ins -> lines of text or JSON. No tokens are shown.

use std::time::{SystemTime, UNIX_EPOCH};

use barewire::client::oauth::{Account, CredentialStore as _, FileStore};
use serde_json::{Value, json};

use super::MAX_URL;
use crate::failure::{report, sign_in_failure};
use crate::output::{Output, shown};
use crate::{Exit, Failure};

/// Prints all stored sign-ins.
pub(super) async fn print(as_json: bool, output: &mut Output) -> Result<Exit, Failure> {
    let store = FileStore::new().map_err(|error| sign_in_failure(&error))?;
    let accounts = store.list().await.map_err(|error| sign_in_failure(&error))?;
    for error in store.unusable().await.map_err(|error| sign_in_failure(&error))? {
        report(&sign_in_failure(&error));
    }
    if as_json {
        let all: Vec<Value> = accounts.iter().map(|account| json(Some(account))).collect();
        writeln!(output, "{}", Value::from(all))?;
        return Ok(Exit::Clean);
    }
    if accounts.is_empty() {
        writeln!(output, "not signed in to any server; run barewire login URL")?;
    }
    for account in &accounts {
        writeln!(output, "{}: {}", shown(account.server().as_bytes(), MAX_URL), summary(account))?;
    }
    Ok(Exit::Clean)
}

/// Returns a sign-in as one JSON object; an absent one has only `signed_in`.
pub(super) fn json(account: Option<&Account>) -> Value {
    match account {
        None => json!({ "signed_in": false }),
        Some(account) => json!({
            "signed_in": true,
            "server": account.server(),
            "issuer": account.issuer(),
            "scopes": account.scopes(),
            "expires_at": account.expires_at(),
            "renewable": account.is_renewable(),
            "bound_to_key": account.is_bound_to_key(),
        }),
    }
}

/// Returns a sign-in on one line.
pub(super) fn summary(account: &Account) -> String {
    let scopes = account.scopes();
    let scopes =
        if scopes.is_empty() { String::new() } else { format!(", scopes {}", shown(scopes.as_bytes(), MAX_URL)) };
    let bound = if account.is_bound_to_key() { ", bound to a key of this machine" } else { "" };
    let issuer = shown(account.issuer().as_bytes(), MAX_URL);
    format!("by {issuer}{scopes}, {}{bound}", lifetime(account.expires_at(), account.is_renewable(), now()))
}

fn lifetime(expires_at: Option<u64>, is_renewable: bool, now: u64) -> String {
    match (expires_at, is_renewable) {
        (_, true) => "renewed automatically".to_owned(),
        (None, false) => "valid until the server refuses it".to_owned(),
        (Some(at), false) if at <= now => "expired".to_owned(),
        (Some(at), false) => match (at - now) / 60 {
            0 => "valid for less than a minute".to_owned(),
            minutes @ 1..=119 => format!("valid for {minutes} min"),
            minutes => format!("valid for {} h", minutes / 60),
        },
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::lifetime;

    #[test]
    fn the_lifetime_is_said_in_words() {
        for (expires_at, is_renewable, text) in [
            (Some(0), true, "renewed automatically"),
            (None, false, "valid until the server refuses it"),
            (Some(100), false, "expired"),
            (Some(130), false, "valid for less than a minute"),
            (Some(100 + 3600), false, "valid for 60 min"),
            (Some(100 + 10 * 3600), false, "valid for 10 h"),
        ] {
            assert_eq!(lifetime(expires_at, is_renewable, 100), text);
        }
    }
}
