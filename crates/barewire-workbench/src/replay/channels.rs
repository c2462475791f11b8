//! The entries of a capture and what is wanted of it -> the channels that are one conversation.
//!
//! On a stream that is one channel. Over HTTP every exchange has one of its own, and a session holds them together.

use std::collections::{BTreeSet, HashMap, HashSet};

use barewire_proto::transcript::{Entry, Note, Stream};

use crate::text::shown;
use crate::{Advice, Error};

/// The channels of one conversation.
#[derive(Debug)]
pub(super) struct Channels {
    pub(super) over_http: bool,
    names: HashSet<String>,
}

impl Channels {
    /// The channels of the conversation that the wanted channel is part of, or of the only one.
    pub(super) fn of(entries: &[Entry], wanted: Option<&str>) -> Result<Self, Error> {
        let found = CaptureChannels::of(entries);
        match wanted {
            Some(wanted) if found.exchanges.contains_key(wanted) => {
                let session = &found.exchanges[wanted].session;
                found.http(|exchange| exchange.session == *session)
            }
            Some(wanted) if found.streams.contains(wanted) => Ok(Self::stream(wanted)),
            Some(wanted) => {
                let hint = format!("it has: {}", found.listed());
                Err(Error::new(format!("it has no channel {wanted}")).with_hint(hint))
            }
            None => match (found.streams.iter().collect::<Vec<_>>().as_slice(), found.sessions()) {
                ([one], _) => Ok(Self::stream(one)),
                // What is in no session, as a question for the era, belongs to the only one that there is.
                ([], sessions) if sessions.len() < 2 && !found.exchanges.is_empty() => found.http(|_| true),
                ([], sessions) if sessions.is_empty() => {
                    Err(Error::new("there are no frames in it").with_advice(Advice::ReadCapture))
                }
                (streams, sessions) => {
                    let mut has = Vec::new();
                    if !streams.is_empty() {
                        has.push(format!("{} channels", streams.len()));
                    }
                    match sessions.len() {
                        0 => {}
                        1 => has.push("1 session over HTTP".to_owned()),
                        sessions => has.push(format!("{sessions} sessions over HTTP")),
                    }
                    if found.loose().is_some() {
                        has.push("exchanges in no session".to_owned());
                    }
                    let what = format!("it has {}", has.join(", and "));
                    Err(Error::new(what).with_advice(Advice::NameChannel { channels: found.listed() }))
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

/// The streams and exchanges of a capture.
#[derive(Default)]
struct CaptureChannels {
    streams: BTreeSet<String>,
    exchanges: HashMap<String, RecordedExchange>,
}

#[derive(Default)]
struct RecordedExchange {
    /// The number of exchanges that began before it.
    number: usize,
    session: Option<String>,
    /// The `Content-Encoding` of the response.
    encoding: Option<String>,
}

impl CaptureChannels {
    fn of(entries: &[Entry]) -> Self {
        let mut found = Self::default();
        for entry in entries {
            match entry {
                Entry::Bytes(bytes) if bytes.stream != Stream::Stderr => {
                    found.streams.insert(bytes.channel.as_str().to_owned());
                }
                Entry::Event(event) => {
                    if let Note::Head(stream, line) = &event.note {
                        found.head(event.channel.as_str(), *stream, line);
                    }
                }
                _ => {}
            }
        }
        let Self { streams, exchanges } = &mut found;
        streams.retain(|name| !exchanges.contains_key(name));
        found
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

    /// The first exchange of every session.
    fn sessions(&self) -> Vec<&str> {
        self.firsts(|exchange| exchange.session.is_some())
    }

    /// The first exchange that is in no session.
    fn loose(&self) -> Option<&str> {
        self.firsts(|exchange| exchange.session.is_none()).first().copied()
    }

    /// Of every conversation one channel.
    fn listed(&self) -> String {
        let mut all: Vec<&str> = self.streams.iter().map(String::as_str).chain(self.sessions()).collect();
        if all.len() > MAX_LISTED_CHANNELS {
            all.truncate(MAX_LISTED_CHANNELS);
            all.push("…");
        }
        let listed = all.join(", ");
        match self.loose() {
            Some(loose) if listed.is_empty() => loose.to_owned(),
            Some(loose) => format!("{listed}, or {loose} for what is in no session"),
            None => listed,
        }
    }

    /// The first exchange of every conversation of such.
    fn firsts(&self, is: impl Fn(&RecordedExchange) -> bool) -> Vec<&str> {
        let mut all: Vec<(&String, &RecordedExchange)> = self.exchanges.iter().filter(|(_, it)| is(it)).collect();
        all.sort_by_key(|(_, exchange)| exchange.number);
        let mut met = HashSet::new();
        all.retain(|(_, exchange)| met.insert(&exchange.session));
        all.into_iter().map(|(name, _)| name.as_str()).collect()
    }

    fn http(&self, is: impl Fn(&RecordedExchange) -> bool) -> Result<Channels, Error> {
        let all = || self.exchanges.iter().filter(|(_, exchange)| is(exchange));
        let encoded = all().filter_map(|(name, it)| Some((it.number, name, it.encoding.as_ref()?))).min();
        if let Some((_, name, encoding)) = encoded {
            let what = format!("the answer in exchange {name} is compressed with {}", shown(encoding.as_bytes(), 20));
            return Err(Error::new(what).with_advice(Advice::RecordUncompressed));
        }
        Ok(Channels { over_http: true, names: all().map(|(name, _)| name.clone()).collect() })
    }
}

/// Channels that are listed in a hint.
const MAX_LISTED_CHANNELS: usize = 20;

#[cfg(test)]
mod tests {
    use barewire_proto::transcript::read;

    use super::*;

    const TWO: &str = "@x1 head > POST /mcp HTTP/1.1\n@x1 head < HTTP/1.1 404 Not CaptureChannels\n\
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
        assert_eq!(unfit.hint().expect("a hint"), "name a channel: x2, x4, or x1 for what is in no session");
    }

    #[test]
    fn what_is_compressed_cannot_be_compared() {
        let text = format!("{TWO}@x3 head < HTTP/1.1 200 OK\n@x3 head < Content-Encoding: gzip\n");
        let unfit = channels(&text, None).expect_err("unreadable");
        assert_eq!(unfit.to_string(), "the answer in exchange x3 is compressed with gzip");
    }
}
