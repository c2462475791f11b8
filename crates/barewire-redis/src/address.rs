//! The URL of a server or of a Redis Cluster -> where it is, whether with TLS, and as which user.

use std::fmt;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use crate::RedisError;

/// What a URL names.
#[derive(Debug)]
pub(crate) enum Target {
    Server(Address),
    /// Some of the servers of a Redis Cluster, at least one. They know the others.
    Cluster(Vec<Address>),
}

/// A server, and the user to be there.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
    pub(crate) login: RedisConnectionInfo,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, RedisError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| setting("this is not a URL of a Redis server"))?;
        let (is_tls, is_cluster) = match scheme {
            "redis" | "valkey" => (false, false),
            "rediss" | "valkeys" => (true, false),
            "redis-cluster" | "valkey-cluster" => (false, true),
            "rediss-cluster" | "valkeys-cluster" => (true, true),
            _ => return Err(setting("the URL of a Redis server begins with redis:// or, with TLS, rediss://")),
        };
        if !is_cluster {
            return Address::parse(rest, is_tls).map(Self::Server);
        }
        // The user is written once.
        let (user, hosts) = rest.rsplit_once('@').map_or(("", rest), |(user, hosts)| (user, hosts));
        let user = if rest.contains('@') { format!("{user}@") } else { String::new() };
        let addresses: Vec<Address> =
            hosts.split(',').map(|host| Address::parse(&format!("{user}{host}"), is_tls)).collect::<Result<_, _>>()?;
        if addresses.iter().any(|address| address.login.db() != 0) {
            return Err(setting("a Redis Cluster has only the database 0"));
        }
        Ok(Self::Cluster(addresses))
    }

    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Self::Server(address) => address.is_tls,
            Self::Cluster(addresses) => addresses.iter().any(|address| address.is_tls),
        }
    }
}

fn setting(why: &str) -> RedisError {
    RedisError::Setting(format!("{why}; write {FORM}"))
}

impl Address {
    /// Reads what follows the scheme of a URL.
    fn parse(rest: &str, is_tls: bool) -> Result<Self, RedisError> {
        if rest.contains(['#', '?']) {
            return Err(setting("the URL of a Redis server has no `?` and no `#`"));
        }
        // The client has no TLS of its own, so it does not know the schemes with TLS.
        let parsed = format!("redis://{rest}").into_connection_info();
        let info = parsed.map_err(|_| setting("the URL of the Redis server is not valid"))?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(setting("the URL of a Redis server has a host"));
        };
        let login = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
        if login.username().is_some() && login.password().is_none() {
            return Err(setting("the URL has a user without a password (a password without a user is `:PASSWORD@`)"));
        }
        Ok(Self { host: host.clone(), port: *port, is_tls, login })
    }

    /// Returns the host and the port, for errors and the log.
    pub(crate) fn server(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Without the password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("server", &self.server()).field("is_tls", &self.is_tls).finish_non_exhaustive()
    }
}

const FORM: &str = "redis://USER:PASSWORD@HOST:PORT/DATABASE or, for a Redis Cluster, \
     redis-cluster://USER:PASSWORD@HOST:PORT,HOST:PORT, with `%2F` for `/`, `%23` for `#` and `%40` for `@` in the \
     password";

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Address {
        match Target::parse(url).expect(url) {
            Target::Server(address) => address,
            Target::Cluster(_) => panic!("{url} is that of a cluster"),
        }
    }

    #[test]
    fn a_url_of_a_cluster_names_some_of_its_servers() {
        let Ok(Target::Cluster(servers)) = Target::parse("rediss-cluster://user:p%40ss@a.example,b.example:7000")
        else {
            panic!("it is valid")
        };
        let facts: Vec<_> = servers
            .iter()
            .map(|address| (address.server(), address.is_tls, address.login.username(), address.login.password()))
            .collect();
        let (user, password) = (Some("user"), Some("p@ss"));
        assert_eq!(
            facts,
            [("a.example:6379".to_owned(), true, user, password), ("b.example:7000".to_owned(), true, user, password)]
        );
        for url in ["redis-cluster://", "redis-cluster://a,", "redis-cluster://a:7000,b:7001/3", "redis-cluster://a@b"]
        {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(error.contains("redis-cluster://USER:PASSWORD@HOST:PORT,HOST:PORT"), "{url}: {error}");
        }
    }

    #[test]
    fn a_url_says_where_and_who() {
        let address = server("rediss://barewire:p%40ss%2Fword@redis.example:7000/3");
        assert_eq!((address.server().as_str(), address.is_tls), ("redis.example:7000", true));
        let login = &address.login;
        assert_eq!((login.username(), login.password(), login.db()), (Some("barewire"), Some("p@ss/word"), 3));
        let address = server("valkey://[::1]");
        assert_eq!((address.server().as_str(), address.is_tls), ("[::1]:6379", false));
        let address = server("redis://:word@127.0.0.1");
        assert_eq!((address.login.username(), address.login.password()), (None, Some("word")));
    }

    #[test]
    fn an_error_has_the_form_of_a_url_and_no_password() {
        for url in [
            "localhost:6379",
            "http://:hunter2@localhost",
            "redis://:hunter2/@localhost",
            "redis://:hun#ter2@localhost",
            "redis://:hunter2@localhost/#insecure",
            "redis://:hunter2@localhost/x",
            "redis://:hunter2@localhost:port",
            "redis://hunter2@localhost",
            "redis://:hunter2@",
            "unix:///run/redis.sock?pass=hunter2",
        ] {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(error.contains("write redis://USER:PASSWORD@HOST:PORT"), "{url}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("ter2"), "{url}: {error}");
        }
    }

    #[test]
    fn the_debug_form_has_no_password() {
        let address = server("redis://user:hunter2@localhost");
        assert!(!format!("{address:?}").contains("hunter2"), "{address:?}");
    }
}
