//! The response of a token endpoint -> a checked token, or the error that the server sent. RFC 6749, sections 5.1 and
//! 5.2.

use super::credentials::TokenType;
use super::document::{BadMember, MAX_ENDPOINT_RESPONSE_BYTES, MetadataDocument};
use super::endpoint_error::EndpointError;
use super::grant::ID_JAG;
use super::scope::Scopes;
use super::secret::SecretText;

/// A token as an authorization server has issued it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IssuedToken {
    /// The access token.
    pub access_token: SecretText,
    /// The scheme of the token.
    pub token_type: TokenType,
    /// The number of seconds for which the token is valid, if the server says.
    pub expires_in: Option<u64>,
    /// The refresh token, if there is one.
    pub refresh_token: Option<SecretText>,
    /// The scopes of the token; `None` if they are those that were asked for.
    pub scopes: Option<Scopes>,
}

/// The reason why a response of a token endpoint has no token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The server refused the request.
    Refused(EndpointError),
    /// The response is not a token: this member is missing or invalid.
    Response(&'static str),
}

impl From<BadMember> for TokenError {
    fn from(BadMember(name): BadMember) -> Self {
        Self::Response(name)
    }
}

impl TokenError {
    /// Returns the error of this response without the secrets of the post, which the server may have repeated.
    pub(super) fn without(self, status: u16, body: &[u8], secrets: &[SecretText]) -> Self {
        match self {
            Self::Refused(_) => Self::Refused(EndpointError::read_without(status, body, secrets)),
            Self::Response(name) => Self::Response(name),
        }
    }
}

impl IssuedToken {
    /// Reads the response of a token endpoint.
    pub fn read(status: u16, body: &[u8]) -> Result<Self, TokenError> {
        let document = token_document(status, body)?;
        let token_type = match document.text("token_type")? {
            Some(name) if name.eq_ignore_ascii_case("bearer") => TokenType::Bearer,
            Some(name) if name.eq_ignore_ascii_case("dpop") => TokenType::Dpop,
            _ => return Err(TokenError::Response("token_type")),
        };
        let refresh_token = document.text("refresh_token")?.filter(|token| !token.is_empty());
        Ok(Self {
            access_token: access_token(document)?,
            token_type,
            expires_in: document.seconds("expires_in")?,
            refresh_token: refresh_token.map(Into::into),
            scopes: document.text("scope")?.map(|scope| Scopes::parse(&scope)),
        })
    }

    /// Returns the time at which the token ends, in seconds since 1970.
    pub fn expires_at(&self, now: u64) -> Option<u64> {
        self.expires_in.map(|seconds| now.saturating_add(seconds))
    }
}

/// Reads the response of a token exchange: an assertion that grants a token at another authorization server. MCP
/// extension "Enterprise-Managed Authorization", section 4.2.
pub(super) fn read_exchange(status: u16, body: &[u8]) -> Result<SecretText, TokenError> {
    let document = token_document(status, body)?;
    if document.text("issued_token_type")?.as_deref() != Some(ID_JAG) {
        return Err(TokenError::Response("issued_token_type"));
    }
    // It is not an access token, and must not be used as one.
    match document.text("token_type")? {
        Some(name) if name.eq_ignore_ascii_case("n_a") => access_token(document),
        _ => Err(TokenError::Response("token_type")),
    }
}

fn token_document(status: u16, body: &[u8]) -> Result<MetadataDocument<'_>, TokenError> {
    if !matches!(status, 200 | 201) {
        return Err(TokenError::Refused(EndpointError::read(status, body)));
    }
    let document = MetadataDocument::read(body, MAX_ENDPOINT_RESPONSE_BYTES).ok_or(TokenError::Response("body"))?;
    // Some servers send an error with the status 200.
    match document.member("error").is_some() && document.member("access_token").is_none() {
        true => Err(TokenError::Refused(EndpointError::read(status, body))),
        false => Ok(document),
    }
}

fn access_token(document: MetadataDocument<'_>) -> Result<SecretText, TokenError> {
    // The token is sent in a header, so a space or line break in it would be a second header or parameter.
    let is_token = |token: &String| !token.is_empty() && token.bytes().all(|byte| matches!(byte, b'!'..=b'~'));
    let token = document.text("access_token")?.filter(is_token);
    token.map(Into::into).ok_or(TokenError::Response("access_token"))
}

/// The response of a device authorization endpoint: RFC 8628, section 3.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeviceResponse {
    pub(super) device_code: SecretText,
    pub(super) user_code: String,
    pub(super) verification_uri: super::url::Url,
    pub(super) verification_uri_complete: Option<super::url::Url>,
    pub(super) expires_in: u64,
    pub(super) interval: u64,
}

/// The time between two polls if the server names none: RFC 8628, section 3.5.
const DEFAULT_INTERVAL_SECONDS: u64 = 5;

/// The maximum time between two polls that a server can ask for. A longer one would look like a program that hangs.
const MAX_INTERVAL_SECONDS: u64 = 60;

impl DeviceResponse {
    pub(super) fn read(status: u16, body: &[u8]) -> Result<Self, TokenError> {
        let document = token_document(status, body)?;
        let missing = TokenError::Response;
        // The code is typed by a person, so it is short.
        let is_user_code =
            |code: &String| (1..=64).contains(&code.len()) && code.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let device_code = document.text("device_code")?.filter(|code| !code.is_empty());
        Ok(Self {
            device_code: device_code.map(Into::into).ok_or(missing("device_code"))?,
            user_code: document.text("user_code")?.filter(is_user_code).ok_or(missing("user_code"))?,
            verification_uri: document.url("verification_uri")?.ok_or(missing("verification_uri"))?,
            verification_uri_complete: document.url("verification_uri_complete")?,
            expires_in: document.seconds("expires_in")?.ok_or(missing("expires_in"))?,
            interval: longer_interval(document.seconds("interval")?.unwrap_or(DEFAULT_INTERVAL_SECONDS).max(1), 0),
        })
    }
}

/// Returns the time between two polls after the server has asked for `more` seconds.
pub(super) fn longer_interval(interval: u64, more: u64) -> u64 {
    interval.saturating_add(more).min(MAX_INTERVAL_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_or_its_error() {
        let read = |status, body: &str| IssuedToken::read(status, body.as_bytes());
        let token = read(200, r#"{"access_token":"t","token_type":"bearer","expires_in":"60","scope":"a b"}"#).unwrap();
        assert_eq!((token.token_type, token.expires_at(40)), (TokenType::Bearer, Some(100)));
        assert_eq!(token.scopes, Some(Scopes::parse("a b")));
        assert!(!format!("{token:?}").contains("\"t\""));
        let endless =
            read(200, r#"{"access_token":"t","token_type":"DPoP","expires_in":9223372036854775807}"#).unwrap();
        assert_eq!((endless.token_type, endless.expires_at(u64::MAX)), (TokenType::Dpop, Some(u64::MAX)));
        for (status, body, why) in [
            (200, "", TokenError::Response("body")),
            (200, "[]", TokenError::Response("body")),
            (200, "{}", TokenError::Response("token_type")),
            (200, r#"{"access_token":"t"}"#, TokenError::Response("token_type")),
            (200, r#"{"access_token":"t","token_type":"mac"}"#, TokenError::Response("token_type")),
            (200, r#"{"access_token":"","token_type":"bearer"}"#, TokenError::Response("access_token")),
            (200, r#"{"access_token":"a\r\nb","token_type":"bearer"}"#, TokenError::Response("access_token")),
            (200, r#"{"access_token":1,"token_type":"bearer"}"#, TokenError::Response("access_token")),
            (200, r#"{"access_token":"t","token_type":"bearer","expires_in":"x"}"#, TokenError::Response("expires_in")),
        ] {
            assert_eq!(read(status, body), Err(why), "{body}");
        }
        for (status, body, shown) in [
            (400, r#"{"error":"invalid_grant","error_description":"old\u001b[2J"}"#, r"invalid_grant: old\x1b[2J"),
            (200, r#"{"error":"bad_verification_code"}"#, "bad_verification_code"),
            (502, "<html>", "HTTP status 502"),
        ] {
            let Err(TokenError::Refused(error)) = read(status, body) else { panic!("{body}") };
            assert_eq!(error.to_string(), shown);
        }
    }

    #[test]
    fn the_size_of_a_response_is_limited() {
        let token = r#"{"access_token":"t","token_type":"bearer"}"#;
        let padded = |length: usize| format!("{token}{}", " ".repeat(length - token.len()));
        assert!(IssuedToken::read(200, padded(MAX_ENDPOINT_RESPONSE_BYTES).as_bytes()).is_ok());
        let long = padded(MAX_ENDPOINT_RESPONSE_BYTES + 1);
        assert_eq!(IssuedToken::read(200, long.as_bytes()), Err(TokenError::Response("body")));
    }

    #[test]
    fn only_an_identity_assertion_is_an_exchanged_token() {
        let good = format!(r#"{{"access_token":"j","issued_token_type":"{ID_JAG}","token_type":"N_A"}}"#);
        assert_eq!(read_exchange(200, good.as_bytes()).unwrap().expose(), "j");
        let access = good.replace("N_A", "Bearer");
        assert_eq!(read_exchange(200, access.as_bytes()), Err(TokenError::Response("token_type")));
        let other = good.replace("id-jag", "access_token");
        assert_eq!(read_exchange(200, other.as_bytes()), Err(TokenError::Response("issued_token_type")));
    }
}
