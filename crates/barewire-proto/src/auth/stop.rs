//! The reasons why a sign-in stops, as facts, as a text for people, and as what could be done about it.

use std::fmt::{self, Write};

use super::endpoint_error::{EndpointError, shortened};
use super::network::NetworkRefusal;
use super::registration::RegistrationError;
use super::resource_metadata::BadResourceMetadata;
use super::scope::{MAX_SCOPE_BYTES, Scopes};
use super::server_metadata::BadServerMetadata;
use super::url::{BadUrl, Url};
use crate::safe_text::{EscapeWriter, SafeText};

/// A place at which metadata was looked for in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TriedPlace {
    /// The URL, as it was written.
    pub url: String,
    /// What was there.
    pub found: PlaceFound,
}

impl TriedPlace {
    /// Whether the place could have metadata another time: there was no response, or one of a server that is broken or
    /// overloaded.
    pub(super) fn is_unsure(&self) -> bool {
        matches!(&self.found, PlaceFound::Failed(_) | PlaceFound::Status(408 | 429 | 500..))
    }
}

/// What was at a place instead of metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceFound {
    /// A response with this HTTP status.
    Status(u16),
    /// A text that is not metadata.
    NotMetadata,
    /// Metadata of another issuer.
    OtherIssuer(SafeText),
    /// No response, for this reason.
    Failed(SafeText),
    /// The URL cannot be used.
    BadUrl(BadUrl),
    /// The URL may not be fetched.
    Refused(NetworkRefusal),
}

/// The reason why a sign-in stops. `Display` says it to people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// A response that is neither 401 nor 403.
    NotAChallenge(u16),
    /// The server refuses the request, and does not say that other scopes would help.
    Forbidden,
    /// The server refuses a token that has the scopes which it asks for.
    ScopesRefused(Scopes),
    /// The server has refused several new tokens in a row.
    TooManyAttempts,
    /// The server asks for proofs with its nonce again and again.
    NonceRefused,
    /// The URL of the server cannot be used.
    BadServerUrl(BadUrl),
    /// The redirect URI of the client cannot be used.
    BadRedirectUri(String),
    /// The metadata of the protected resource was not found.
    NoResourceMetadata(Vec<TriedPlace>),
    /// The metadata of the protected resource is not used.
    ResourceMetadata {
        /// The URL of the document.
        url: Url,
        /// What is wrong with it.
        why: BadResourceMetadata,
    },
    /// The metadata of the authorization server was not found.
    NoServerMetadata {
        /// The issuer.
        issuer: SafeText,
        /// The places.
        tried: Vec<TriedPlace>,
    },
    /// The metadata of the authorization server is not used.
    ServerMetadata {
        /// The URL of the document.
        url: Url,
        /// What is wrong with it.
        why: BadServerMetadata,
    },
    /// The issuer that the server names is not a URL that can be used.
    BadIssuer(SafeText),
    /// The metadata names another issuer than the one that it was looked for under.
    IssuerMismatch {
        /// The issuer that the server names.
        expected: SafeText,
        /// The issuer that the metadata names.
        found: SafeText,
    },
    /// The authorization server has no endpoint of this name.
    NoEndpoint(&'static str),
    /// An issuer, endpoint or page may not be used.
    EndpointRefused {
        /// The name of the member that has the URL.
        name: &'static str,
        /// Its URL.
        url: Url,
        /// The reason.
        why: NetworkRefusal,
    },
    /// The authorization server does not protect codes by PKCE.
    NoPkce,
    /// There are more scopes than a request can hold.
    TooManyScopes,
    /// The client has no client ID for this authorization server.
    NoClient,
    /// The grant needs a client that can authenticate, and this one has neither a secret nor a key.
    NoClientSecret,
    /// The client is registered with another issuer.
    ClientOfOtherIssuer {
        /// The issuer that the client is registered with.
        registered: SafeText,
        /// The issuer of this sign-in.
        found: SafeText,
    },
    /// The client and the authorization server have no way to authenticate in common.
    NoAuthMethod(Vec<String>),
    /// The registration did not succeed.
    Registration {
        /// The URL of the registration endpoint.
        url: Box<Url>,
        /// The reason.
        why: RegistrationError,
    },
    /// The callback is not from the authorization server that was asked. Nothing of it is shown.
    CallbackIssuer,
    /// The callback has neither a code nor an error.
    CallbackWithoutCode,
    /// The user or the authorization server refused the sign-in.
    Denied(EndpointError),
    /// The user did not enter the code in time.
    DeviceCodeExpired,
    /// The authorization server refused to issue a token.
    TokenRefused {
        /// The URL of the endpoint that refused.
        url: Box<Url>,
        /// Its answer.
        error: EndpointError,
    },
    /// The response of the token endpoint is not a token.
    BadTokenResponse {
        /// The URL of the endpoint.
        url: Box<Url>,
        /// The member of the response that is missing or invalid.
        member: &'static str,
    },
    /// Tokens must be bound to a key, but the client or the authorization server does not support it.
    NoDpop,
    /// The token is not of the type that was asked for.
    TokenType {
        /// The URL of the token endpoint.
        url: Box<Url>,
    },
    /// The authorization server is overloaded or broken.
    Unavailable {
        /// The URL of the endpoint.
        url: Box<Url>,
        /// Its answer.
        error: EndpointError,
    },
    /// The endpoint did not answer.
    Unreachable {
        /// The URL of the endpoint.
        url: Url,
        /// The reason.
        why: SafeText,
    },
    /// The user ended the sign-in.
    Cancelled,
}

/// What could be done about a stop. The caller names the setting in its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Set the client ID of a client that is registered with this authorization server.
    SetClient,
    /// Set the client secret or key.
    SetClientSecret,
    /// Set the scopes.
    SetScopes,
    /// Set [`Overrides::issuer_may_differ`](super::Overrides::issuer_may_differ), if the server is trusted.
    AllowOtherIssuer,
    /// Set [`Overrides::no_resource`](super::Overrides::no_resource).
    OmitResource,
    /// Set [`NetworkPolicy::nearest`](super::NetworkPolicy::nearest), if the server is one of the own network.
    AllowPrivateNetwork,
    /// Set [`NetworkPolicy::plain_http`](super::NetworkPolicy::plain_http), if the network is trusted.
    AllowPlainHttp,
    /// Use a key for DPoP.
    UseDpop,
    /// Use a bearer token, if the server has another way to give one.
    SetToken,
    /// Use another grant: the authorization server has no endpoint for this one.
    UseOtherGrant,
    /// Sign in again.
    SignInAgain,
    /// Try again later.
    TryLater,
    /// Tell those who run the server.
    ReportToServer,
}

impl StopReason {
    /// Returns what could be done about it.
    pub fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Self::NotAChallenge(_) | Self::Forbidden | Self::Cancelled | Self::BadServerUrl(_) => return None,
            Self::BadRedirectUri(_) => return None,
            Self::NoClient | Self::ClientOfOtherIssuer { .. } => Remedy::SetClient,
            Self::NoClientSecret | Self::NoAuthMethod(_) => Remedy::SetClientSecret,
            Self::TooManyScopes => Remedy::SetScopes,
            Self::IssuerMismatch { .. } => Remedy::AllowOtherIssuer,
            Self::EndpointRefused { why: NetworkRefusal::Near(_), .. } => Remedy::AllowPrivateNetwork,
            Self::EndpointRefused { why: NetworkRefusal::PlainHttp, .. } => Remedy::AllowPlainHttp,
            Self::EndpointRefused { .. } => Remedy::ReportToServer,
            Self::NoDpop => Remedy::UseDpop,
            Self::NoResourceMetadata(tried) if tried.iter().any(TriedPlace::is_unsure) => Remedy::TryLater,
            Self::NoResourceMetadata(_) => Remedy::SetToken,
            Self::NoEndpoint(_) => Remedy::UseOtherGrant,
            Self::Registration { .. } => Remedy::SetClient,
            Self::TokenRefused { error, .. } | Self::Denied(error) if error.is("invalid_target") => {
                Remedy::OmitResource
            }
            Self::TokenRefused { error, .. } | Self::Denied(error) if error.is("invalid_scope") => Remedy::SetScopes,
            Self::TokenRefused { error, .. } if error.is("invalid_client") => Remedy::SetClient,
            Self::Denied(_) | Self::DeviceCodeExpired | Self::TokenRefused { .. } => Remedy::SignInAgain,
            Self::Unavailable { .. } | Self::Unreachable { .. } | Self::NoServerMetadata { .. } => Remedy::TryLater,
            Self::CallbackIssuer | Self::CallbackWithoutCode => Remedy::SignInAgain,
            Self::ScopesRefused(_) | Self::TooManyAttempts | Self::NonceRefused | Self::NoPkce => {
                Remedy::ReportToServer
            }
            Self::ResourceMetadata { .. } | Self::ServerMetadata { .. } | Self::BadIssuer(_) => Remedy::ReportToServer,
            Self::BadTokenResponse { .. } | Self::TokenType { .. } => Remedy::ReportToServer,
        })
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Many variants quote a peer, so the whole text is escaped.
        let f = &mut EscapeWriter::new(f);
        match self {
            Self::NotAChallenge(status) => write!(f, "the status {status} does not ask for a sign-in"),
            Self::Forbidden => f.write_str("the server does not allow this request to the signed-in account"),
            Self::ScopesRefused(scopes) => {
                write!(f, "the server asks for the scopes \"{scopes}\", and refuses a token that has them")
            }
            Self::TooManyAttempts => f.write_str("the server has refused several new tokens in a row"),
            Self::NonceRefused => f.write_str("the server refuses proofs that have the nonce which it gave"),
            Self::BadServerUrl(why) => write!(f, "the URL of the server cannot be used: {why}"),
            Self::BadRedirectUri(uri) => {
                write!(f, "the redirect URI {uri} must begin with https://, or lead to this machine")
            }
            Self::NoResourceMetadata(tried) => {
                f.write_str("the server asks for a sign-in, but does not say where: ")?;
                places(f, tried)
            }
            Self::ResourceMetadata { url, why } => {
                write!(f, "the metadata at {url} cannot be used: ")?;
                resource_metadata(f, why)
            }
            Self::NoServerMetadata { issuer, tried } => {
                write!(f, "the authorization server {issuer} has no metadata: ")?;
                places(f, tried)
            }
            Self::ServerMetadata { url, why } => {
                write!(f, "the metadata at {url} cannot be used: ")?;
                server_metadata(f, why)
            }
            Self::BadIssuer(issuer) => write!(f, "the server names the issuer {issuer}, which is not a URL to use"),
            Self::IssuerMismatch { expected, found } => {
                write!(f, "the server names the issuer {expected}, but the metadata there is of {found}")
            }
            Self::NoEndpoint(name) => write!(f, "the authorization server has no {name}"),
            Self::EndpointRefused { name, url, why } => write!(f, "the {name} {url} is not used: {why}"),
            Self::NoPkce => {
                f.write_str("the authorization server does not support PKCE with S256, so codes could be stolen")
            }
            Self::TooManyScopes => {
                write!(f, "the scopes that the server lists are longer than {MAX_SCOPE_BYTES} bytes")
            }
            Self::NoClient => f.write_str("the authorization server registers no clients, and no client ID is set"),
            Self::NoClientSecret => f.write_str("a client that acts for itself needs a secret or a key"),
            Self::ClientOfOtherIssuer { registered, found } => {
                write!(f, "the client ID is registered with {registered}, but the server now uses {found}")
            }
            Self::NoAuthMethod(supported) => {
                let supported = shortened(&supported.join(", "));
                write!(f, "the authorization server accepts only {supported}, which this client cannot do")
            }
            Self::Registration { url, why } => registration(f, url, why),
            Self::CallbackIssuer => {
                f.write_str("the answer is not from the authorization server that was asked, and was discarded")
            }
            Self::CallbackWithoutCode => f.write_str("the authorization server answered without a code"),
            Self::Denied(error) => write!(f, "the sign-in was refused: {error}"),
            Self::DeviceCodeExpired => f.write_str("the code was not entered in time"),
            Self::TokenRefused { url, error } => write!(f, "{url} issued no token: {error}"),
            Self::BadTokenResponse { url, member } => {
                write!(f, "{url} issued no valid token: check \"{member}\" of its response")
            }
            Self::NoDpop => {
                f.write_str("tokens must be bound to a key (DPoP), which one of the sides does not support")
            }
            Self::TokenType { url } => write!(f, "{url} issued a token of another type than asked for"),
            Self::Unavailable { url, error } => write!(f, "{url} is not available: {error}"),
            Self::Unreachable { url, why } => write!(f, "{url} did not answer: {why}"),
            Self::Cancelled => f.write_str("the sign-in was cancelled"),
        }
    }
}

impl std::error::Error for StopReason {}

fn places(f: &mut impl Write, tried: &[TriedPlace]) -> fmt::Result {
    for (at, TriedPlace { url, found }) in tried.iter().enumerate() {
        f.write_str(if at == 0 { "" } else { "; " })?;
        write!(f, "{} ", shortened(url))?;
        match found {
            PlaceFound::Status(status) => write!(f, "answers with {status}")?,
            PlaceFound::NotMetadata => f.write_str("is not metadata")?,
            PlaceFound::OtherIssuer(issuer) => write!(f, "is of the issuer {issuer}")?,
            PlaceFound::Failed(why) => write!(f, "does not answer ({why})")?,
            PlaceFound::BadUrl(why) => write!(f, "cannot be used ({why})")?,
            PlaceFound::Refused(why) => write!(f, "is not fetched ({why})")?,
        }
    }
    Ok(())
}

fn resource_metadata(f: &mut impl Write, why: &BadResourceMetadata) -> fmt::Result {
    match why {
        BadResourceMetadata::NotMetadata => f.write_str("it is not metadata"),
        BadResourceMetadata::Member(name) => write!(f, "\"{name}\" has the wrong type"),
        BadResourceMetadata::OtherResource { found } => {
            write!(f, "it is about {}, and not about this server", shortened(found))
        }
        BadResourceMetadata::NoAuthorizationServer => f.write_str("it names no authorization server"),
    }
}

fn server_metadata(f: &mut impl Write, why: &BadServerMetadata) -> fmt::Result {
    match why {
        BadServerMetadata::NotMetadata => f.write_str("it is not metadata"),
        BadServerMetadata::Member(name) => write!(f, "\"{name}\" has the wrong type, or is not a URL"),
        BadServerMetadata::OtherIssuer { found } => write!(f, "it is of the issuer {}", shortened(found)),
    }
}

fn registration(f: &mut impl Write, url: &Url, why: &RegistrationError) -> fmt::Result {
    match why {
        RegistrationError::Refused(error) => {
            write!(f, "{url} does not register this client: {error}")
        }
        RegistrationError::Response(member) => {
            write!(f, "{url} sent no valid registration: check \"{member}\" of its response")
        }
        RegistrationError::AuthMethod(name) => {
            write!(f, "{url} registered the client to authenticate by {}, which it cannot do", shortened(name))
        }
    }
}
