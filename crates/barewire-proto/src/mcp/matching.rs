//! Matches a URI against a template, in time linear in the length of the URI and without backtracking.
//!
//! The parts of a template become steps, and each step leads only to later steps. The first pass goes from the last
//! step to the first. For each step it walks over the URI once and computes the offsets at which the step can begin so
//! that the rest of the URI matches, as one bit per offset. The second pass goes from the first step to the last and
//! extracts the values.

use std::ops::Range;

use super::template::{Operator, TemplatePart, encode, triplet};

/// The steps of a template. Each step continues with the next step in the list, unless it names another step.
#[derive(Clone)]
pub(super) struct MatchProgram {
    steps: Vec<MatchStep>,
}

#[derive(Debug, Clone)]
enum MatchStep {
    /// Matches these bytes. `borders` is the table that [`occurrences`] needs.
    Literal { bytes: Vec<u8>, borders: Vec<usize> },
    /// Matches a value that consists of allowed characters other than the byte `except`. The value can be empty if
    /// `empty` is set.
    Value { index: usize, allowed: AllowedChars, except: Option<u8>, empty: bool },
    /// Continues with the next step, or with the step at this index if the next step does not match.
    Or(usize),
    /// Continues with the step at this index.
    Then(usize),
}

/// The characters that a value can contain besides percent-encoded bytes.
#[derive(Debug, Clone, Copy)]
enum AllowedChars {
    Nothing,
    Anything,
    Segment,
    Parameter,
    Query,
}

impl AllowedChars {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Nothing => false,
            Self::Anything => true,
            Self::Segment => !matches!(byte, b'/' | b'?' | b'#'),
            Self::Parameter => !matches!(byte, b'/' | b'?' | b'#' | b';'),
            Self::Query => !matches!(byte, b'&' | b'#'),
        }
    }
}

impl MatchProgram {
    pub(super) fn new(parts: &[TemplatePart]) -> Self {
        let mut program = Self { steps: Vec::new() };
        let mut index = 0;
        for part in parts {
            match part {
                TemplatePart::Literal(text) => program.literal(text),
                TemplatePart::Expression { operator, names } => {
                    match operator {
                        Operator::Simple | Operator::Reserved => program.required(*operator, names, index),
                        Operator::Fragment | Operator::Label | Operator::Path => {
                            program.trailing(*operator, names, index);
                        }
                        Operator::Parameter | Operator::Query | Operator::Continuation => {
                            program.named(*operator, names, index);
                        }
                    }
                    index += names.len();
                }
            }
        }
        program
    }

    /// Adds a literal, which matches the text as it is written in the template or percent-encoded.
    fn literal(&mut self, text: &str) {
        let mut encoded = String::new();
        encode(&mut encoded, text, true);
        if encoded == text {
            return self.bytes(text);
        }
        let or = self.placeholder();
        self.bytes(text);
        let then = self.placeholder();
        self.steps[or] = MatchStep::Or(self.steps.len());
        self.bytes(&encoded);
        self.steps[then] = MatchStep::Then(self.steps.len());
    }

    /// Adds the steps for `{a,b}`: all values are required.
    fn required(&mut self, operator: Operator, names: &[String], index: usize) {
        for at in 0..names.len() {
            if at > 0 {
                self.bytes(operator.between());
            }
            self.value(index + at, operator, at + 1 < names.len(), false);
        }
    }

    /// Adds the steps for `{/a,b}`: values at the end of the list can be absent.
    fn trailing(&mut self, operator: Operator, names: &[String], index: usize) {
        let mut placeholders = Vec::new();
        for at in 0..names.len() {
            placeholders.push(self.placeholder());
            self.bytes(if at == 0 { operator.first() } else { operator.between() });
            self.value(index + at, operator, at + 1 < names.len(), true);
        }
        for placeholder in placeholders {
            self.steps[placeholder] = MatchStep::Or(self.steps.len());
        }
    }

    /// Adds the steps for `{?a,b}`: each value can be absent, and the order is fixed. The separator before the first
    /// value differs from the separator before later values, so there are two rows of steps: one until the first value
    /// is found, and one after that.
    fn named(&mut self, operator: Operator, names: &[String], index: usize) {
        let mut found = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let or = self.placeholder();
            self.pair(operator, operator.first(), name, index + at);
            found.push(self.placeholder());
            self.steps[or] = MatchStep::Or(self.steps.len());
        }
        let nothing = self.placeholder();
        for (at, name) in names.iter().enumerate() {
            if at > 0 {
                let or = self.placeholder();
                self.pair(operator, operator.between(), name, index + at);
                self.steps[or] = MatchStep::Or(self.steps.len());
            }
            self.steps[found[at]] = MatchStep::Then(self.steps.len());
        }
        self.steps[nothing] = MatchStep::Then(self.steps.len());
    }

    /// Adds the steps for one name and its value: `?a=` and a value, or `;a` without a value.
    fn pair(&mut self, operator: Operator, before: &str, name: &str, index: usize) {
        self.bytes(&format!("{before}{name}"));
        if operator != Operator::Parameter {
            self.bytes("=");
            return self.value(index, operator, false, true);
        }
        let or = self.placeholder();
        self.bytes("=");
        self.value(index, operator, false, true);
        let then = self.placeholder();
        self.steps[or] = MatchStep::Or(self.steps.len());
        self.steps.push(MatchStep::Value { index, allowed: AllowedChars::Nothing, except: None, empty: true });
        self.steps[then] = MatchStep::Then(self.steps.len());
    }

    fn bytes(&mut self, text: &str) {
        let bytes = text.as_bytes().to_vec();
        self.steps.push(MatchStep::Literal { borders: borders(&bytes), bytes });
    }

    /// Adds the step for a value. If `others` follow in the same list, the value cannot contain the separator.
    fn value(&mut self, index: usize, operator: Operator, others: bool, empty: bool) {
        let allowed = match operator {
            Operator::Reserved | Operator::Fragment => AllowedChars::Anything,
            Operator::Simple | Operator::Label | Operator::Path => AllowedChars::Segment,
            Operator::Parameter => AllowedChars::Parameter,
            Operator::Query | Operator::Continuation => AllowedChars::Query,
        };
        let except = operator.between().bytes().next().filter(|_| others);
        self.steps.push(MatchStep::Value { index, allowed, except, empty });
    }

    /// Adds a step whose target is set later, and returns the index of the step.
    fn placeholder(&mut self) -> usize {
        self.steps.push(MatchStep::Then(usize::MAX));
        self.steps.len() - 1
    }
}

impl MatchProgram {
    /// Returns the range of each value in the URI, with the index of its name in the template; or `None` if the URI
    /// does not match.
    pub(super) fn run(&self, uri: &str) -> Option<Vec<(usize, Range<usize>)>> {
        // Check the first literal before all else: most URIs that do not match differ there.
        if let Some(MatchStep::Literal { bytes, .. }) = self.steps.first()
            && !uri.as_bytes().starts_with(bytes)
        {
            return None;
        }
        let fits = FitTable::new(self, uri);
        fits.get(0, 0).then(|| self.values(uri, &fits))
    }

    /// Returns the values in a URI that matches. The first value is as long as possible, then the second, and so on.
    fn values(&self, uri: &str, fits: &FitTable) -> Vec<(usize, Range<usize>)> {
        let mut values = Vec::new();
        let (mut step, mut at) = (0, 0);
        while let Some(now) = self.steps.get(step) {
            step += 1;
            match now {
                MatchStep::Literal { bytes, .. } => at += bytes.len(),
                MatchStep::Or(other) => {
                    if !fits.get(step, at) {
                        step = *other;
                    }
                }
                MatchStep::Then(other) => step = *other,
                MatchStep::Value { index, allowed, except, empty } => {
                    let start = at;
                    let mut end = *empty && fits.get(step, at);
                    let mut last = at;
                    while let Some(next) = unit(uri.as_bytes(), last, *allowed, *except) {
                        count_turn();
                        last = next;
                        if fits.is_edge(last) && fits.get(step, last) {
                            at = last;
                            end = true;
                        }
                    }
                    debug_assert!(end, "a value that matches must have an end");
                    values.push((*index, start..at));
                }
            }
        }
        values
    }
}

/// Returns the end of the character or percent-encoded byte at offset `at`; `None` if the value cannot contain it.
fn unit(uri: &[u8], at: usize, allowed: AllowedChars, except: Option<u8>) -> Option<usize> {
    let byte = *uri.get(at)?;
    match byte {
        b'%' => (triplet(uri, at).is_some() && !matches!(allowed, AllowedChars::Nothing)).then_some(at + 3),
        _ => (allowed.has(byte) && except != Some(byte)).then_some(at + 1),
    }
}

/// A table with, for each step, the offsets in a URI at which the step can begin so that the rest of the URI matches.
struct FitTable {
    /// The rows of the table, with a bit for each offset and for the end of the URI. There is a row for each step, a
    /// row for the end of the template, and a row for the edges. Edges are the offsets that are not inside a plain or
    /// percent-encoded character, so a value can begin or end there.
    bits: Vec<u64>,
    words: usize,
    edges: usize,
}

impl FitTable {
    fn new(program: &MatchProgram, uri: &str) -> Self {
        let steps = program.steps.len();
        let words = uri.len() / 64 + 1;
        let mut fits = Self { bits: vec![0; words * (steps + 2)], words, edges: steps + 1 };
        fits.mark_edges(uri);
        fits.set(steps, uri.len());
        for (step, now) in program.steps.iter().enumerate().rev() {
            match now {
                MatchStep::Literal { bytes, borders } => {
                    occurrences(bytes, borders, uri.as_bytes(), |at| {
                        if fits.get(step + 1, at + bytes.len()) {
                            fits.set(step, at);
                        }
                    });
                }
                MatchStep::Value { allowed, except, empty, .. } => {
                    fits.value(step, uri.as_bytes(), *empty, |at| unit(uri.as_bytes(), at, *allowed, *except));
                }
                MatchStep::Or(other) => {
                    for word in 0..words {
                        fits.bits[step * words + word] =
                            fits.bits[(step + 1) * words + word] | fits.bits[other * words + word];
                    }
                }
                MatchStep::Then(other) => {
                    fits.bits.copy_within(other * words..(other + 1) * words, step * words);
                }
            }
        }
        fits
    }

    fn mark_edges(&mut self, uri: &str) {
        let mut at = 0;
        while at < uri.len() {
            count_turn();
            let encoded = triplet(uri.as_bytes(), at);
            // An encoded byte such as `%A9` continues a UTF-8 character that began at an earlier byte.
            if encoded.is_none_or(|byte| byte & 0xc0 != 0x80) {
                self.set(self.edges, at);
            }
            at += if encoded.is_some() { 3 } else { 1 };
            while !uri.is_char_boundary(at) {
                at += 1;
            }
        }
        self.set(self.edges, at);
    }

    /// Fills the row of a value step: a value can begin before an allowed character if a longer value matches, and at
    /// an offset where the next step can begin if the value can be empty.
    fn value(&mut self, step: usize, uri: &[u8], empty: bool, unit: impl Fn(usize) -> Option<usize>) {
        // Whether a value that extends at least to the next edge can match.
        let mut can_continue = false;
        for at in (0..=uri.len()).rev() {
            count_turn();
            if !self.is_edge(at) {
                continue;
            }
            let longer = can_continue && unit(at).is_some();
            let ends = self.get(step + 1, at);
            if longer || (empty && ends) {
                self.set(step, at);
            }
            can_continue = longer || ends;
        }
    }

    fn is_edge(&self, at: usize) -> bool {
        self.get(self.edges, at)
    }

    fn get(&self, step: usize, at: usize) -> bool {
        self.bits[step * self.words + at / 64] >> (at % 64) & 1 == 1
    }

    fn set(&mut self, step: usize, at: usize) {
        self.bits[step * self.words + at / 64] |= 1 << (at % 64);
    }
}

/// Calls `found` with every offset at which the needle occurs, including overlapping occurrences, in one walk over
/// `hay` (Knuth, Morris, Pratt).
fn occurrences(needle: &[u8], borders: &[usize], hay: &[u8], mut found: impl FnMut(usize)) {
    let mut same = 0;
    for (at, byte) in hay.iter().enumerate() {
        count_turn();
        while same > 0 && needle.get(same) != Some(byte) {
            count_turn();
            same = borders[same - 1];
        }
        same += usize::from(needle.get(same) == Some(byte));
        if same == needle.len() {
            found(at + 1 - same);
        }
    }
}

/// Returns, for each prefix of the needle, the length of its longest proper suffix that is also a prefix of the needle.
fn borders(needle: &[u8]) -> Vec<usize> {
    let mut borders = vec![0; needle.len()];
    for at in 1..needle.len() {
        let mut same = borders[at - 1];
        while same > 0 && needle[same] != needle[at] {
            same = borders[same - 1];
        }
        borders[at] = same + usize::from(needle[same] == needle[at]);
    }
    borders
}

#[cfg(test)]
impl super::Template {
    fn steps(&self) -> usize {
        self.program().steps.len()
    }
}

/// Counts the iterations of all loops over a URI. A test uses the count to check that matching takes linear time.
#[cfg(test)]
fn count_turn() {
    tests::TURNS.set(tests::TURNS.get() + 1);
}

#[cfg(not(test))]
fn count_turn() {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::mcp::Template;

    thread_local! {
        pub(super) static TURNS: Cell<usize> = const { Cell::new(0) };
    }

    fn turns(template: &str, uri: &str) -> usize {
        let template = Template::parse(template).expect("a template");
        let before = TURNS.get();
        let _ = template.matches(uri);
        TURNS.get() - before
    }

    /// Tests templates that can be split in many ways, with URIs that do not match. A backtracking matcher would need
    /// years.
    #[test]
    fn the_time_to_match_is_linear_in_the_uri() {
        let templates = [
            ("{a}-{b}-{c}", "-", "/"),
            ("{a}{b}{c}{d}", "x", "/"),
            ("x{+a}-{+b}-{+c}-{+d}-end", "x-", "-en"),
            ("{a}aaaaaaaab{b}", "a", ""),
            ("x{/a,b,c,d}{/e,f,g,h}", "x/", "#"),
            ("x{?a,b,c}{&d,e,f}", "x?a=&b=", "&z="),
            ("x{;a,b,c}{;d,e,f}", "x;a", ";z"),
            ("{+a}%41{+b}%41{+c}", "%41", "%"),
        ];
        for (template, repeated, end) in templates {
            let steps = Template::parse(template).expect("a template").steps();
            for times in [10, 100, 1000, 10_000] {
                let uri = repeated.repeat(times) + end;
                let turns = turns(template, &uri);
                // Each step walks over the URI at most twice, including the backward steps of the search. One more walk
                // marks the edges.
                let most = (2 * steps + 1) * (uri.len() + 1);
                assert!(turns <= most, "{template}: {turns} turns for {} bytes, {steps} steps", uri.len());
            }
        }
    }

    #[test]
    fn a_uri_over_the_limit_is_refused_without_a_walk() {
        assert_eq!(turns("{+a}", &"a".repeat(Template::MAX_URI_BYTES + 1)), 0);
        assert!(turns("{+a}", &"a".repeat(Template::MAX_URI_BYTES)) > 0);
        assert_eq!(turns("file:///{a}", &"a".repeat(1000)), 0, "the first literal does not match");
    }
}
