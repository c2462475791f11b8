//! Finds the channels that belong to one conversation in a capture.
//!
//! A stream is one channel. Over HTTP every exchange has its own channel, and a session is a group of exchanges.

use std::collections::{BTreeSet, HashMap, HashSet};

use barewire_proto::transcript::{Entry, Note, Stream};

use crate::text::shown;
use crate::{Advice, Error};

#[derive(Debug)]
pub(super) struct Channels {
    pub(super) over_http: bool,
    names: HashSet<String>,
}

impl Channels {
    /// Returns the channels of the conversation that contains the wanted channel, or of the only conversation.
    pub(super) fn of(entries: &[Entry], wanted: Option<&str>) -> Result<Self, Error> {
        let all = CaptureChannels::of(entries);
        match wanted {
            Some(wanted) if all.exchanges.contains_key(wanted) => {
                let session = &all.exchanges[wanted].session;
                all.http(|exchange| exchange.session == *session)
            }
            Some(wanted) if all.streams.contains(wanted) => Ok(Self::stream(wanted)),
            Some(wanted) => {
                let hint = format!("its channels: {}", all.list());
                Err(Error::new(format!("it has no channel {wanted}")).with_hint(hint))
            }
            None => match (all.streams.len(), all.sessions().len()) {
                (1, _) => Ok(Self::stream(all.streams.first().expect("one stream"))),
                // Exchanges without a session, such as the request that finds out the server's era, belong to the only
                // session.
                (0, 0 | 1) if !all.exchanges.is_empty() => all.http(|_| true),
                (0, 0) => Err(Error::new("the input has no frames").with_advice(Advice::ReadCapture)),
                (streams, sessions) => {
                    let plural = if sessions == 1 { "" } else { "s" };
                    let parts = [
                        (streams > 0).then(|| format!("{streams} channels")),
                        (sessions > 0).then(|| format!("{sessions} session{plural} over HTTP")),
                        all.sessionless().map(|_| "exchanges in no session".to_owned()),
                    ];
                    let parts: Vec<String> = parts.into_iter().flatten().collect();
                    let advice = Advice::NameChannel { channels: all.list() };
                    Err(Error::new(format!("it has {}", parts.join(", and "))).with_advice(advice))
                }
            },
        }
    }

    fn stream(name: &str) -> Self {
        Self { over_http: false, names: HashSet::from([name.to_owned()]) }
    }

    pub(super) fn has(&self, channel: &str) -> bool {
        self.names.contains(channel)
    }
}

#[derive(Default)]
struct CaptureChannels {
    streams: BTreeSet<String>,
    exchanges: HashMap<String, RecordedExchange>,
}

#[derive(Default)]
struct RecordedExchange {
    /// The number of exchanges that began before this one.
    number: usize,
    session: Option<String>,
    /// The `Content-Encoding` of the response.
    encoding: Option<String>,
}

impl CaptureChannels {
    fn of(entries: &[Entry]) -> Self {
        let mut all = Self::default();
        for entry in entries {
            match entry {
                Entry::Bytes(bytes) if bytes.stream != Stream::Stderr => {
                    all.streams.insert(bytes.channel.as_str().to_owned());
                }
                Entry::Event(event) => {
                    if let Note::Head(stream, line) = &event.note {
                        all.head(event.channel.as_str(), *stream, line);
                    }
                }
                _ => {}
            }
        }
        let Self { streams, exchanges } = &mut all;
        streams.retain(|name| !exchanges.contains_key(name));
        all
    }

    fn head(&mut self, channel: &str, stream: Stream, line: &[u8]) {
        let number = self.exchanges.len();
        let exchange = self.exchanges.entry(channel.to_owned());
        let exchange = exchange.or_insert_with(|| RecordedExchange { number, ..RecordedExchange::default() });
        let line = String::from_utf8_lossy(line);
        let Some((name, value)) = line.split_once(':') else { return };
        let value = value.trim().to_owned();
        if name.eq_ignore_ascii_case("mcp-session-id") {
            exchange.session.get_or_insert(value);
        } else if name.eq_ignore_ascii_case("content-encoding")
            && stream == Stream::ToClient
            && !value.eq_ignore_ascii_case("identity")
        {
            exchange.encoding = Some(value);
        }
    }

    /// Returns the channel of the first exchange in every session.
    fn sessions(&self) -> Vec<&str> {
        self.first_of_each_session(|exchange| exchange.session.is_some())
    }

    /// Returns the channel of the first exchange without a session.
    fn sessionless(&self) -> Option<&str> {
        self.first_of_each_session(|exchange| exchange.session.is_none()).first().copied()
    }

    /// Returns a list with one channel of every conversation.
    fn list(&self) -> String {
        let mut all: Vec<&str> = self.streams.iter().map(String::as_str).chain(self.sessions()).collect();
        if all.len() > MAX_LISTED_CHANNELS {
            all.truncate(MAX_LISTED_CHANNELS);
            all.push("…");
        }
        let listed = all.join(", ");
        match self.sessionless() {
            Some(exchange) if listed.is_empty() => exchange.to_owned(),
            Some(exchange) => format!("{listed}, or {exchange} for the exchanges in no session"),
            None => listed,
        }
    }

    /// Returns the first exchange of every session, among the exchanges that `includes` accepts.
    fn first_of_each_session(&self, includes: impl Fn(&RecordedExchange) -> bool) -> Vec<&str> {
        let mut all: Vec<(&String, &RecordedExchange)> = self.exchanges.iter().filter(|(_, it)| includes(it)).collect();
        all.sort_by_key(|(_, exchange)| exchange.number);
        let mut sessions = HashSet::new();
        all.retain(|(_, exchange)| sessions.insert(&exchange.session));
        all.into_iter().map(|(name, _)| name.as_str()).collect()
    }

    fn http(&self, includes: impl Fn(&RecordedExchange) -> bool) -> Result<Channels, Error> {
        let all = || self.exchanges.iter().filter(|(_, exchange)| includes(exchange));
        let encoded = all().filter_map(|(name, it)| Some((it.number, name, it.encoding.as_ref()?))).min();
        if let Some((_, name, encoding)) = encoded {
            let what = format!("the response in exchange {name} is compressed with {}", shown(encoding.as_bytes(), 20));
            return Err(Error::new(what).with_advice(Advice::RecordUncompressed));
        }
        Ok(Channels { over_http: true, names: all().map(|(name, _)| name.clone()).collect() })
    }
}

/// The maximum number of channels that a hint lists.
const MAX_LISTED_CHANNELS: usize = 20;

#[cfg(test)]
mod tests {
    use barewire_proto::transcript::read;

    use super::*;

    const TWO: &str = "@x1 head > POST /mcp HTTP/1.1\n@x1 head < HTTP/1.1 404 Not Found\n\
        @x2 head > POST /mcp HTTP/1.1\n@x2 head < HTTP/1.1 200 OK\n@x2 head < Mcp-Session-Id: a\n\
        @x3 head > POST /mcp HTTP/1.1\n@x3 head > mcp-session-id: a\n";

    fn channels(text: &str, wanted: Option<&str>) -> Result<Vec<String>, Error> {
        let channels = Channels::of(&read(text.as_bytes()).expect("a transcript"), wanted)?;
        let mut names: Vec<String> = channels.names.into_iter().collect();
        names.sort();
        Ok(names)
    }

    #[test]
    fn a_session_is_its_exchanges() {
        assert_eq!(channels(TWO, None).expect("one session"), ["x1", "x2", "x3"]);
        assert_eq!(channels(TWO, Some("x3")).expect("its session"), ["x2", "x3"]);
        assert_eq!(channels(TWO, Some("x1")).expect("no session"), ["x1"]);
        let more = format!("{TWO}@x4 head > POST /mcp HTTP/1.1\n@x4 head > mcp-session-id: b\n");
        let unfit = channels(&more, None).expect_err("two sessions");
        assert_eq!(unfit.to_string(), "it has 2 sessions over HTTP, and exchanges in no session");
        assert_eq!(unfit.hint().expect("a hint"), "name a channel: x2, x4, or x1 for the exchanges in no session");
    }

    #[test]
    fn compressed_responses_are_refused() {
        let text = format!("{TWO}@x3 head < HTTP/1.1 200 OK\n@x3 head < Content-Encoding: gzip\n");
        let unfit = channels(&text, None).expect_err("unreadable");
        assert_eq!(unfit.to_string(), "the response in exchange x3 is compressed with gzip");
    }
}
