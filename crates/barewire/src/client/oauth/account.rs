//! An account: the credentials for one server, and the network that the server was found in.

use std::fmt;

use barewire_proto::auth::{AddressKind, BadRecord, Credentials, Overrides};
use serde::{Deserialize, Serialize};

/// The result of a sign-in to one server, as a store keeps it. `Debug` shows no secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// The tokens, and what is needed to renew them.
    pub(super) credentials: Credentials,
    /// The network of the server's address at the sign-in. It decides which networks the token endpoint may be in.
    pub(super) network: AddressKind,
    /// The exceptions that the user has made for this server at the sign-in. A renewal needs them too.
    pub(super) exceptions: Exceptions,
}

/// The exceptions from the rules that a user has made for one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exceptions {
    pub(super) overrides: Overrides,
    /// Whether the server may name an authorization server in a private network.
    pub(super) private_networks: bool,
}

impl Exceptions {
    /// Returns the exceptions of both.
    pub(super) fn with(self, other: Self) -> Self {
        let (one, two) = (self.overrides, other.overrides);
        let overrides = Overrides::default()
            .issuer_may_differ(one.issuer_may_differ || two.issuer_may_differ)
            .no_resource(one.no_resource || two.no_resource)
            .scope_on_refresh(one.scope_on_refresh || two.scope_on_refresh)
            .pkce_unannounced(one.pkce_unannounced || two.pkce_unannounced);
        Self { overrides, private_networks: self.private_networks || other.private_networks }
    }
}

/// The members that are added to the record of the credentials.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct AddedMembers {
    network: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    overrides: Vec<String>,
}

#[derive(Serialize)]
struct AccountRecord<'a> {
    #[serde(flatten)]
    credentials: &'a Credentials,
    #[serde(flatten)]
    added: AddedMembers,
}

impl Account {
    /// Returns the URL of the server.
    pub fn server(&self) -> &str {
        &self.credentials.server
    }

    /// Returns the issuer of the token: the authorization server.
    pub fn issuer(&self) -> &str {
        &self.credentials.issuer
    }

    /// Returns the scopes of the token, separated by spaces.
    pub fn scopes(&self) -> String {
        self.credentials.scopes.to_string()
    }

    /// Returns the time at which the access token ends, in seconds since 1970; `None` if the server did not say.
    pub fn expires_at(&self) -> Option<u64> {
        self.credentials.expires_at
    }

    /// Whether the access token can be renewed without the user.
    pub fn is_renewable(&self) -> bool {
        self.credentials.refresh_token.is_some()
    }

    /// Whether the tokens are bound to a key (DPoP).
    pub fn is_bound_to_key(&self) -> bool {
        self.credentials.dpop_key.is_some()
    }

    /// Reads an account that [`Self::write`] has written.
    pub fn read(text: &[u8]) -> Result<Self, BadRecord> {
        let credentials = Credentials::read(text)?;
        let added: AddedMembers = serde_json::from_slice(text).map_err(|_| BadRecord::NotARecord)?;
        let network = NETWORKS.iter().find(|(_, name)| *name == added.network);
        let network = network.map_or(AddressKind::Public, |(kind, _)| *kind);
        let has = |name: &str| added.overrides.iter().any(|known| known == name);
        let overrides = Overrides::default()
            .issuer_may_differ(has(ISSUER_MAY_DIFFER))
            .no_resource(has(NO_RESOURCE))
            .scope_on_refresh(has(SCOPE_ON_REFRESH))
            .pkce_unannounced(has(PKCE_UNANNOUNCED));
        let exceptions = Exceptions { overrides, private_networks: has(PRIVATE_NETWORKS) };
        Ok(Self { credentials, network, exceptions })
    }

    /// Returns the account as JSON. The text contains secrets: write it only to a place that others cannot read.
    pub fn write(&self) -> String {
        let network = NETWORKS.iter().find(|(kind, _)| *kind == self.network).map_or("public", |(_, name)| *name);
        let Exceptions { overrides, private_networks } = self.exceptions;
        let overrides = [
            (overrides.issuer_may_differ, ISSUER_MAY_DIFFER),
            (overrides.no_resource, NO_RESOURCE),
            (overrides.scope_on_refresh, SCOPE_ON_REFRESH),
            (overrides.pkce_unannounced, PKCE_UNANNOUNCED),
            (private_networks, PRIVATE_NETWORKS),
        ];
        let overrides = overrides.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name.to_owned());
        let added = AddedMembers { network: network.to_owned(), overrides: overrides.collect() };
        serde_json::to_string_pretty(&AccountRecord { credentials: &self.credentials, added }).unwrap_or_default()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("server", &self.server())
            .field("issuer", &self.issuer())
            .finish_non_exhaustive()
    }
}

/// The networks and their names in a record. An unknown name is the strictest network.
const NETWORKS: [(AddressKind, &str); 3] =
    [(AddressKind::Public, "public"), (AddressKind::Private, "private"), (AddressKind::Loopback, "loopback")];

const ISSUER_MAY_DIFFER: &str = "issuer_may_differ";
const NO_RESOURCE: &str = "no_resource";
const SCOPE_ON_REFRESH: &str = "scope_on_refresh";
const PKCE_UNANNOUNCED: &str = "pkce_unannounced";
const PRIVATE_NETWORKS: &str = "private_networks";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_survives_its_text() {
        let text = r#"{"version":1,"server":"https://a.example/mcp","issuer":"https://as.example",
            "token_endpoint":"https://as.example/token","client":{"kind":"dynamic","id":"c"},"requested_scopes":"",
            "scopes":"","token_type":"Bearer","access_token":"hunter2","refresh_token":"hunter3",
            "network":"private","overrides":["no_resource","pkce_unannounced","private_networks","unknown"]}"#;
        let account = Account::read(text.as_bytes()).unwrap();
        assert_eq!(account.network, AddressKind::Private);
        let overrides = Overrides::default().no_resource(true).pkce_unannounced(true);
        assert_eq!(account.exceptions, Exceptions { overrides, private_networks: true });
        assert_eq!(Account::read(account.write().as_bytes()), Ok(account.clone()));
        assert!(!format!("{account:?}").contains("hunter"));
        let strict = Account::read(text.replace("private", "moon").as_bytes()).unwrap();
        assert_eq!(strict.network, AddressKind::Public);
    }
}
