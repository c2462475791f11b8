//! A text -> the characters in it that people do not see, or that change what they see: by code points, whatever the
//! text means. Characters that a script or an emoji needs are not reported.

use std::fmt::Write;

use super::scripts::{
    has_no_spaces, is_combining, is_hangul_part, is_ideograph, is_joiner, is_mongolian, is_picture, is_right_to_left,
    is_tag, is_variation_selector, uses_joiners,
};

/// A class of characters that hide something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) enum HiddenClass {
    /// Characters that change the order in which the text is shown.
    Direction,
    /// Copies of the ASCII characters that are not shown.
    Tags,
    /// Variation selectors that select no variant.
    Selectors,
    /// Characters without width.
    ZeroWidth,
    /// Other characters that are not shown.
    Invisible,
    /// Characters whose appearance depends on an agreement between sender and reader.
    PrivateUse,
    /// C0 and C1 control characters, which also begin the escape sequences of terminals.
    Control,
}

/// The characters of one class in a text.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::check) struct HiddenText {
    pub(in crate::check) class: HiddenClass,
    pub(in crate::check) count: usize,
    /// The first characters.
    first: Vec<char>,
    /// The text that the characters encode, if it can be read.
    decoded: String,
}

/// What a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) enum TextUse {
    /// A text for people or the model.
    Prose,
    /// A name or a URI, which is compared with others.
    Name,
    /// A value for a program, such as the default of an argument. It may have control characters.
    Value,
}

/// Returns the hidden characters of a text, one entry for each class, in the order of the first character of each.
pub(in crate::check) fn hidden(text: &str, purpose: TextUse) -> Vec<HiddenText> {
    let mut found: Vec<HiddenText> = Vec::new();
    // Most texts are ASCII without control characters.
    if text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\n' | b'\r' | b'\t')) {
        return found;
    }
    let chars: Vec<char> = text.chars().collect();
    let is_bidi = chars.iter().any(|c| is_right_to_left(*c));
    let directions_end = directions_end(&chars);
    let mut at = 0;
    while at < chars.len() {
        if let Some(length) = flag(&chars[at..]) {
            at += length;
            continue;
        }
        let place = CharacterPlace { chars: &chars, at, is_bidi, directions_end, purpose };
        if let Some(class) = place.class() {
            match found.iter_mut().find(|known| known.class == class) {
                Some(known) => known.push(chars[at]),
                None => {
                    let mut new = HiddenText { class, count: 0, first: Vec::new(), decoded: String::new() };
                    new.push(chars[at]);
                    found.push(new);
                }
            }
        }
        at += 1;
    }
    found
}

/// A character in its text.
struct CharacterPlace<'a> {
    chars: &'a [char],
    at: usize,
    /// Whether the text has letters that are written from right to left.
    is_bidi: bool,
    /// Whether every embedding and isolate of the text ends in the text.
    directions_end: bool,
    purpose: TextUse,
}

impl CharacterPlace<'_> {
    fn class(&self) -> Option<HiddenClass> {
        let c = self.chars[self.at];
        let class = match c {
            '\n' | '\r' | '\t' => return None,
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' if self.purpose == TextUse::Value => return None,
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => HiddenClass::Control,
            // Overrides show letters in an order that their script does not have. No text needs them.
            '\u{202d}' | '\u{202e}' => HiddenClass::Direction,
            // Marks, embeddings and isolates are useful where scripts of both directions meet.
            '\u{61c}' | '\u{200e}' | '\u{200f}' if self.is_bidi => return None,
            '\u{202a}'..='\u{202c}' | '\u{2066}'..='\u{2069}' if self.is_bidi && self.directions_end => return None,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202c}' | '\u{2066}'..='\u{2069}' => {
                HiddenClass::Direction
            }
            c if is_tag(c) => HiddenClass::Tags,
            c if is_variation_selector(c) => return self.selector(c),
            '\u{180b}'..='\u{180f}' if self.has_neighbour(is_mongolian) => return None,
            c if is_joiner(c) => return self.joiner(),
            '\u{200b}' if self.has_neighbour(has_no_spaces) => return None,
            '\u{200b}' | '\u{2060}' | '\u{feff}' => HiddenClass::ZeroWidth,
            '\u{ad}' if self.is_hyphenation() => return None,
            '\u{34f}' if self.has_neighbour(|c| is_combining(c) || is_right_to_left(c)) => return None,
            '\u{115f}' | '\u{1160}' if self.has_neighbour(is_hangul_part) => return None,
            '\u{2800}' if self.has_neighbour(|c| matches!(c, '\u{2801}'..='\u{28ff}')) => return None,
            '\u{ad}'
            | '\u{34f}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{2061}'..='\u{2065}'
            | '\u{206a}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0080}'..='\u{e00ff}'
            | '\u{e01f0}'..='\u{e0fff}' => HiddenClass::Invisible,
            '\u{fdd0}'..='\u{fdef}' => HiddenClass::Invisible,
            c if u32::from(c) & 0xfffe == 0xfffe => HiddenClass::Invisible,
            '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10fffd}' => HiddenClass::PrivateUse,
            _ => return None,
        };
        Some(class)
    }

    /// A variation selector follows a character that has variants, and no two of them follow each other.
    fn selector(&self, c: char) -> Option<HiddenClass> {
        let before = self.before();
        let is_run = before.is_some_and(is_variation_selector) || self.after().is_some_and(is_variation_selector);
        let selects = match c {
            '\u{fe00}'..='\u{fe0f}' => before.is_none_or(|c| !c.is_ascii_alphabetic()),
            _ => before.is_some_and(is_ideograph),
        };
        (is_run || !selects).then_some(HiddenClass::Selectors)
    }

    /// A joiner or non-joiner stands next to a letter of a script that uses it, or in an emoji of several pictures.
    fn joiner(&self) -> Option<HiddenClass> {
        let is_between = |c: &char| !is_joiner(*c) && !is_variation_selector(*c);
        let before = self.chars[..self.at].iter().rev().find(|c| is_between(c)).copied();
        let after = self.chars[self.at + 1..].iter().find(|c| is_between(c)).copied();
        let joiners = |chars: &mut dyn Iterator<Item = &char>| chars.take_while(|c| is_joiner(**c)).count();
        let run = 1 + joiners(&mut self.chars[..self.at].iter().rev()) + joiners(&mut self.chars[self.at + 1..].iter());
        let in_script = [before, after].into_iter().flatten().any(uses_joiners);
        let in_picture = self.chars[self.at] == '\u{200d}' && run == 1;
        let in_picture = in_picture && before.is_some_and(is_picture) && after.is_some_and(is_picture);
        let is_needed = in_script && run <= MAX_JOINERS || in_picture;
        (!is_needed).then_some(HiddenClass::ZeroWidth)
    }

    /// A soft hyphen between two letters shows where a word may be divided. Names are not divided.
    fn is_hyphenation(&self) -> bool {
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
        self.purpose == TextUse::Prose && is_letter(self.before()) && is_letter(self.after())
    }

    fn has_neighbour(&self, is: impl Fn(char) -> bool) -> bool {
        self.before().is_some_and(&is) || self.after().is_some_and(&is)
    }

    fn before(&self) -> Option<char> {
        self.at.checked_sub(1).and_then(|at| self.chars.get(at)).copied()
    }

    fn after(&self) -> Option<char> {
        self.chars.get(self.at + 1).copied()
    }
}

impl HiddenText {
    fn push(&mut self, c: char) {
        self.count += 1;
        if self.first.len() < MAX_SHOWN && !self.first.contains(&c) {
            self.first.push(c);
        }
        if self.decoded.len() < MAX_DECODED
            && let Some(c) = self.class.decode(c)
        {
            self.decoded.push(c);
        }
    }

    /// Describes the characters: how many, which ones, and the text that they encode.
    pub(in crate::check) fn describe(&self) -> String {
        let (one, many) = self.class.nouns();
        let mut text = format!("{} {}: ", self.count, if self.count == 1 { one } else { many });
        for (index, c) in self.first.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(text, "{comma}U+{:04X}", u32::from(*c)).expect("writing to a String cannot fail");
        }
        if self.count > self.first.len() && self.first.len() == MAX_SHOWN {
            text.push_str(", …");
        }
        // A single character spells nothing.
        if self.decoded.chars().count() > 1 {
            write!(text, "; they spell \"{}\"", self.decoded).expect("writing to a String cannot fail");
        }
        text
    }
}

impl HiddenClass {
    fn nouns(self) -> (&'static str, &'static str) {
        match self {
            Self::Direction => {
                ("character that changes the order of the text", "characters that change the order of the text")
            }
            Self::Tags => ("tag character", "tag characters"),
            Self::Selectors => {
                ("variation selector that selects no variant", "variation selectors that select no variant")
            }
            Self::ZeroWidth => ("character without width", "characters without width"),
            Self::Invisible => ("invisible character", "invisible characters"),
            Self::PrivateUse => ("private-use character", "private-use characters"),
            Self::Control => ("control character", "control characters"),
        }
    }

    /// Returns the ASCII character that a hidden character stands for. Variation selectors stand for bytes in their
    /// order.
    fn decode(self, c: char) -> Option<char> {
        let code = u32::from(c);
        let byte = match self {
            Self::Tags => code.checked_sub(0xe0000)?,
            Self::Selectors if code >= 0xe0100 => code - 0xe0100 + 16,
            Self::Selectors => code.checked_sub(0xfe00)?,
            _ => return None,
        };
        char::from_u32(byte).filter(|c| matches!(c, ' '..='~'))
    }
}

/// Whether every embedding and isolate is ended by its own end character, so that it has no effect on the text around
/// it.
fn directions_end(chars: &[char]) -> bool {
    let mut open = Vec::new();
    for c in chars {
        match c {
            '\u{202a}' | '\u{202b}' => open.push('\u{202c}'),
            '\u{2066}'..='\u{2068}' => open.push('\u{2069}'),
            '\u{202c}' | '\u{2069}' if open.pop() != Some(*c) => return false,
            _ => {}
        }
    }
    open.is_empty()
}

/// Returns the length of the flag of a part of a country that the text begins with: a black flag, three to six letters
/// or digits as tag characters, and the end tag. The flag of England is such a flag.
fn flag(chars: &[char]) -> Option<usize> {
    if *chars.first()? != '\u{1f3f4}' {
        return None;
    }
    let is_code = |c: &&char| matches!(c, '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}');
    let code = chars[1..].iter().take_while(is_code).count();
    ((3..=6).contains(&code) && chars.get(1 + code) == Some(&'\u{e007f}')).then_some(code + 2)
}

/// The maximum number of joiners next to each other in a text. More of them are data: one is enough for every script,
/// and two are a slip of the keyboard.
const MAX_JOINERS: usize = 2;
/// The maximum number of different characters that a finding shows.
const MAX_SHOWN: usize = 6;
/// The maximum length of the decoded text, in bytes: enough to see what it is about.
const MAX_DECODED: usize = 200;

#[cfg(test)]
mod tests;
