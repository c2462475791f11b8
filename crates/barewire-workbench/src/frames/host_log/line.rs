//! One line of a host's log -> its time, the server that it is about, and its content.
//!
//! | host | line |
//! |---|---|
//! | Claude Desktop | `2026-07-28T09:30:00.125Z [info] [server] Message from client: {…}` |
//! | Claude Desktop in 2025 | `2026-07-28T09:30:00.125Z [server] [info] Message from client: {…}` |
//! | VS Code | `2026-07-28 09:30:00.125 [debug] [editor -> server] {…}` |
//! | VS Code, first versions | `2026-07-28 09:30:00.125 [info] [Client Says] {…}` |
//! | JetBrains with Copilot | `[2026-07-28 09:30:00.125][info] [server]text` |
//! | Cursor | `2026-07-28 09:30:00.125 [info] text` |
//! | Claude Code | `2026-07-28T09:30:00.125Z [DEBUG] MCP server "server": text` |

use barewire_proto::transcript::Stream;

use crate::frames::timestamp::Timestamp;

/// A line of a log that begins with a time and a level.
#[derive(Debug, PartialEq)]
pub(super) struct LogLine<'a> {
    pub(super) time: Timestamp,
    /// The text of the time, without brackets.
    pub(super) time_text: &'a [u8],
    pub(super) shape: LineShape,
    /// The name of the server; `None` if the line does not name one.
    pub(super) server: Option<&'a [u8]>,
    pub(super) content: LineContent<'a>,
}

/// The form of the time. All lines that a host writes have the same form; a server that also writes the time to its
/// stderr usually has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineShape {
    is_bracketed: bool,
    separator: u8,
    pub(super) has_zone: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum LineContent<'a> {
    /// A message, from its first byte on.
    Message { stream: Stream, text: &'a [u8] },
    /// A line that the server wrote to its stderr.
    Stderr(&'a [u8]),
    /// Anything else.
    Note(&'a [u8]),
}

impl<'a> LogLine<'a> {
    /// Reads a line; `None` if the line does not begin with a time and a level.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let (text, is_bracketed) = match line.strip_prefix(b"[") {
            Some(text) => (text, true),
            None => (line, false),
        };
        let time = Timestamp::at_start(text)?;
        let (time_text, rest) = text.split_at(time.length);
        let rest = if is_bracketed { rest.strip_prefix(b"]")? } else { rest };
        let shape = LineShape { is_bracketed, separator: time.separator, has_zone: time.has_zone };
        // VS Code has a log for each server, and words in brackets that are not the name of a server.
        let names_server = is_bracketed || time.has_zone;
        let (mut rest, mut server, mut has_level) = (rest.trim_ascii_start(), None, false);
        while let Some((word, behind)) = bracketed(rest) {
            let (is_level, direction) = (is_level(word), direction(word));
            match (is_level, direction) {
                (true, _) if !has_level => has_level = true,
                (_, Some(stream)) if has_level => {
                    let content = message(stream, behind);
                    return Some(Self { time, time_text, shape, server, content });
                }
                _ if word == STDERR && has_level => {
                    let content = LineContent::Stderr(behind.strip_prefix(b" ").unwrap_or(behind));
                    return Some(Self { time, time_text, shape, server, content });
                }
                _ if names_server && server.is_none() && is_name(word) => server = Some(word),
                _ => break,
            }
            rest = behind.trim_ascii_start();
        }
        if !has_level {
            return None;
        }
        let (named, content) = content(rest);
        Some(Self { time, time_text, shape, server: server.or(named), content })
    }

    /// Whether only a host that logs MCP writes such a line.
    pub(super) fn is_about_mcp(&self) -> bool {
        match self.content {
            LineContent::Message { .. } | LineContent::Stderr(_) => true,
            LineContent::Note(text) => self.server.is_some() && CONNECTS.iter().any(|words| text.starts_with(words)),
        }
    }

    /// Whether the line says that the host begins a connection to the server.
    pub(super) fn begins_connection(&self) -> bool {
        matches!(self.content, LineContent::Note(text) if CONNECTS.iter().any(|words| text.starts_with(words)))
    }
}

/// Reads the text after the brackets. Returns the server that the text names, and its content.
fn content(text: &[u8]) -> (Option<&[u8]>, LineContent<'_>) {
    for (words, stream) in MESSAGES {
        if let Some(rest) = text.strip_prefix(words.as_bytes()) {
            return (None, message(*stream, rest));
        }
    }
    let Some(rest) = text.strip_prefix(b"MCP server \"") else { return (None, LineContent::Note(text)) };
    let Some(end) = rest.iter().take(MAX_NAME).position(|byte| *byte == b'"') else {
        return (None, LineContent::Note(text));
    };
    let (name, behind) = (&rest[..end], &rest[end + 1..]);
    let behind = behind.strip_prefix(b":").unwrap_or(behind).trim_ascii_start();
    match behind.strip_prefix(b"Server stderr: ") {
        Some(line) => (Some(name), LineContent::Stderr(line)),
        None => (Some(name), LineContent::Note(behind)),
    }
}

fn message(stream: Stream, text: &[u8]) -> LineContent<'_> {
    let text = text.trim_ascii_start();
    match text.first() {
        Some(b'{' | b'[') => LineContent::Message { stream, text },
        // VS Code writes some of its own errors with a direction.
        _ => LineContent::Note(text),
    }
}

/// Splits off a word in brackets at the start of the text.
fn bracketed(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = text.strip_prefix(b"[")?;
    let end = inside.iter().take(MAX_NAME).position(|byte| *byte == b']')?;
    Some((&inside[..end], &inside[end + 1..]))
}

fn is_level(word: &[u8]) -> bool {
    LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level.as_bytes()))
}

fn direction(word: &[u8]) -> Option<Stream> {
    DIRECTIONS.iter().find(|(words, _)| words.as_bytes() == word).map(|(_, stream)| *stream)
}

/// Whether a word in brackets can be the name of a server, and not the start of a JSON array.
fn is_name(word: &[u8]) -> bool {
    !word.is_empty() && !word.iter().any(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b','))
}

const LEVELS: &[&str] =
    &["trace", "debug", "verbose", "info", "log", "notice", "warning", "warn", "error", "critical", "fatal"];

/// The words in brackets before a message.
const DIRECTIONS: &[(&str, Stream)] = &[
    ("editor -> server", Stream::ToServer),
    ("server -> editor", Stream::ToClient),
    ("client -> server", Stream::ToServer),
    ("server -> client", Stream::ToClient),
    ("Client Says", Stream::ToServer),
    ("Server Says", Stream::ToClient),
];

const STDERR: &[u8] = b"server stderr";

/// The words before a message that are not in brackets.
const MESSAGES: &[(&str, Stream)] =
    &[("Message from client: ", Stream::ToServer), ("Message from server: ", Stream::ToClient)];

/// The first words of a line about a new connection.
const CONNECTS: &[&[u8]] = &[b"Initializing server", b"Starting server ", b"Starting connection"];

/// The maximum length of the name of a server: longer than any name that people choose.
const MAX_NAME: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<(Option<&str>, String)> {
        let text = |bytes| std::str::from_utf8(bytes).expect("UTF-8");
        let line = LogLine::read(line.as_bytes())?;
        let content = match line.content {
            LineContent::Message { stream, text: json } => format!("{} {}", stream.sigil(), text(json)),
            LineContent::Stderr(line) => format!("! {}", text(line)),
            LineContent::Note(line) => format!("@ {}", text(line)),
        };
        Some((line.server.map(text), content))
    }

    #[test]
    fn every_host_has_its_form() {
        let cases = [
            ("2026-07-28T09:30:00.1Z [info] [a b] Message from client: {}", Some("a b"), "> {}"),
            (
                "2026-07-28T09:30:00.1Z [shop] [info] Message from server: {} { metadata: undefined }",
                Some("shop"),
                "< {} { metadata: undefined }",
            ),
            ("2026-07-28T09:30:00.1Z [info] Connected to MCP server shop!", None, "@ Connected to MCP server shop!"),
            ("2026-07-28 09:30:00.125 [debug] [editor -> server] {\"id\":1}", None, "> {\"id\":1}"),
            ("2026-07-28 09:30:00.125 [info] [Server Says] {}", None, "< {}"),
            ("2026-07-28 09:30:00.125 [warning] [server stderr]  ready [1]", None, "!  ready [1]"),
            ("2026-07-28 09:30:00.125 [info] [other] text", None, "@ [other] text"),
            (
                "2026-07-28 09:30:00.125 [info] user-shop: Handling ListOfferings action",
                None,
                "@ user-shop: Handling ListOfferings action",
            ),
            (
                "[2026-07-28 09:30:00.125][error]   [shop]Connection state: Error",
                Some("shop"),
                "@ Connection state: Error",
            ),
            (
                "2026-07-28T09:30:00.1Z [DEBUG] MCP server \"shop\": Starting connection with timeout",
                Some("shop"),
                "@ Starting connection with timeout",
            ),
            ("2026-07-28T09:30:00.1Z [ERROR] MCP server \"shop\" Server stderr: ready", Some("shop"), "! ready"),
        ];
        for (line, server, content) in cases {
            assert_eq!(read(line), Some((server, content.to_owned())), "{line}");
        }
    }

    #[test]
    fn other_lines_have_no_form() {
        for line in [
            "2026-07-28 09:30:00,310 - root - INFO - ready",
            "2026-07-28T09:30:00.172892Z  INFO server: ready",
            "[2026-07-28 09:30:00] INFO: ready",
            "[supergateway] Starting...",
            "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}",
            "    at Timeout._onTimeout (cli.js:1383:5751)",
            "",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
