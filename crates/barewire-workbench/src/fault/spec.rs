//! Parses a fault and the selection of its messages, such as `<:split=3@tools/call%20`.

use std::time::Duration;

use barewire_proto::transcript::Stream;

use crate::duration;

/// One fault, and the messages that it applies to. docs/tap.md describes the text form.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSpec {
    name: &'static str,
    /// The direction of the messages; `None` for both directions.
    pub(super) stream: Option<Stream>,
    pub(super) kind: FaultKind,
    pub(super) which: MessageSelector,
    /// The percentage of the selected messages that get the fault.
    pub(super) percent: Option<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FaultKind {
    Split { pieces: usize },
    Coalesce { frames: usize },
    Dribble { pause: Duration },
    CutUtf8,
    Crlf,
    Bom,
    Junk { line: Vec<u8> },
    Truncate { keep: Option<usize> },
    Delay { time: Duration },
    Drop,
    Duplicate { times: usize },
    Reorder,
    HalfClose,
    Kill,
}

/// Selects which messages of one direction a fault changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MessageSelector {
    All,
    /// The messages with numbers from the first to the last, both included.
    Range(u64, u64),
    Every(u64),
    Method(String),
}

impl FaultSpec {
    /// Parses a fault, such as `<:drop@3`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (stream, rest) = match text.split_once(':') {
            Some((">", rest)) => (Some(Stream::ToServer), rest),
            Some(("<", rest)) => (Some(Stream::ToClient), rest),
            Some((other, _)) if other.len() <= 1 => return Err("the direction is > or <".into()),
            _ => (None, text),
        };
        let (rest, percent) = match cut(rest, '%') {
            Some((rest, number)) => {
                let percent = number.parse().ok().filter(|percent| (1..=100).contains(percent));
                let wrong = "expected a number from 1 to 100 after %; a % in the text of junk is written %%";
                (rest, Some(percent.ok_or(wrong)?))
            }
            None => (rest, None),
        };
        let (what, which) = match cut(rest, '@') {
            Some((what, which)) => (what, MessageSelector::parse(which)?),
            None => (rest, MessageSelector::All),
        };
        let (name, value) = match what.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (what, None),
        };
        let Some(name) = NAMES.iter().find(|known| **known == name) else {
            return Err(format!("there is no fault {name:?}; the faults are {}", NAMES.join(", ")));
        };
        Ok(Self { name, stream, kind: FaultKind::parse(name, value)?, which, percent })
    }

    /// Returns the name of the fault, as in captures.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl FaultKind {
    fn parse(name: &str, value: Option<&str>) -> Result<Self, String> {
        let number = |least: usize, default: usize| match value {
            None => Ok(default),
            Some(value) => value
                .parse()
                .ok()
                .filter(|number| (least..=MAX_VALUE).contains(number))
                .ok_or(format!("{name}= takes a number from {least} to {MAX_VALUE}")),
        };
        let time = |default: Option<Duration>| match value {
            None => default.ok_or(format!("{name} needs a time: {name}=50ms")),
            Some(value) => duration::parse(value).map_err(|why| format!("{name}=: {why}")),
        };
        Ok(match name {
            "split" => Self::Split { pieces: number(2, 2)? },
            "coalesce" => Self::Coalesce { frames: number(2, 2)? },
            "dribble" => Self::Dribble { pause: time(Some(Duration::from_millis(1)))? },
            "junk" => {
                let line = value.unwrap_or("this line is junk").replace("%%", "%").replace("@@", "@");
                if line.contains('\n') {
                    return Err("junk= takes one line".into());
                }
                Self::Junk { line: format!("{line}\n").into_bytes() }
            }
            "truncate" => Self::Truncate { keep: value.map(|_| number(0, 0)).transpose()? },
            "delay" => Self::Delay { time: time(None)? },
            "duplicate" => Self::Duplicate { times: number(2, 2)? },
            "cut-utf8" | "crlf" | "bom" | "drop" | "reorder" | "half-close" | "kill" if value.is_some() => {
                return Err(format!("{name} takes no value"));
            }
            "cut-utf8" => Self::CutUtf8,
            "crlf" => Self::Crlf,
            "bom" => Self::Bom,
            "drop" => Self::Drop,
            "reorder" => Self::Reorder,
            "half-close" => Self::HalfClose,
            _ => Self::Kill,
        })
    }
}

impl MessageSelector {
    fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
        if let Some(every) = text.strip_prefix("every") {
            return number(every).map(Self::Every).ok_or("every5 is every fifth message".into());
        }
        if let Some(nth) = number(text) {
            return Ok(Self::Range(nth, nth));
        }
        if let Some((first, last)) = text.split_once('-')
            && let (Some(first), Some(last)) = (number(first), number(last))
        {
            if first > last {
                return Err(format!("the range {first}-{last} is empty: the smaller number comes first"));
            }
            return Ok(Self::Range(first, last));
        }
        if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err("expected a number from 1, a range such as 3-5, every5, or a method after @".into());
        }
        Ok(Self::Method(text.to_owned()))
    }

    pub(super) fn fits(&self, number: u64, method: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Range(first, last) => (first..=last).contains(&&number),
            Self::Every(every) => number.is_multiple_of(*every),
            Self::Method(name) => method == Some(name),
        }
    }
}

/// Splits a text at the last `sign` that is not doubled. In the text of a junk line, a doubled `sign` stands for the
/// character itself.
fn cut(text: &str, sign: char) -> Option<(&str, &str)> {
    let (mut last, mut at) = (None, 0);
    while let Some(found) = text[at..].find(sign) {
        let behind = at + found + 1;
        if text[behind..].starts_with(sign) {
            at = behind + 1;
        } else {
            last = Some((&text[..behind - 1], &text[behind..]));
            at = behind;
        }
    }
    last
}

#[rustfmt::skip] // a table
const NAMES: &[&str] = &[
    "split", "coalesce", "dribble", "cut-utf8", "crlf", "bom", "junk", "truncate", "delay", "drop", "duplicate",
    "reorder", "half-close", "kill",
];

/// The maximum number of pieces, frames, copies or bytes in a fault.
const MAX_VALUE: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_read() {
        let spec = |stream, kind, which, percent| Ok((stream, kind, which, percent));
        let parse = |text| FaultSpec::parse(text).map(|it| (it.stream, it.kind, it.which, it.percent));
        let (up, down) = (Some(Stream::ToServer), Some(Stream::ToClient));
        let delay = FaultKind::Delay { time: Duration::from_millis(50) };
        assert_eq!(parse("<:split@3"), spec(down, FaultKind::Split { pieces: 2 }, MessageSelector::Range(3, 3), None));
        assert_eq!(parse(">:delay=50ms%20"), spec(up, delay, MessageSelector::All, Some(20)));
        assert_eq!(parse("<:drop@every5"), spec(down, FaultKind::Drop, MessageSelector::Every(5), None));
        let method = MessageSelector::Method("tools/call".into());
        assert_eq!(parse("drop@tools/call%5"), spec(None, FaultKind::Drop, method, Some(5)));
        assert_eq!(
            parse("truncate=0@2-4"),
            spec(None, FaultKind::Truncate { keep: Some(0) }, MessageSelector::Range(2, 4), None)
        );
        let junk = FaultKind::Junk { line: b"a:b=c\n".to_vec() };
        assert_eq!(parse("<:junk=a:b=c"), spec(down, junk, MessageSelector::All, None));
        let junk = |line: &[u8]| FaultKind::Junk { line: line.to_vec() };
        for (text, line, which, percent) in [
            ("junk=100%% wrong", &b"100% wrong\n"[..], MessageSelector::All, None),
            ("junk=me@@example.com, 100%%@2%30", b"me@example.com, 100%\n", MessageSelector::Range(2, 2), Some(30)),
            ("junk=%%%7", b"%\n", MessageSelector::All, Some(7)),
        ] {
            assert_eq!(parse(text), spec(None, junk(line), which, percent), "{text}");
        }
    }

    #[test]
    fn bad_specs_are_refused() {
        let specs =
            "|x|=:drop|drop=1|delay|delay=5x|split=1|drop@0|drop@|drop%0|drop%x|drop@3x|drop@5-3|junk=100% wrong";
        for text in specs.split('|') {
            assert!(FaultSpec::parse(text).is_err(), "{text}");
        }
    }
}
