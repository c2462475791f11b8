//! A URI against a template, in time that grows with the URI and not with the ways to split it.
//!
//! The parts of a template become steps, each of which leads only to later ones. From the last step to the first it is
//! noted at which places of the URI a step can begin so that all that follows fits: one bit a place, one walk a step.
//! Then one walk from the first to the last takes the values. Nothing is tried twice, so there is no way back to take.

use std::ops::Range;

use super::template::{Operator, Part, encode, triplet};

/// The steps of a template. Each leads to the next one, or where it says.
#[derive(Clone)]
pub(super) struct Program {
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Step {
    /// These bytes must follow. `borders` is for [`occurrences`].
    Literal { bytes: Vec<u8>, borders: Vec<usize> },
    /// A value follows, of what is allowed and not this one byte.
    Value { index: usize, allowed: Allowed, except: Option<u8>, empty: bool },
    /// Goes on with the next step, or with that one if the next does not fit.
    Or(usize),
    /// Goes on with that step.
    Then(usize),
}

/// What a value can be made of, besides percent-encoded bytes.
#[derive(Debug, Clone, Copy)]
enum Allowed {
    Nothing,
    Anything,
    Segment,
    Parameter,
    Query,
}

impl Allowed {
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

impl Program {
    pub(super) fn new(parts: &[Part]) -> Self {
        let mut program = Self { steps: Vec::new() };
        let mut index = 0;
        for part in parts {
            match part {
                Part::Literal(text) => program.literal(text),
                Part::Expression { operator, names } => {
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

    /// A text as it stands in the template, or as it is when expanded.
    fn literal(&mut self, text: &str) {
        let mut encoded = String::new();
        encode(&mut encoded, text, true);
        if encoded == text {
            return self.bytes(text);
        }
        let or = self.hole();
        self.bytes(text);
        let then = self.hole();
        self.steps[or] = Step::Or(self.steps.len());
        self.bytes(&encoded);
        self.steps[then] = Step::Then(self.steps.len());
    }

    /// `{a,b}`: all of them.
    fn required(&mut self, operator: Operator, names: &[String], index: usize) {
        for at in 0..names.len() {
            if at > 0 {
                self.bytes(operator.between());
            }
            self.value(index + at, operator, at + 1 < names.len(), false);
        }
    }

    /// `{/a,b}`: the first ones, and none of the others.
    fn trailing(&mut self, operator: Operator, names: &[String], index: usize) {
        let mut holes = Vec::new();
        for at in 0..names.len() {
            holes.push(self.hole());
            self.bytes(if at == 0 { operator.first() } else { operator.between() });
            self.value(index + at, operator, at + 1 < names.len(), true);
        }
        for hole in holes {
            self.steps[hole] = Step::Or(self.steps.len());
        }
    }

    /// `{?a,b}`: any of them, in their order. What stands before the first one differs from the others, so there are two
    /// rows of steps: the one before anything was found, and the one after.
    fn named(&mut self, operator: Operator, names: &[String], index: usize) {
        let mut found = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let or = self.hole();
            self.pair(operator, operator.first(), name, index + at);
            found.push(self.hole());
            self.steps[or] = Step::Or(self.steps.len());
        }
        let nothing = self.hole();
        for (at, name) in names.iter().enumerate() {
            if at > 0 {
                let or = self.hole();
                self.pair(operator, operator.between(), name, index + at);
                self.steps[or] = Step::Or(self.steps.len());
            }
            self.steps[found[at]] = Step::Then(self.steps.len());
        }
        self.steps[nothing] = Step::Then(self.steps.len());
    }

    /// `?a=` and a value, or `;a` without one.
    fn pair(&mut self, operator: Operator, before: &str, name: &str, index: usize) {
        self.bytes(&format!("{before}{name}"));
        if operator != Operator::Parameter {
            self.bytes("=");
            return self.value(index, operator, false, true);
        }
        let or = self.hole();
        self.bytes("=");
        self.value(index, operator, false, true);
        let then = self.hole();
        self.steps[or] = Step::Or(self.steps.len());
        self.steps.push(Step::Value { index, allowed: Allowed::Nothing, except: None, empty: true });
        self.steps[then] = Step::Then(self.steps.len());
    }

    fn bytes(&mut self, text: &str) {
        let bytes = text.as_bytes().to_vec();
        self.steps.push(Step::Literal { borders: borders(&bytes), bytes });
    }

    /// If others follow in its list, a value ends where the next one begins.
    fn value(&mut self, index: usize, operator: Operator, others: bool, empty: bool) {
        let allowed = match operator {
            Operator::Reserved | Operator::Fragment => Allowed::Anything,
            Operator::Simple | Operator::Label | Operator::Path => Allowed::Segment,
            Operator::Parameter => Allowed::Parameter,
            Operator::Query | Operator::Continuation => Allowed::Query,
        };
        let except = operator.between().bytes().next().filter(|_| others);
        self.steps.push(Step::Value { index, allowed, except, empty });
    }

    /// A step that is known later.
    fn hole(&mut self) -> usize {
        self.steps.push(Step::Then(usize::MAX));
        self.steps.len() - 1
    }
}

impl Program {
    /// Where the values are in this URI, by the place of their names in the template. `None` if it does not fit.
    pub(super) fn run(&self, uri: &str) -> Option<Vec<(usize, Range<usize>)>> {
        // Most URIs are those of other templates, and that shows at once.
        if let Some(Step::Literal { bytes, .. }) = self.steps.first()
            && !uri.as_bytes().starts_with(bytes)
        {
            return None;
        }
        let fits = Fits::new(self, uri);
        fits.get(0, 0).then(|| self.values(uri, &fits))
    }

    /// The values of a URI that fits. The first takes as much as it can, then the second.
    fn values(&self, uri: &str, fits: &Fits) -> Vec<(usize, Range<usize>)> {
        let mut values = Vec::new();
        let (mut step, mut at) = (0, 0);
        while let Some(now) = self.steps.get(step) {
            step += 1;
            match now {
                Step::Literal { bytes, .. } => at += bytes.len(),
                Step::Or(other) => {
                    if !fits.get(step, at) {
                        step = *other;
                    }
                }
                Step::Then(other) => step = *other,
                Step::Value { index, allowed, except, empty } => {
                    let start = at;
                    let mut end = *empty && fits.get(step, at);
                    let mut last = at;
                    while let Some(next) = unit(uri.as_bytes(), last, *allowed, *except) {
                        count();
                        last = next;
                        if fits.is_edge(last) && fits.get(step, last) {
                            at = last;
                            end = true;
                        }
                    }
                    debug_assert!(end, "a value that fits has an end");
                    values.push((*index, start..at));
                }
            }
        }
        values
    }
}

/// The end of the character or percent-encoded byte at this place, if a value can hold it.
fn unit(uri: &[u8], at: usize, allowed: Allowed, except: Option<u8>) -> Option<usize> {
    let byte = *uri.get(at)?;
    match byte {
        b'%' => (triplet(uri, at).is_some() && !matches!(allowed, Allowed::Nothing)).then_some(at + 3),
        _ => (allowed.has(byte) && except != Some(byte)).then_some(at + 1),
    }
}

/// At which places of a URI each step can begin so that all the rest fits.
struct Fits {
    /// For each step and one more, which is the end: a bit for each place and one more. The last row of all is that of
    /// the edges: the places where a value can begin or end, which are not inside of a character, encoded or not.
    bits: Vec<u64>,
    words: usize,
    edges: usize,
}

impl Fits {
    fn new(program: &Program, uri: &str) -> Self {
        let steps = program.steps.len();
        let words = uri.len() / 64 + 1;
        let mut fits = Self { bits: vec![0; words * (steps + 2)], words, edges: steps + 1 };
        fits.mark_edges(uri);
        fits.set(steps, uri.len());
        for (step, now) in program.steps.iter().enumerate().rev() {
            match now {
                Step::Literal { bytes, borders } => {
                    occurrences(bytes, borders, uri.as_bytes(), |at| {
                        if fits.get(step + 1, at + bytes.len()) {
                            fits.set(step, at);
                        }
                    });
                }
                Step::Value { allowed, except, empty, .. } => {
                    fits.value(step, uri.as_bytes(), *empty, |at| unit(uri.as_bytes(), at, *allowed, *except));
                }
                Step::Or(other) => {
                    for word in 0..words {
                        fits.bits[step * words + word] =
                            fits.bits[(step + 1) * words + word] | fits.bits[other * words + word];
                    }
                }
                Step::Then(other) => {
                    fits.bits.copy_within(other * words..(other + 1) * words, step * words);
                }
            }
        }
        fits
    }

    fn mark_edges(&mut self, uri: &str) {
        let mut at = 0;
        while at < uri.len() {
            count();
            let encoded = triplet(uri.as_bytes(), at);
            // What goes on in `%A9` has begun in another one.
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

    /// Where a value can begin: where it can also end, and before whatever it can hold and be longer by.
    fn value(&mut self, step: usize, uri: &[u8], empty: bool, unit: impl Fn(usize) -> Option<usize>) {
        // Of the edge behind: whether a value that goes on there comes to an end.
        let mut goes_on = false;
        for at in (0..=uri.len()).rev() {
            count();
            if !self.is_edge(at) {
                continue;
            }
            let longer = goes_on && unit(at).is_some();
            let ends = self.get(step + 1, at);
            if longer || (empty && ends) {
                self.set(step, at);
            }
            goes_on = longer || ends;
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

/// Calls with every place where the needle stands, also where it overlaps itself, in one walk (Knuth, Morris, Pratt).
fn occurrences(needle: &[u8], borders: &[usize], hay: &[u8], mut found: impl FnMut(usize)) {
    let mut same = 0;
    for (at, byte) in hay.iter().enumerate() {
        count();
        while same > 0 && needle.get(same) != Some(byte) {
            count();
            same = borders[same - 1];
        }
        same += usize::from(needle.get(same) == Some(byte));
        if same == needle.len() {
            found(at + 1 - same);
        }
    }
}

/// For each beginning of the needle, how long an end of it is that the needle begins with as well.
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

/// Every turn of every loop over a URI, for the test that says how many there are.
#[cfg(test)]
fn count() {
    tests::TURNS.set(tests::TURNS.get() + 1);
}

#[cfg(not(test))]
fn count() {}

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

    /// Templates that can be fitted in many ways, and URIs that fit in none, for which a matcher that tries them takes
    /// years.
    #[test]
    fn a_uri_is_walked_over_so_often_as_the_template_has_pieces_and_no_more() {
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
                // Twice: once to see what fits, with the searcher's steps back, and once to take the values.
                let most = (2 * steps + 1) * (uri.len() + 1);
                assert!(turns <= most, "{template}: {turns} turns for {} bytes, {steps} steps", uri.len());
            }
        }
    }

    #[test]
    fn a_uri_over_the_limit_is_not_walked_over_at_all() {
        assert_eq!(turns("{+a}", &"a".repeat(Template::MOST_URI + 1)), 0);
        assert!(turns("{+a}", &"a".repeat(Template::MOST_URI)) > 0);
        assert_eq!(turns("file:///{a}", &"a".repeat(1000)), 0, "its beginning tells");
    }
}
