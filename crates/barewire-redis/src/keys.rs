//! Names of the library -> keys of Redis.

use crate::RedisError;

/// The prefix of all keys of a cluster.
#[derive(Debug, Clone)]
// Invariant: without braces, so that the first brace of a key ends the prefix.
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Result<Self, RedisError> {
        if prefix.is_empty() || prefix.contains(['{', '}']) || prefix.chars().any(char::is_control) {
            let why = "the prefix of the keys must not be empty, and has no braces and no control characters";
            return Err(RedisError::Setting(why.into()));
        }
        Ok(Self { prefix: prefix.to_owned() })
    }

    /// Returns the key of a record or a log. The first two parts of the name are the hash tag, so that Redis Cluster
    /// keeps the names that belong together on one machine.
    pub(crate) fn name(&self, name: &str) -> String {
        let tag = hash_tag(name);
        let rest = &name[tag.len()..];
        format!("{}:{{{tag}}}{rest}", self.prefix)
    }

    /// Returns the key of the number that was given to a node last.
    pub(crate) fn last_number(&self) -> String {
        format!("{}:{{nodes}}:last", self.prefix)
    }

    /// Returns the key of the set of all nodes, the dead ones included.
    pub(crate) fn nodes(&self) -> String {
        format!("{}:{{nodes}}:all", self.prefix)
    }

    /// Returns the key of a node's lease without the node's number.
    pub(crate) fn leases(&self) -> String {
        format!("{}:{{nodes}}:lease:", self.prefix)
    }

    /// Returns the key of the messages to a node.
    pub(crate) fn inbox(&self, node: u32) -> String {
        format!("{}:{{node/{node}}}:inbox", self.prefix)
    }
}

/// Returns the first two parts of a name.
pub(crate) fn hash_tag(name: &str) -> &str {
    let end = name.match_indices('/').nth(1).map_or(name.len(), |(end, _)| end);
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_parts_of_a_name_are_the_hash_tag() {
        let keys = Keys::new("barewire").unwrap();
        assert_eq!(keys.name("session/Zx9"), "barewire:{session/Zx9}");
        assert_eq!(keys.name("session/Zx9/events"), "barewire:{session/Zx9}/events");
        assert_eq!(keys.name("session/Zx9/a/b"), "barewire:{session/Zx9}/a/b");
        assert_eq!(keys.name("keys"), "barewire:{keys}");
    }

    #[test]
    fn different_names_have_different_keys() {
        let keys = Keys::new("barewire").unwrap();
        let names = ["a/b", "a/b/", "a/b}/c", "a/b/}c", "a/{b}", "a/{b", "a/b}", "nodes", "node/1", "nodes}:all", ""];
        let mut all: Vec<String> = names.iter().map(|name| keys.name(name)).collect();
        all.extend([keys.last_number(), keys.nodes(), keys.leases(), keys.inbox(1)]);
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "{all:?}");
    }

    #[test]
    fn a_prefix_has_no_braces() {
        for prefix in ["", "{a}", "a}", "a\n"] {
            assert!(Keys::new(prefix).is_err(), "{prefix:?}");
        }
        assert!(Keys::new("team-a:staging").is_ok());
    }
}
