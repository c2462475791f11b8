//! Tokens that a server must refuse -> findings about those that it does not refuse with 401.

use std::time::SystemTime;

use barewire::client::http::Secret;
use barewire_proto::auth::ResourceMetadata;
use barewire_proto::auth::server::{Claims, Jws};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{AuthProbe, challenge};
use crate::Advice;
use crate::check::catalogue::authorization::{
    AUTH_AUDIENCE, AUTH_DPOP, AUTH_EXPIRY, AUTH_INVALID_TOKEN, AUTH_ISSUER, DPOP_DOWNGRADE, DPOP_REPLAY, DPOP_REQUEST,
};
use crate::check::catalogue::{Check, Rule};
use crate::check::live::http_client::HttpReply;
use crate::check::wrong_token::WrongToken;

/// A request with an access token: the headers.
type Credentials = Vec<(String, String)>;

impl AuthProbe<'_> {
    /// Sends tokens that no issuer has issued. A token in the query of the URL is not sent: only a real one would show
    /// whether the server accepts it there, and a client must not send that.
    pub(super) async fn check_invalid_tokens(&self, is_let_in: bool) {
        let check = &AUTH_INVALID_TOKEN;
        if !self.harness.wants(&[check]) {
            return;
        }
        let reply = self.ask(bearer(INVENTED_TOKEN)).await;
        self.expect_401(check, None, &reply, "an invented token");
        let Some((scheme, token)) = self.token().filter(|_| is_let_in) else { return };
        for (what, altered) in altered_tokens(token) {
            let credentials = if scheme.eq_ignore_ascii_case("DPoP") {
                self.wrong_authorization("POST", None, Some(&altered)).await
            } else {
                bearer(&altered)
            };
            if !credentials.is_empty() {
                let reply = self.ask(credentials).await;
                self.expect_401(check, None, &reply, what);
            }
        }
    }

    /// Sends the tokens that the user has given because the server must refuse them.
    pub(super) async fn check_wrong_tokens(&self, resource: Option<&ResourceMetadata>) {
        for (kind, check, what) in [
            (WrongToken::OtherAudience, &AUTH_AUDIENCE, "the token for another server"),
            (WrongToken::Expired, &AUTH_EXPIRY, "the expired token"),
            (WrongToken::OtherIssuer, &AUTH_ISSUER, "the token of another issuer"),
        ] {
            if !self.harness.wants(&[check]) {
                continue;
            }
            let Some(token) = self.wrong_token(kind, check) else { continue };
            if let Some(why) = not_wrong(kind, token, resource) {
                let why = format!("the token for {} is not one: {why}", kind.as_str());
                self.harness.recording.ledger().incomplete(check, why);
                continue;
            }
            let reply = self.ask(bearer(token)).await;
            self.expect_401(check, None, &reply, what);
        }
    }

    /// Returns the token of this kind. Notes a skip if the user has given none.
    pub(super) fn wrong_token(&self, kind: WrongToken, check: &'static Check) -> Option<&str> {
        let given = self.harness.wrong_tokens.iter().find(|(known, _)| *known == kind);
        if given.is_none() && self.has_fixed_token.get() {
            self.skip(check, "the server has no metadata, so its tokens may be fixed ones");
        } else if given.is_none() {
            self.harness.skip_forbidden(
                check,
                "no token was given that the server must refuse for this reason",
                Advice::GiveWrongToken,
            );
        }
        given.map(|(_, token)| token.expose())
    }

    /// Sends a bound token without a proof, and with proofs that are not for the request.
    pub(super) async fn check_proofs(&self, is_let_in: bool) {
        let check = &AUTH_DPOP;
        let Some((_, token)) = self.token().filter(|(scheme, _)| scheme.eq_ignore_ascii_case("DPoP")) else {
            let why = if self.credentials.is_empty() { "no token is known" } else { "the token is not bound to a key" };
            return self.skip(check, why);
        };
        if !self.is_sign_in {
            return self.skip(check, "the key of the token is not known: it is not of a stored sign-in");
        }
        if !self.harness.may_be_hostile() {
            let why = "its requests look like an attack";
            return self.harness.skip_forbidden(check, why, Advice::AllowHostile);
        }
        if !self.harness.wants(&[check]) || !is_let_in {
            return;
        }
        let reply = self.ask(bearer(token)).await;
        self.expect_401(check, Some(&DPOP_DOWNGRADE), &reply, "the bound token as a bearer token");
        let other_method = self.wrong_authorization("DELETE", None, None).await;
        self.learn_nonce(&self.ask(other_method).await);
        let other_method = self.wrong_authorization("DELETE", None, None).await;
        let reply = self.ask(other_method).await;
        self.expect_401(check, Some(&DPOP_REQUEST), &reply, "a proof for another method");
        let other_url = self.wrong_authorization("POST", Some(OTHER_PATH), None).await;
        let reply = self.ask(other_url).await;
        self.expect_401(check, Some(&DPOP_REQUEST), &reply, "a proof for another URL");
        let mut used = self.wrong_authorization("POST", None, None).await;
        let mut first = self.ask(used.clone()).await;
        if challenge(&first).is_some_and(|it| it.wants_nonce()) {
            self.learn_nonce(&first);
            used = self.wrong_authorization("POST", None, None).await;
            first = self.ask(used.clone()).await;
        }
        if !first.is_ok() {
            let why = format!("a new proof is not accepted: got {}", first.describe());
            return self.harness.recording.ledger().incomplete(check, why);
        }
        let reply = self.ask(used).await;
        self.expect_401(check, Some(&DPOP_REPLAY), &reply, "a proof that was used before");
    }

    /// Tells the sign-in which nonce the server wants in the next proof.
    fn learn_nonce(&self, reply: &HttpReply) {
        if let Some(status) = reply.status {
            self.http.dialer.responded(status, reply.headers.iter().map(|(name, value)| (name, value)));
        }
    }

    /// Returns headers of the sign-in with a proof for another request, or with another token.
    async fn wrong_authorization(&self, method: &str, path: Option<&str>, token: Option<&str>) -> Credentials {
        let token = token.map(Secret::from);
        let headers = self.http.dialer.wrong_authorization(method, path, token.as_ref()).await.unwrap_or_default();
        headers.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect()
    }

    /// Returns the scheme and the token of the user.
    fn token(&self) -> Option<(&str, &str)> {
        let (_, value) = self.credentials.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"))?;
        let (scheme, token) = value.split_once(' ')?;
        let is_known = scheme.eq_ignore_ascii_case("Bearer") || scheme.eq_ignore_ascii_case("DPoP");
        is_known.then_some((scheme, token.trim()))
    }

    fn expect_401(&self, check: &'static Check, rule: Option<&'static Rule>, reply: &HttpReply, what: &str) {
        self.harness.recording.ledger().inspected(check);
        if reply.status == Some(401) {
            return;
        }
        let detail = format!("{what}: expected 401, got {}", reply.describe());
        match rule {
            Some(rule) => self.fail(check, rule, reply, detail),
            None => self.fail_first(check, reply, detail),
        }
    }
}

pub(super) fn bearer(token: &str) -> Credentials {
    vec![("authorization".to_owned(), format!("Bearer {token}"))]
}

/// Returns changed copies of a token that no server may accept, each with its description.
pub(in crate::check) fn altered_tokens(token: &str) -> Vec<(&'static str, String)> {
    let parts: Vec<&str> = token.split('.').collect();
    if let [_, payload, signature] = parts[..]
        && Jws::parse(token.as_bytes()).is_ok()
    {
        let signed = &token[..token.len() - signature.len()];
        let unsigned = format!("{}.{payload}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#));
        return vec![
            ("the token with a changed signature", format!("{signed}{}", with_other_letter(signature))),
            ("the token without its signature (alg none)", unsigned),
        ];
    }
    vec![("the token with a changed letter", with_other_letter(token))]
}

/// Replaces the letter in the middle. The last letter of a Base64 text may have bits that do not count.
fn with_other_letter(text: &str) -> String {
    let middle = text.chars().count() / 2;
    let other = |letter| if letter == 'A' { 'B' } else { 'A' };
    text.chars().enumerate().map(|(at, letter)| if at == middle { other(letter) } else { letter }).collect()
}

/// Returns the reason why a server need not refuse a token, as far as the token shows it.
fn not_wrong(kind: WrongToken, token: &str, resource: Option<&ResourceMetadata>) -> Option<String> {
    let claims = Claims::parse(&Jws::parse(token.as_bytes()).ok()?.payload).ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    // Servers allow for clocks that differ by a minute or more.
    let still_valid = claims.expires.and_then(|expires| u64::try_from(expires).ok()).filter(|it| *it + LEEWAY > now);
    match (kind, resource) {
        (WrongToken::Expired, _) => still_valid.map(|_| "it has not expired, or less than five minutes ago".to_owned()),
        (WrongToken::OtherAudience, Some(resource)) => {
            claims.audience.contains(&resource.resource).then(|| "it is for this server".to_owned())
        }
        (WrongToken::OtherIssuer, Some(resource)) => {
            let issuer = claims.issuer?;
            let is_named = resource.authorization_servers.contains(&issuer);
            is_named.then(|| format!("its issuer is {issuer}, which the server names"))
        }
        _ => None,
    }
}

/// A token that no authorization server has issued.
const INVENTED_TOKEN: &str = "barewire-check-invented-token";
/// The path in a proof for another URL.
const OTHER_PATH: &str = "/barewire-check/other";
/// The difference of clocks that servers may accept, in seconds.
const LEEWAY: u64 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn altered_tokens_differ_from_the_token_in_their_signature() {
        let payload = URL_SAFE_NO_PAD.encode(r#"{"sub":"ada"}"#);
        let token = format!("{}.{payload}.c2lnbmF0dXJl", URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256"}"#));
        let altered = altered_tokens(&token);
        assert_eq!(altered.len(), 2);
        for (what, altered) in &altered {
            assert_ne!(*altered, token, "{what}");
            assert_eq!(altered.split('.').nth(1), Some(payload.as_str()), "{what}");
        }
        assert_eq!(altered[0].1.rsplit('.').next().map(str::len), Some("c2lnbmF0dXJl".len()));
        assert!(altered[1].1.ends_with('.'));
        assert_eq!(altered_tokens("opaque"), [("the token with a changed letter", "opaAue".to_owned())]);
    }
}
