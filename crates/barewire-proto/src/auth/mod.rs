//! The rules of MCP's authorization, without I/O, clock and cryptography: documents and events -> decisions.
//!
//! ```text
//! client:  SignIn::step(event)  ->  SignInEffect: fetch this, post that, open this page, here is a token, stop
//!            find the resource's metadata  ->  its authorization server  ->  register  ->  grant  ->  token
//! server:  headers, tokens, proofs and scopes  ->  accepted, or the challenge: the module `server`
//! ```
//!
//! The rules are those of MCP 2026-07-28, basic/authorization, with the older revisions where they differ (`rules.rs`),
//! and of the extensions: client credentials, enterprise-managed authorization, DPoP and workload identity. Each step
//! is also a function of its own, which takes a response and returns a checked value: [`ResourceMetadata::read`],
//! [`ServerMetadata::read`], [`read_registration`], [`read_callback`], [`IssuedToken::read`].
//!
//! ```
//! use barewire_proto::auth::{
//!     AuthChallenge, ClientIdentity, Crypto, SignIn, SignInEffect, SignInEvent, SignInGrant, SignInSettings, Url,
//! };
//!
//! # struct Fixed;
//! # impl Crypto for Fixed {
//! #     fn random(&mut self) -> [u8; 32] { [4; 32] }
//! #     fn sha256(&mut self, _: &[u8]) -> [u8; 32] { [5; 32] }
//! # }
//! # let mut crypto = Fixed; // a real one has random numbers
//! let server = Url::parse("https://mcp.example.com/mcp")?;
//! let grant = SignInGrant::AuthorizationCode { redirect_uri: "http://127.0.0.1:7777/callback".into() };
//! let mut sign_in = SignIn::new(SignInSettings::new(server, grant, ClientIdentity::new("My program")), None);
//!
//! // The server has answered with 401 and this header.
//! let headers = [("WWW-Authenticate", "Bearer scope=\"files:read\"")];
//! let challenge = SignInEvent::Challenge(AuthChallenge::read(401, &headers[..]));
//! let SignInEffect::Fetch { url } = sign_in.step(challenge, 1_800_000_000, &mut crypto) else { panic!() };
//! assert_eq!(url.as_str(), "https://mcp.example.com/.well-known/oauth-protected-resource/mcp");
//!
//! // The next event is what was found there.
//! let body = br#"{"resource":"https://mcp.example.com/mcp","authorization_servers":["https://auth.example.com"]}"#;
//! let effect = sign_in.step(SignInEvent::Fetched { status: 200, body }, 1_800_000_001, &mut crypto);
//! assert!(matches!(effect, SignInEffect::Fetch { url } if url.origin() == "https://auth.example.com"));
//! # Ok::<(), barewire_proto::auth::BadUrl>(())
//! ```
//!
//! Nothing here contacts a server. The caller performs the effects, within the limits of [`NetworkPolicy`]: it checks
//! the addresses that names lead to, follows no redirect with a token, code or secret, and reads no more than
//! [`MAX_METADATA_BYTES`] and [`MAX_ENDPOINT_RESPONSE_BYTES`].

mod auth_challenge;
mod authorization_request;
mod authorize;
mod callback;
mod client;
mod credentials;
mod discovery;
mod document;
mod dpop;
mod endpoint_error;
mod form;
mod grant;
mod jwt;
mod location;
mod network;
mod registration;
mod resource_metadata;
mod revocation;
mod rules;
mod scope;
mod search;
mod secret;
pub mod server;
mod server_metadata;
mod settings;
mod sign_in;
mod stop;
mod token;
mod token_request;
mod url;

pub use auth_challenge::AuthChallenge;
pub use authorization_request::{Crypto, PendingAuthorization, Pkce};
pub use callback::{CallbackError, MAX_CALLBACK_BYTES, pasted_query, read_callback};
pub use client::{
    ApplicationType, ClientAuthMethod, ClientIdentity, ConfiguredClient, RegistrationChoice, SigningKey,
    choose_auth_method,
};
pub use credentials::{
    BadRecord, ClientRegistration, Credentials, EXPIRY_MARGIN_SECONDS, MAX_RECORD_BYTES, RegistrationKind, TokenType,
};
pub use document::{MAX_ENDPOINT_RESPONSE_BYTES, MAX_METADATA_BYTES};
pub use dpop::{DPOP, DPOP_NONCE, DpopNonces, DpopUse, ProofRequest, thumbprint_input};
pub use endpoint_error::EndpointError;
pub use grant::{ID_JAG, ID_TOKEN, Post, PostBody, SAML2};
pub use jwt::{AssertionRequest, with_signature};
pub use location::{authorization_base_url, authorization_server_places, protected_resource_places};
pub use network::{
    AddressKind, MAX_METADATA_REDIRECTS, NetworkPolicy, NetworkRefusal, address_kind, host_kind, server_network,
};
pub use registration::{RegistrationError, read_registration};
pub use resource_metadata::{BadResourceMetadata, ResourceMetadata};
pub use rules::Overrides;
pub use scope::{MAX_SCOPE_BYTES, OFFLINE_ACCESS, ScopeSources, Scopes};
pub use secret::SecretText;
pub use server_metadata::{BadServerMetadata, ServerMetadata};
pub use settings::{IdentityProvider, SignInGrant, SignInSettings};
pub use sign_in::{MAX_SIGN_INS, SignIn, SignInEffect, SignInEvent};
pub use stop::{PlaceFound, Remedy, StopReason, TriedPlace};
pub use token::{IssuedToken, TokenError};
pub use url::{BadUrl, MAX_URL_BYTES, Url};
