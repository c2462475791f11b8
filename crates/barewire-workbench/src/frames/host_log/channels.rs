//! The names of servers in a log -> the channels of a transcript. Each connection to a server is a channel.

use std::collections::{HashMap, HashSet};

use barewire_proto::transcript::Channel;

/// The channels of a log.
#[derive(Default)]
pub(super) struct LogChannels {
    /// Maps the name of each server to its current channel.
    current: HashMap<Vec<u8>, ServerChannel>,
    taken: HashSet<Channel>,
}

struct ServerChannel {
    channel: Channel,
    /// Whether the log has a message of this connection.
    has_messages: bool,
}

impl LogChannels {
    /// Returns the channel of a server. `begins` says that the line is about a new connection to it.
    pub(super) fn of(&mut self, server: &[u8], begins: bool) -> Channel {
        match self.current.get(server) {
            Some(known) if !(begins && known.has_messages) => return known.channel.clone(),
            // All further servers share the channel without a name.
            None if self.current.len() >= MAX_SERVERS => return Channel::default(),
            _ => {}
        }
        let channel = self.free(server);
        self.taken.insert(channel.clone());
        self.current.insert(server.to_vec(), ServerChannel { channel: channel.clone(), has_messages: false });
        channel
    }

    /// Notes that a connection has a message.
    pub(super) fn mark(&mut self, server: &[u8]) {
        if let Some(known) = self.current.get_mut(server) {
            known.has_messages = true;
        }
    }

    /// Returns a channel that no other connection has: `shop`, `shop.2`.
    fn free(&self, server: &[u8]) -> Channel {
        let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let name: String = server
            .iter()
            .take(MAX_CHANNEL)
            .map(|byte| if is_allowed(byte) { char::from(*byte) } else { '-' })
            .collect();
        let numbered =
            (2..=MAX_CONNECTIONS).map(|number| format!("{name}{}{number}", if name.is_empty() { "c" } else { "." }));
        let mut names = std::iter::once(name.clone()).chain(numbered).filter_map(|name| Channel::new(&name));
        names.find(|name| !self.taken.contains(name)).unwrap_or_default()
    }
}

/// The maximum number of servers: more than any host has.
const MAX_SERVERS: usize = 4096;
/// The maximum number of connections to one server. Later connections share the channel without a name.
const MAX_CONNECTIONS: usize = 10_000;
/// The maximum length of a channel's name; the rest of a longer name is left out.
const MAX_CHANNEL: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_a_channel_of_its_own() {
        let mut channels = LogChannels::default();
        let mut of = |server: &str, begins: bool, message: bool| {
            let channel = channels.of(server.as_bytes(), begins).as_str().to_owned();
            if message {
                channels.mark(server.as_bytes());
            }
            channel
        };
        assert_eq!(of("a b", true, false), "a-b");
        assert_eq!(of("a b", true, true), "a-b");
        assert_eq!(of("a b", false, true), "a-b");
        assert_eq!(of("a-b", true, true), "a-b.2");
        assert_eq!(of("a b", true, false), "a-b.3");
        assert_eq!(of("a b", false, false), "a-b.3");
        assert_eq!(of("", false, true), "");
        assert_eq!(of("", true, true), "c2");
    }
}
