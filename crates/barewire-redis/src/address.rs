//! The URL of a server -> where it is, whether with TLS, and as which user.

use std::fmt;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use crate::RedisError;

/// A server, and the user to be there.
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
    pub(crate) login: RedisConnectionInfo,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, RedisError> {
        let setting = |why: &str| RedisError::Setting(format!("{why}; write {FORM}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| setting("this is not a URL of a Redis server"))?;
        let is_tls = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(setting("the URL of a Redis server begins with redis:// or, with TLS, rediss://")),
        };
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

const FORM: &str =
    "redis://USER:PASSWORD@HOST:PORT/DATABASE, with `%2F` for `/`, `%23` for `#` and `%40` for `@` in the password";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_who() {
        let address = Address::parse("rediss://barewire:p%40ss%2Fword@redis.example:7000/3").unwrap();
        assert_eq!((address.server().as_str(), address.is_tls), ("redis.example:7000", true));
        let login = &address.login;
        assert_eq!((login.username(), login.password(), login.db()), (Some("barewire"), Some("p@ss/word"), 3));
        let address = Address::parse("valkey://[::1]").unwrap();
        assert_eq!((address.server().as_str(), address.is_tls), ("[::1]:6379", false));
        let address = Address::parse("redis://:word@127.0.0.1").unwrap();
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
            let error = Address::parse(url).expect_err(url).to_string();
            assert!(error.contains("write redis://USER:PASSWORD@HOST:PORT"), "{url}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("ter2"), "{url}: {error}");
        }
    }

    #[test]
    fn the_debug_form_has_no_password() {
        let address = Address::parse("redis://user:hunter2@localhost").unwrap();
        assert!(!format!("{address:?}").contains("hunter2"), "{address:?}");
    }
}
