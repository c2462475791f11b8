//! The query of a callback -> the authorization code, or the reason why there is none. RFC 6749, section 4.1.2; RFC
//! 9207.

use super::authorization_request::PendingAuthorization;
use super::endpoint_error::EndpointError;
use super::form;
use super::secret::SecretText;

/// The maximum length of a callback's query. Codes are up to a few kilobytes long.
pub const MAX_CALLBACK_BYTES: usize = 16 * 1024;

/// The reason why a callback has no code that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallbackError {
    /// The callback does not belong to this sign-in: `state` is missing or wrong, or the text cannot be read. It is
    /// discarded, and the sign-in goes on: otherwise any page could end it.
    NotOurs,
    /// `iss` is missing or names another issuer. Nothing else of the callback may be used or shown.
    Issuer,
    /// The authorization server did not give a code.
    Refused(EndpointError),
    /// There is neither a code nor an error.
    NoCode,
}

/// Returns the query of a callback that a user has pasted: the whole URL, or only the query. The URL must begin with
/// the redirect URI.
pub fn pasted_query<'a>(text: &'a str, redirect_uri: &str) -> Option<&'a str> {
    let text = text.trim();
    match text.split_once('?') {
        Some((start, query)) => (start == redirect_uri).then_some(query),
        None if text.contains("://") => None,
        None => Some(text),
    }
    .map(|query| query.split_once('#').map_or(query, |(query, _)| query))
}

/// Reads the query of a callback, and compares it with the request that it answers.
///
/// The order of the checks matters: `state` first, because a callback with another `state` belongs to another request;
/// then `iss`, because nothing from another issuer may be used or shown (MCP 2026-07-28, basic/authorization,
/// "Authorization Response Validation"); then the error or the code.
pub fn read_callback(query: &str, pending: &PendingAuthorization) -> Result<SecretText, CallbackError> {
    let pairs = Some(query).filter(|query| query.len() <= MAX_CALLBACK_BYTES).and_then(form::decode);
    let pairs = pairs.ok_or(CallbackError::NotOurs)?;
    // RFC 6749, section 3.1: a parameter must not be included more than once. A repeated one counts as absent.
    let single = |name: &str| {
        let mut found = pairs.iter().filter(|(known, _)| known == name).map(|(_, value)| &**value);
        found.next().filter(|_| found.next().is_none())
    };
    if !single("state").is_some_and(|state| pending.state.is_same(state)) {
        return Err(CallbackError::NotOurs);
    }
    let has_iss = pairs.iter().any(|(name, _)| name == "iss");
    if !is_issuer_accepted(pending.has_iss, single("iss"), has_iss, &pending.issuer) {
        return Err(CallbackError::Issuer);
    }
    let text = |name: &str| single(name).map(str::to_owned);
    match (single("error"), single("code")) {
        (Some(_), _) => Err(CallbackError::Refused(EndpointError::new(None, text("error"), text("error_description")))),
        (None, Some(code)) if !code.is_empty() => Ok(code.into()),
        (None, _) => Err(CallbackError::NoCode),
    }
}

/// The table of MCP 2026-07-28, basic/authorization, "Authorization Response Validation". The issuers are compared
/// letter by letter. `is_present` is true for a repeated `iss`, which has no single value.
fn is_issuer_accepted(is_advertised: bool, iss: Option<&str>, is_present: bool, expected: &str) -> bool {
    match (is_advertised, iss, is_present) {
        (_, Some(iss), _) => iss == expected,
        (true, None, _) | (false, None, true) => false,
        (false, None, false) => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::auth::authorization_request::Pkce;

    fn pending(has_iss: bool) -> PendingAuthorization {
        PendingAuthorization {
            state: "st".into(),
            pkce: Pkce { verifier: "v".into(), challenge: "c".into() },
            issuer: "https://a.example".into(),
            has_iss,
            redirect_uri: "http://127.0.0.1:7777/callback".into(),
        }
    }

    #[test]
    fn a_callback_is_checked_in_order() {
        let denied = EndpointError::new(None, Some("access_denied".into()), Some("no".into()));
        for (has_iss, query, expected) in [
            (false, "code=c&state=st", Ok("c")),
            (false, "state=st&code=c&iss=https%3A%2F%2Fa.example", Ok("c")),
            (true, "state=st&code=c&iss=https://a.example", Ok("c")),
            (true, "code=c&state=st", Err(CallbackError::Issuer)),
            (true, "code=c&state=st&iss=https%3A%2F%2Fa.example%2F", Err(CallbackError::Issuer)),
            (true, "code=c&state=st&iss=https%3A%2F%2FA.example", Err(CallbackError::Issuer)),
            (true, "code=c&state=st&iss=https://a.example&iss=https://b.example", Err(CallbackError::Issuer)),
            (false, "code=c&state=st&iss=https://a.example&iss=https://b.example", Err(CallbackError::Issuer)),
            (false, "code=c&state=st&iss=https://evil.example", Err(CallbackError::Issuer)),
            (false, "error=x&error_description=phish&state=st&iss=https://evil.example", Err(CallbackError::Issuer)),
            (false, "error=access_denied&error_description=no&state=st", Err(CallbackError::Refused(denied))),
            (false, "code=c", Err(CallbackError::NotOurs)),
            (false, "code=c&state=other", Err(CallbackError::NotOurs)),
            (false, "code=c&state=st&state=st", Err(CallbackError::NotOurs)),
            (false, "error=access_denied&state=", Err(CallbackError::NotOurs)),
            (false, "code=%ff&state=st", Err(CallbackError::NotOurs)),
            (false, "", Err(CallbackError::NotOurs)),
            (false, "state=st", Err(CallbackError::NoCode)),
            (false, "state=st&code=", Err(CallbackError::NoCode)),
            (false, "state=st&code=a&code=b", Err(CallbackError::NoCode)),
        ] {
            let read = read_callback(query, &pending(has_iss));
            assert_eq!(read.as_ref().map(SecretText::expose), expected.as_ref().map(|code| *code), "{query}");
        }
        let long = format!("state=st&code={}", "x".repeat(MAX_CALLBACK_BYTES));
        assert_eq!(read_callback(&long, &pending(false)), Err(CallbackError::NotOurs));
    }

    #[test]
    fn a_pasted_callback_belongs_to_the_redirect_uri() {
        let redirect_uri = "http://127.0.0.1:7777/callback";
        for (text, query) in [
            (" http://127.0.0.1:7777/callback?code=c&state=s\n", Some("code=c&state=s")),
            ("http://127.0.0.1:7777/callback?code=c#_=_", Some("code=c")),
            ("code=c&state=s", Some("code=c&state=s")),
            ("https://evil.example/callback?code=c", None),
            ("https://evil.example/callback", None),
        ] {
            assert_eq!(pasted_query(text, redirect_uri), query, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_accepted_without_the_state(query in "[a-z=&%0-9+]{0,40}") {
            prop_assume!(!query.contains("state=st"));
            prop_assert!(read_callback(&query, &pending(false)).is_err());
        }
    }
}
