//! The record of a sign-in that a store keeps <-> JSON: the token, and everything that is needed to renew it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::client::{ClientAuthMethod, SigningKey};
use super::scope::Scopes;
use super::secret::SecretText;

/// The version of the record that this crate writes, and the only one that it reads.
const VERSION: u32 = 1;

/// The maximum length of a record: three tokens of 16 KiB, a key and the names.
pub const MAX_RECORD_BYTES: usize = 256 * 1024;

/// The time before the end of a token at which it is renewed. It covers the time that a request takes, and clocks that
/// differ a little.
pub const EXPIRY_MARGIN_SECONDS: u64 = 30;

/// The scheme under which a token is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "MCP and its extension define these two")]
pub enum TokenType {
    /// `Authorization: Bearer`: RFC 6750.
    Bearer,
    /// `Authorization: DPoP`, with a proof: RFC 9449.
    #[serde(rename = "DPoP")]
    Dpop,
}

impl TokenType {
    /// Returns the scheme of the `Authorization` header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
        }
    }
}

/// The way in which a client was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RegistrationKind {
    /// By the user, outside of the protocol.
    Configured,
    /// By the URL of a client ID metadata document. It can be used with every issuer.
    MetadataDocument,
    /// By dynamic client registration, with one issuer.
    Dynamic,
}

/// A client as one authorization server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientRegistration {
    /// The way in which it was registered.
    pub kind: RegistrationKind,
    /// The client ID.
    pub id: String,
    /// The client secret, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// The time at which the secret ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_expires_at: Option<u64>,
    /// The key for `private_key_jwt`, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SigningKey>,
    /// The way to authenticate that client and server have agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_method: Option<ClientAuthMethod>,
    /// The redirect URI that was registered. A program that listens on the same port again need not register again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// The scopes that were registered; empty if none were. Many servers refuse any other to the client.
    #[serde(default, skip_serializing_if = "Scopes::is_empty")]
    pub scopes: Scopes,
}

impl ClientRegistration {
    /// Creates a public client.
    pub fn new(kind: RegistrationKind, id: impl Into<String>) -> Self {
        Self {
            kind,
            id: id.into(),
            secret: None,
            secret_expires_at: None,
            key: None,
            auth_method: None,
            redirect_uri: None,
            scopes: Scopes::new(),
        }
    }
}

/// The result of a sign-in. A store keeps one record for each server and account.
///
/// The record belongs to one issuer. When a server names another issuer, nothing of the record is sent to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Credentials {
    version: u32,
    /// The URL of the MCP server.
    pub server: String,
    /// The issuer of the token.
    pub issuer: String,
    /// The endpoint at which the token is renewed.
    pub token_endpoint: String,
    /// The endpoint at which the tokens are revoked, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// The `resource` that the token was requested for; `None` if none was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The client that the token was issued to.
    pub client: ClientRegistration,
    /// The scopes that were asked for, in all requests so far.
    pub requested_scopes: Scopes,
    /// The scopes that the token has.
    pub scopes: Scopes,
    /// The scheme of the token.
    pub token_type: TokenType,
    /// The access token.
    pub access_token: SecretText,
    /// The time at which the access token ends, in seconds since 1970; `None` if the server did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<SecretText>,
    /// The key that the tokens are bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_key: Option<SigningKey>,
}

/// The parts of a record that each token has. The others are set afterwards.
pub(super) struct CredentialParts {
    pub(super) server: String,
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) client: ClientRegistration,
    pub(super) token_type: TokenType,
    pub(super) access_token: SecretText,
}

impl Credentials {
    pub(super) fn new(parts: CredentialParts) -> Self {
        Self {
            version: VERSION,
            server: parts.server,
            issuer: parts.issuer,
            token_endpoint: parts.token_endpoint,
            revocation_endpoint: None,
            resource: None,
            client: parts.client,
            requested_scopes: Scopes::new(),
            scopes: Scopes::new(),
            token_type: parts.token_type,
            access_token: parts.access_token,
            expires_at: None,
            refresh_token: None,
            dpop_key: None,
        }
    }

    /// Reads a record.
    pub fn read(text: &[u8]) -> Result<Self, BadRecord> {
        /// The member that decides whether the others can be read.
        #[derive(Deserialize)]
        struct RecordVersion {
            version: u32,
        }
        if text.len() > MAX_RECORD_BYTES {
            return Err(BadRecord::TooLong);
        }
        // The error of serde quotes the text, which contains secrets, so it is not passed on.
        let RecordVersion { version } = serde_json::from_slice(text).map_err(|_| BadRecord::NotARecord)?;
        if version != VERSION {
            return Err(BadRecord::Version(version));
        }
        serde_json::from_slice(text).map_err(|_| BadRecord::NotARecord)
    }

    /// Returns the record as JSON. It contains secrets in the clear: write it only to a place that others cannot read.
    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are JSON")
    }

    /// Whether the access token ends within [`EXPIRY_MARGIN_SECONDS`]. `now` is in seconds since 1970.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now.saturating_add(EXPIRY_MARGIN_SECONDS))
    }

    /// Returns the value of the `Authorization` header.
    pub fn authorization(&self) -> SecretText {
        SecretText::new(format!("{} {}", self.token_type.as_str(), self.access_token.expose()))
    }
}

/// The reason why a stored record cannot be used. The user signs in again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadRecord {
    /// The text is longer than [`MAX_RECORD_BYTES`].
    TooLong,
    /// The text is not a record.
    NotARecord,
    /// The record was written by another version of this crate.
    Version(u32),
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the stored sign-in is longer than {MAX_RECORD_BYTES} bytes"),
            Self::NotARecord => f.write_str("the stored sign-in is damaged"),
            Self::Version(found) => {
                write!(f, "the stored sign-in has version {found}, and this program reads {VERSION}")
            }
        }
    }
}

impl std::error::Error for BadRecord {}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> Credentials {
        let mut client = ClientRegistration::new(RegistrationKind::Dynamic, "client-1");
        client.secret = Some("client-secret".into());
        client.auth_method = Some(ClientAuthMethod::SecretPost);
        let mut credentials = Credentials::new(CredentialParts {
            server: "https://mcp.example.com/mcp".into(),
            issuer: "https://auth.example.com".into(),
            token_endpoint: "https://auth.example.com/token".into(),
            client,
            token_type: TokenType::Dpop,
            access_token: "access-secret".into(),
        });
        credentials.refresh_token = Some("refresh-secret".into());
        credentials.dpop_key = Some(SigningKey::new("ES256", "key-secret").id("k".to_owned()));
        credentials.expires_at = Some(1000);
        credentials.scopes = Scopes::parse("a b");
        credentials
    }

    #[test]
    fn a_record_is_written_and_read_and_shows_no_secret() {
        let credentials = credentials();
        let text = credentials.write();
        assert_eq!(Credentials::read(text.as_bytes()), Ok(credentials.clone()));
        assert!(text.contains(r#""version":1"#) && text.contains(r#""auth_method":"client_secret_post""#));
        assert!(!format!("{credentials:?}").contains("-secret"), "{credentials:?}");
        assert_eq!(credentials.authorization().expose(), "DPoP access-secret");
        assert!(!credentials.is_expired(969) && credentials.is_expired(970) && credentials.is_expired(u64::MAX));
    }

    #[test]
    fn other_texts_are_refused_without_quoting_them() {
        let text = credentials().write();
        let newer = text.replace(r#""version":1"#, r#""version":2"#);
        assert_eq!(Credentials::read(newer.as_bytes()), Err(BadRecord::Version(2)));
        let long = " ".repeat(MAX_RECORD_BYTES + 1);
        assert_eq!(Credentials::read(long.as_bytes()), Err(BadRecord::TooLong));
        for bad in
            ["", "[]", "{}", r#"{"version":1}"#, &text[1..], &text.replace("Dynamic", "x").replace("dynamic", "x")]
        {
            assert_eq!(Credentials::read(bad.as_bytes()), Err(BadRecord::NotARecord), "{bad}");
        }
    }
}
