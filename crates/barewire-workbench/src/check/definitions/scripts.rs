//! A character -> the scripts and sequences in which invisible characters next to it have a purpose.

/// Whether the letter is written from right to left: Hebrew, Arabic, Syriac, Thaana, N'Ko and other such scripts.
pub(super) fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{61b}' | '\u{61d}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Whether letters of this script are joined, or stacked, depending on zero-width joiners and non-joiners between them:
/// Arabic and Syriac, the scripts of India, Sri Lanka, Tibet, Myanmar and Cambodia, Mongolian and others.
pub(super) fn uses_joiners(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{61b}' | '\u{61d}'..='\u{7ff}' | '\u{840}'..='\u{dff}' | '\u{f00}'..='\u{109f}'
        | '\u{1700}'..='\u{18af}' | '\u{1900}'..='\u{1aaf}' | '\u{1b00}'..='\u{1c4f}' | '\u{a800}'..='\u{a82f}'
        | '\u{a840}'..='\u{a8ff}' | '\u{a900}'..='\u{aaff}' | '\u{abc0}'..='\u{abff}' | '\u{fb50}'..='\u{fdcf}'
        | '\u{fe70}'..='\u{fefc}' | '\u{10a00}'..='\u{10fff}' | '\u{11000}'..='\u{11fff}' | '\u{1e900}'..='\u{1e95f}')
}

/// Whether the script has no spaces between words, so that zero-width spaces mark where lines may break: Thai, Lao,
/// Tibetan, Myanmar, Khmer, Tai scripts, Javanese, Japanese and Chinese.
pub(super) fn has_no_spaces(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1950}'..='\u{19df}' | '\u{1a20}'..='\u{1aaf}'
        | '\u{2e80}'..='\u{9fff}' | '\u{a980}'..='\u{a9ff}' | '\u{aa00}'..='\u{aadf}' | '\u{f900}'..='\u{faff}'
        | '\u{ff00}'..='\u{ff9f}' | '\u{20000}'..='\u{3fffd}')
}

/// Whether the character can be a part of an emoji: a picture, a modifier of skin colour, or a sign that is shown as a
/// picture.
pub(super) fn is_picture(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{20e3}' | '\u{2122}' | '\u{2139}'
        | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{2460}'..='\u{24ff}' | '\u{25a0}'..='\u{27bf}'
        | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Whether the character has variants in the Ideographic Variation Database.
pub(super) fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{2fdf}' | '\u{3000}'..='\u{303f}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3fffd}')
}

pub(super) fn is_mongolian(c: char) -> bool {
    matches!(c, '\u{1800}'..='\u{180a}' | '\u{1810}'..='\u{18af}' | '\u{11660}'..='\u{1167f}')
}

/// Whether the character is a part of a Hangul syllable that is written in parts.
pub(super) fn is_hangul_part(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{115e}' | '\u{1161}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}' | '\u{d7b0}'..='\u{d7ff}')
}

pub(super) fn is_combining(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{34e}' | '\u{350}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// Whether the character selects a variant of the character before it.
pub(super) fn is_variation_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

pub(super) fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

pub(super) fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}')
}
