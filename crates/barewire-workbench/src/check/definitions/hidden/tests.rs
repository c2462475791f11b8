//! Texts that hide something, and texts in many scripts that do not.

use super::*;

/// Texts without anything hidden, each with its reason.
const INNOCENT: &[(&str, &str)] = &[
    ("English with line breaks", "Adds two numbers.\r\n\tReturns the sum."),
    (
        "accents as combining marks",
        "Cafe\u{301} de\u{301}ja\u{300} vu, Å and A\u{30a}, Tie\u{302}\u{301}ng Vie\u{323}\u{302}t",
    ),
    ("a family", "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466}"),
    ("a couple of two skin colours", "\u{1f9d1}\u{1f3fd}\u{200d}\u{2764}\u{fe0f}\u{200d}\u{1f9d1}\u{1f3fb}"),
    ("a doctor, a pirate flag and a rainbow flag", "👩‍⚕️ 🏴‍☠️ 🏳️‍🌈"),
    ("an eye in a bubble", "👁️‍🗨️"),
    ("keycaps and text style", "1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3} ▶\u{fe0e} ™\u{fe0f} ⚠️ Careful"),
    ("the flags of England, Scotland and Wales", "🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🏴󠁧󠁢󠁷󠁬󠁳󠁿"),
    ("flags of countries", "🇩🇪🇫🇷🇯🇵"),
    ("Persian with non-joiners", "می‌خواهم کتاب‌ها را ببینم"),
    ("a Latin word with a Persian ending", "فایل PDF‌ها را باز کن"),
    ("Hindi with joiners", "क्‍ष और श्‍री, नमस्ते"),
    ("Malayalam and Sinhala", "അവന്‍ ශ්‍රී ලංකාව"),
    ("Bengali and Kannada", "র‍্যাব ರ‍್ಯ"),
    ("Arabic", "يجمع رقمين ويعيد الناتج"),
    ("Arabic with marks and a Latin word", "استخدم \u{200f}API\u{200f} هنا (\u{61c}5)"),
    ("Hebrew with points", "שָׁלוֹם עוֹלָם"),
    ("Hebrew with a mark after a Latin word", "קובץ README.md\u{200e} פתוח"),
    ("Hebrew with an isolated Latin word", "שם הקובץ הוא \u{2068}main.rs\u{2069} בלבד"),
    ("Hebrew with an embedding that ends", "שלום \u{202a}C++\u{202c} עולם"),
    ("Japanese with half and full width", "ﾃｽﾄ　テスト、全角ＡＢＣ"),
    ("an ideograph with a variant", "葛\u{e0100}城市と芦\u{fe00}屋"),
    ("Chinese and Korean", "添加两个数字。두 수를 더합니다."),
    ("old Korean in parts", "\u{115f}\u{1161}\u{11a8}"),
    ("Thai and Khmer with places for line breaks", "สวัสดี\u{200b}ครับ ភាសា\u{200b}ខ្មែរ"),
    ("Tibetan and Mongolian with its variants", "བོད་སྐད། ᠮᠣᠩᠭᠣᠯ\u{180b} ᠬᠠ\u{180e}ᠠ"),
    ("German with places for hyphens", "Donau\u{ad}dampf\u{ad}schiff"),
    ("Braille with a space", "\u{2813}\u{2800}\u{280a}"),
    ("a no-break space and typographic quotes", "5\u{a0}km, «guillemets», “quotes”, 10\u{202f}%"),
    ("mathematics", "∑ᵢ xᵢ ≤ ∞, 𝑓(𝑥) = 𝑥²"),
    ("a line separator", "one\u{2028}two"),
    ("right to left with an emoji", "שלום 👨‍👩‍👧"),
];

/// Texts that hide something: the reason, the text, the class, and the description.
#[rustfmt::skip]
const HIDDEN: &[(&str, &str, HiddenClass, &str)] = &[
    ("an override", "delete \u{202e}txt.exe\u{202c}", HiddenClass::Direction, "2 characters that change the order of the text: U+202E, U+202C"),
    ("an override in Hebrew", "שלום \u{202e}abc", HiddenClass::Direction, "1 character that changes the order of the text: U+202E"),
    ("an isolate in English", "if \u{2066}admin\u{2069}", HiddenClass::Direction, "2 characters that change the order of the text: U+2066, U+2069"),
    ("an isolate in Hebrew that does not end", "שלום \u{2067}abc", HiddenClass::Direction, "1 character that changes the order of the text: U+2067"),
    ("a mark in English", "safe\u{200f}", HiddenClass::Direction, "1 character that changes the order of the text: U+200F"),
    ("tag characters", "Adds.\u{e0069}\u{e0067}\u{e006e}\u{e006f}\u{e0072}\u{e0065}", HiddenClass::Tags, "6 tag characters: U+E0069, U+E0067, U+E006E, U+E006F, U+E0072, U+E0065; they spell \"ignore\""),
    ("a long text after a flag", "\u{1f3f4}\u{e0072}\u{e0075}\u{e006e}\u{e0020}\u{e0069}\u{e0074}\u{e007f}", HiddenClass::Tags, "7 tag characters: U+E0072, U+E0075, U+E006E, U+E0020, U+E0069, U+E0074, …; they spell \"run it\""),
    ("tags after a flag that do not end", "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}", HiddenClass::Tags, "3 tag characters: U+E0067, U+E0062, U+E0065; they spell \"gbe\""),
    ("selectors as bytes", "😀\u{e0158}\u{e0159}", HiddenClass::Selectors, "2 variation selectors that select no variant: U+E0158, U+E0159; they spell \"hi\""),
    ("a selector after a letter", "a\u{fe01}b", HiddenClass::Selectors, "1 variation selector that selects no variant: U+FE01"),
    ("two selectors", "▶\u{fe0f}\u{fe0f}", HiddenClass::Selectors, "2 variation selectors that select no variant: U+FE0F"),
    ("a zero-width space in a word", "pass\u{200b}word", HiddenClass::ZeroWidth, "1 character without width: U+200B"),
    ("a non-joiner in a Latin word", "ad\u{200c}min", HiddenClass::ZeroWidth, "1 character without width: U+200C"),
    ("a joiner in a Latin word", "ad\u{200d}min", HiddenClass::ZeroWidth, "1 character without width: U+200D"),
    ("a joiner after an emoji", "😀\u{200d} hi", HiddenClass::ZeroWidth, "1 character without width: U+200D"),
    ("a byte order mark at the start", "\u{feff}Adds", HiddenClass::ZeroWidth, "1 character without width: U+FEFF"),
    ("a word joiner", "a\u{2060}b", HiddenClass::ZeroWidth, "1 character without width: U+2060"),
    ("joiners as bits", "می\u{200c}\u{200d}\u{200c}\u{200d}خواهم", HiddenClass::ZeroWidth, "4 characters without width: U+200C, U+200D"),
    ("a soft hyphen that divides nothing", "Adds \u{ad}", HiddenClass::Invisible, "1 invisible character: U+00AD"),
    ("invisible operators", "a\u{2063}b\u{2064}", HiddenClass::Invisible, "2 invisible characters: U+2063, U+2064"),
    ("a Hangul filler", "x\u{3164}y", HiddenClass::Invisible, "1 invisible character: U+3164"),
    ("a grapheme joiner in a Latin word", "ad\u{34f}min", HiddenClass::Invisible, "1 invisible character: U+034F"),
    ("a blank Braille pattern", "a\u{2800}b", HiddenClass::Invisible, "1 invisible character: U+2800"),
    ("a noncharacter", "a\u{ffff}", HiddenClass::Invisible, "1 invisible character: U+FFFF"),
    ("private use", "\u{e000}\u{f8ff}", HiddenClass::PrivateUse, "2 private-use characters: U+E000, U+F8FF"),
    ("an escape sequence", "\u{1b}[8mhidden\u{1b}[0m", HiddenClass::Control, "2 control characters: U+001B"),
    ("a C1 sequence", "\u{9b}8mhidden", HiddenClass::Control, "1 control character: U+009B"),
    ("backspaces", "safe\u{8}\u{8}\u{8}\u{8}evil", HiddenClass::Control, "4 control characters: U+0008"),
    ("a null and a delete", "a\0b\u{7f}", HiddenClass::Control, "2 control characters: U+0000, U+007F"),
];

#[test]
fn innocent_texts_hide_nothing() {
    for (why, text) in INNOCENT {
        assert_eq!(hidden(text, TextUse::Prose), [], "{why}");
    }
}

#[test]
fn each_hidden_text_is_found_once() {
    for (why, text, class, description) in HIDDEN {
        let found = hidden(text, TextUse::Prose);
        assert_eq!(found.iter().map(|it| it.class).collect::<Vec<_>>(), [*class], "{why}");
        assert_eq!(found[0].describe(), *description, "{why}");
    }
}

#[test]
fn the_purpose_of_a_text_decides() {
    assert_eq!(hidden("\u{1f}", TextUse::Value), []);
    assert_eq!(hidden("a\u{200b}b", TextUse::Value).len(), 1);
    assert_eq!(hidden("dele\u{ad}te", TextUse::Prose), []);
    assert_eq!(hidden("dele\u{ad}te", TextUse::Name).len(), 1);
}

#[test]
fn several_classes_are_several_entries() {
    let found = hidden("a\u{200b}\u{202e}b\u{200b}\u{1b}", TextUse::Prose);
    let classes: Vec<_> = found.iter().map(|it| (it.class, it.count)).collect();
    assert_eq!(classes, [(HiddenClass::ZeroWidth, 2), (HiddenClass::Direction, 1), (HiddenClass::Control, 1)]);
}
