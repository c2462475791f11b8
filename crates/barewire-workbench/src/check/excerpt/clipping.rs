//! A message, and the fault in it -> the bytes around the fault, with enough context to find the secrets in them.

use std::ops::Range;

use barewire_proto::json::{Json, Kind};

use super::line::ExcerptLine;
use super::pointer::{self, offset};
use crate::secrets::{EXCERPT_LIMIT, Redactor};

/// The fault in a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault<'a> {
    /// The message as a whole.
    Whole,
    /// The token at this offset.
    Byte(usize),
    /// The value at this JSON Pointer.
    Member(&'a str),
}

/// The bytes around a fault, not redacted.
#[derive(Debug, Clone)]
pub(super) struct Clipping {
    /// The brackets and names that are open where the bytes begin. They are never shown, but a name can say that all
    /// values after it are secrets.
    context: Box<[u8]>,
    bytes: Box<[u8]>,
    /// The range of the fault in `bytes`; empty if the fault is a missing byte.
    fault: Option<Range<usize>>,
    is_cut_before: bool,
    is_cut_after: bool,
    /// Whether a secret may continue after the bytes.
    is_open: bool,
}

impl Clipping {
    /// Returns up to `EXCERPT_LIMIT` bytes around a fault.
    pub(super) fn around(text: &[u8], fault: Fault<'_>) -> Self {
        let fault = match fault {
            // Every message begins at byte 0, so this is not a part of it.
            Fault::Whole | Fault::Byte(0) => None,
            Fault::Byte(at) => Some(token(text, at)),
            Fault::Member(path) => pointer::range(text, path),
        };
        match fault {
            Some(fault) if text.len() > EXCERPT_LIMIT => Self::cut_around(text, fault),
            fault => Self::between(text, 0..text.len().min(EXCERPT_LIMIT), Box::default(), fault),
        }
    }

    fn cut_around(text: &[u8], fault: Range<usize>) -> Self {
        let end = text.len().min(fault.end + EXCERPT_LIMIT / 4);
        let is_long = fault.len() > EXCERPT_LIMIT / 2;
        let (start, context) = match fault.start.saturating_sub(EXCERPT_LIMIT / 2) {
            // The end of a long text, such as a traceback, says more than its start.
            _ if is_long => {
                let (_, mut context) = window_start(text, fault.start, fault.start);
                context.extend_from_slice(&text[fault.start..=fault.start]);
                (word_start(text, fault.end - EXCERPT_LIMIT / 2, fault.end), context)
            }
            0 => (0, Vec::new()),
            from => window_start(text, from, fault.start),
        };
        Self::between(text, start..end, context.into(), Some(fault))
    }

    /// Returns the start of a request, and its id if that comes later. The id is the fault.
    pub(super) fn request(text: &[u8]) -> Vec<Self> {
        let id = Json::parse(text).ok().and_then(|message| {
            let id = message.members().filter(|member| member.name == "id").last()?;
            let (name, value) = (id.name.raw().as_bytes(), id.value.as_bytes());
            let start = offset(text, value);
            Some((offset(text, name), start..start + value.len().min(MAX_ID)))
        });
        let end = text.len().min(MAX_REQUEST);
        let (inside, after) = match id {
            Some((_, id)) if id.end <= end => (Some(id), None),
            after => (None, after),
        };
        let start = Self::between(text, 0..end, Box::default(), inside);
        let id = after.map(|(name, id)| {
            let is_last = text[id.end..].iter().all(|b| *b == b'}' || b.is_ascii_whitespace());
            let end = if is_last { text.len().min(id.end + MAX_ID) } else { id.end };
            let id = Self::between(text, name..end, Box::from(*b"{"), Some(id));
            Self { is_open: false, ..id }
        });
        std::iter::once(start).chain(id).collect()
    }

    fn between(text: &[u8], part: Range<usize>, context: Box<[u8]>, fault: Option<Range<usize>>) -> Self {
        let place = |at: usize| at.clamp(part.start, part.end) - part.start;
        Self {
            context,
            bytes: text[part.clone()].into(),
            fault: fault.map(|fault| place(fault.start)..place(fault.end)),
            is_cut_before: part.start > 0,
            is_cut_after: part.end < text.len(),
            is_open: part.end < text.len(),
        }
    }

    pub(super) fn unmark(&mut self) {
        self.fault = None;
    }

    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.context.len() + self.bytes.len()
    }

    /// Redacts and escapes the bytes.
    pub(super) fn line(self, redactor: &mut Redactor) -> ExcerptLine {
        let fault = self.fault.clone().unwrap_or(0..0);
        let parts = redactor.parts(&self.context, &self.bytes, fault, self.is_open);
        ExcerptLine::new(parts, self.fault.is_some(), self.is_cut_before, self.is_cut_after)
    }
}

/// Returns the range of the token that begins at this offset: a string, a word, or one byte; an empty range at the end.
fn token(text: &[u8], at: usize) -> Range<usize> {
    let Some((first, rest)) = text.get(at..).and_then(<[u8]>::split_first) else { return text.len()..text.len() };
    let length = match first {
        b'"' => string_length(rest),
        first if is_word(*first) => rest.iter().take_while(|b| is_word(**b)).count(),
        // The rest of a character, so that it is not split.
        _ => rest.iter().take(3).take_while(|b| matches!(b, 0x80..=0xbf)).count(),
    };
    at..at + 1 + length
}

/// Returns the length of the rest of a string, with its closing quote.
fn string_length(rest: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = rest.iter().position(|b| {
        let is_end = *b == b'"' && !is_escaped;
        is_escaped = *b == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(rest.len(), |end| end + 1)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_')
}

/// Returns an offset between `from` and `fault` at which no secret is cut, and the brackets and names that are open
/// there. In JSON, this is the start of a member or an element; in other text, the start of a word.
fn window_start(text: &[u8], from: usize, fault: usize) -> (usize, Vec<u8>) {
    let Ok(mut value) = Json::parse(text) else { return (word_start(text, from, fault), Vec::new()) };
    let mut context = Vec::new();
    while context.len() < MAX_CONTEXT {
        let children = value.members().map(|it| (Some(it.name.raw()), it.value));
        let mut children = children.chain(value.elements().map(|child| (None, child)));
        // The first child that ends after `from`.
        let found = children.find(|(_, child)| offset(text, child.as_bytes()) + child.as_bytes().len() > from);
        let Some((name, child)) = found else {
            // Only closing brackets follow before the next child.
            return (from, context);
        };
        let start = offset(text, child.as_bytes());
        let begin = name.map_or(start, |name| offset(text, name.as_bytes()));
        context.push(if name.is_some() { b'{' } else { b'[' });
        let is_container = matches!(child.kind(), Kind::Object | Kind::Array);
        let end = start + child.as_bytes().len();
        match () {
            () if begin >= from || !is_container && from - begin < EXCERPT_LIMIT / 4 => {
                return (begin.min(fault), context);
            }
            () if !is_container && end <= fault => return (end, context),
            () => {}
        }
        if let Some(name) = name {
            context.extend_from_slice(name.as_bytes());
            context.push(b':');
        }
        value = child;
        if !is_container {
            break;
        }
    }
    // The fault is in a long string. What is before the fault is left out.
    (fault, context)
}

/// Returns the first offset from `from` on at which a word may begin: after white space, written as a character or as an
/// escape in a string.
fn word_start(text: &[u8], from: usize, end: usize) -> usize {
    let is_space = |pair: &[u8]| pair[1].is_ascii_whitespace() || matches!(pair, [b'\\', b'n' | b'r' | b't']);
    text[from..end].windows(2).position(is_space).map_or(from, |space| from + space + 2)
}

/// The maximum length of the start of a request, in bytes. The redactor holds back up to 1.4 KB of it, and the rest is
/// enough for two lines of a terminal.
const MAX_REQUEST: usize = 2048;
/// The maximum length of an id that is kept.
const MAX_ID: usize = 60;
/// The maximum length of the names around the bytes: those of 32 levels.
const MAX_CONTEXT: usize = 4096;
