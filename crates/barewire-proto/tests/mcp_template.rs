//! URI templates: the examples of RFC 6570, the errors and their offsets, and random templates against an exhaustive
//! matcher.

use barewire_proto::mcp::{Template, TemplateFault};
use proptest::prelude::*;

/// The values of the examples in RFC 6570, section 3.2.
fn example(name: &str) -> Option<&'static str> {
    Some(match name {
        "var" => "value",
        "hello" => "Hello World!",
        "half" => "50%",
        "who" => "fred",
        "base" => "http://example.com/home/",
        "path" => "/foo/bar",
        "v" => "6",
        "x" => "1024",
        "y" => "768",
        "empty" => "",
        _ => return None,
    })
}

#[test]
fn expands_as_the_examples_of_rfc_6570() {
    let examples = [
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{half}", "50%25"),
        ("O{empty}X", "OX"),
        ("O{undef}X", "OX"),
        ("{x,y}", "1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("?{x,empty}", "?1024,"),
        ("?{x,undef}", "?1024"),
        ("?{undef,y}", "?768"),
        ("{+var}", "value"),
        ("{+hello}", "Hello%20World!"),
        ("{+half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("O{+empty}X", "OX"),
        ("{+path}/here", "/foo/bar/here"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("up{+path}{var}/here", "up/foo/barvalue/here"),
        ("{+x,hello,y}", "1024,Hello%20World!,768"),
        ("{+path,x}/here", "/foo/bar,1024/here"),
        ("{#var}", "#value"),
        ("{#hello}", "#Hello%20World!"),
        ("{#half}", "#50%25"),
        ("foo{#empty}", "foo#"),
        ("foo{#undef}", "foo"),
        ("{#x,hello,y}", "#1024,Hello%20World!,768"),
        ("{#path,x}/here", "#/foo/bar,1024/here"),
        ("{.who}", ".fred"),
        ("{.half,who}", ".50%25.fred"),
        ("X{.var}", "X.value"),
        ("X{.empty}", "X."),
        ("X{.undef}", "X"),
        ("{/who}", "/fred"),
        ("{/half,who}", "/50%25/fred"),
        ("{/var,empty}", "/value/"),
        ("{/var,undef}", "/value"),
        ("{/var,x}/here", "/value/1024/here"),
        ("{;who}", ";who=fred"),
        ("{;half}", ";half=50%25"),
        ("{;empty}", ";empty"),
        ("{;v,empty,who}", ";v=6;empty;who=fred"),
        ("{;v,undef,who}", ";v=6;who=fred"),
        ("{?who}", "?who=fred"),
        ("{?half}", "?half=50%25"),
        ("{?x,y}", "?x=1024&y=768"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("{?x,y,undef}", "?x=1024&y=768"),
        ("{&who}", "&who=fred"),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&x,y,empty}", "&x=1024&y=768&empty="),
        ("caf\u{e9}/{x}", "caf%C3%A9/1024"),
    ];
    for (template, expected) in examples {
        let template = Template::parse(template).expect(template);
        assert_eq!(template.expand(example), expected, "{template}");
    }
}

#[test]
fn takes_the_values_out_of_a_uri() {
    type Values = Option<&'static [(&'static str, &'static str)]>;
    let cases: [(&str, &str, Values); 64] = [
        ("note://{id}", "note://7", Some(&[("id", "7")])),
        ("note://{id}", "note://a%20b%2Fc", Some(&[("id", "a b/c")])),
        ("note://{id}", "note://gr\u{fc}n", Some(&[("id", "gr\u{fc}n")])),
        ("note://{id}", "note://a:b@c,d", Some(&[("id", "a:b@c,d")])),
        // A value is not empty, and not a path.
        ("note://{id}", "note://", None),
        ("note://{id}", "note://a/b", None),
        ("note://{id}", "note://a?b", None),
        ("note://{id}", "note://a#b", None),
        ("note://{id}", "NOTE://a", None),
        ("note://{id}", "note:/", None),
        // Percent signs that encode nothing, and bytes that are not UTF-8.
        ("note://{id}", "note://50%", None),
        ("note://{id}", "note://%zz", None),
        ("note://{id}", "note://%ff", None),
        // A percent-encoded byte is not split.
        ("{a}1", "%41", None),
        ("{a}1", "%411", Some(&[("a", "A")])),
        ("file:///{+path}", "file:///a/b?c#d", Some(&[("path", "a/b?c#d")])),
        ("file:///{+path}", "file:///", None),
        ("test://template/{id}/data", "test://template/123/data", Some(&[("id", "123")])),
        ("test://template/{id}/data", "test://template/123/dat", None),
        ("test://template/{id}/data", "test://template/123/data/", None),
        // The first value is as long as possible.
        ("{a}-{b}", "1-2-3", Some(&[("a", "1-2"), ("b", "3")])),
        ("{a}-{b}-{c}", "-----", Some(&[("a", "-"), ("b", "-"), ("c", "-")])),
        ("{a}{b}", "xyz", Some(&[("a", "xy"), ("b", "z")])),
        ("{a}{b}", "x\u{e9}", Some(&[("a", "x"), ("b", "\u{e9}")])),
        ("{a}{b}", "\u{e9}", None),
        ("{a}{b}", "x%C3%A9", Some(&[("a", "x"), ("b", "\u{e9}")])),
        ("{a}{b}", "%C3%A9", None),
        ("{a}%A9{b}", "x%C3%A9y", None),
        // A value with few allowed characters after one with many.
        ("{+a}-{b}", "x/-y/-z", Some(&[("a", "x/-y/"), ("b", "z")])),
        ("{a}-{+b}", "x/-y", None),
        ("{a,b}", "1,2", Some(&[("a", "1"), ("b", "2")])),
        ("{a,b}", "1", None),
        ("{a,b}", "1,2,3", Some(&[("a", "1"), ("b", "2,3")])),
        ("{+a,b}", "/1,2/3", Some(&[("a", "/1"), ("b", "2/3")])),
        ("x{#a,b}", "x#1,2,3", Some(&[("a", "1"), ("b", "2,3")])),
        ("x{#a}", "x", Some(&[])),
        ("x{#a}", "x#", Some(&[("a", "")])),
        ("x{#a}", "x#/y", Some(&[("a", "/y")])),
        ("x{.a,b}", "x", Some(&[])),
        ("x{.a,b}", "x.1", Some(&[("a", "1")])),
        ("x{.a}", "x.tar.gz", Some(&[("a", "tar.gz")])),
        ("x{.a,b}", "x.tar.gz", Some(&[("a", "tar"), ("b", "gz")])),
        ("x{/a,b}", "x/1", Some(&[("a", "1")])),
        ("x{/a,b}", "x/1/2", Some(&[("a", "1"), ("b", "2")])),
        ("x{/a,b}", "x/1/", Some(&[("a", "1"), ("b", "")])),
        ("x{/a,b}", "x/1/2/3", None),
        ("x{/a}/y", "x/y", Some(&[])),
        ("x{/a}/y", "x/y/y", Some(&[("a", "y")])),
        ("x{;a,b}", "x;b=2", Some(&[("b", "2")])),
        ("x{;a,b}", "x;a;b=", Some(&[("a", ""), ("b", "")])),
        ("x{;a,b}", "x;ab", None),
        ("x{?a,b}", "x", Some(&[])),
        ("x{?a,b}", "x?a=1&b=2", Some(&[("a", "1"), ("b", "2")])),
        ("x{?a,b}", "x?b=2/3?", Some(&[("b", "2/3?")])),
        ("x{?a,b}", "x?b=2&a=1", None),
        ("x{?a,b}", "x?c=2", None),
        ("x{?a,b}", "x&a=1", None),
        ("x{?a,b}", "x?a", None),
        ("x{?a}{&b}", "x?a=1&b=2", Some(&[("a", "1"), ("b", "2")])),
        ("x{?a}{#f}", "x?a=1#top", Some(&[("a", "1"), ("f", "top")])),
        ("x?k=1{&a}", "x?k=1", Some(&[])),
        // A literal matches as it is written and percent-encoded.
        ("caf\u{e9}/{a}", "caf\u{e9}/1", Some(&[("a", "1")])),
        ("caf\u{e9}/{a}", "caf%C3%A9/1", Some(&[("a", "1")])),
        ("plain:text", "plain:text", Some(&[])),
    ];
    for (template, uri, expected) in cases {
        let template = Template::parse(template).expect(template);
        let found = template.matches(uri);
        let found: Option<Vec<(&str, &str)>> =
            found.as_ref().map(|found| found.iter().map(|(name, value)| (*name, value.as_str())).collect());
        assert_eq!(found.as_deref(), expected, "{template} and {uri}");
    }
    assert_eq!(Template::parse("").expect("nothing").matches(""), Some(Vec::new()));
    assert_eq!(Template::parse("").expect("nothing").matches("a"), None);
}

#[test]
fn errors_have_the_fault_and_the_offset() {
    use TemplateFault as F;
    let cases = [
        ("note://{id", 7, F::Unclosed),
        ("note://id}", 9, F::Unopened),
        ("{}", 1, F::NoName),
        ("{+}", 2, F::NoName),
        ("{a,}", 3, F::NoName),
        ("{a,,b}", 3, F::NoName),
        ("{a.}", 3, F::NoName),
        ("{.a..b}", 4, F::InName('.')),
        ("{user-id}", 5, F::InName('-')),
        ("{a b}", 2, F::InName(' ')),
        ("{a{b}", 2, F::InName('{')),
        ("{\u{e9}}", 1, F::InName('\u{e9}')),
        ("{path*}", 5, F::Explode),
        ("{/path*}", 6, F::Explode),
        ("{var:3}", 4, F::Prefix),
        ("{=a}", 1, F::Operator('=')),
        ("{|a}", 1, F::Operator('|')),
        ("{a}/{b,a}", 7, F::Twice),
        ("{a,a}", 3, F::Twice),
        ("a b", 1, F::InLiteral(' ')),
        ("caf\u{e9}\n", 5, F::InLiteral('\n')),
        ("50%", 2, F::Percent),
        ("{a%4}", 2, F::Percent),
    ];
    for (template, at, what) in cases {
        let error = Template::parse(template).expect_err(template);
        assert_eq!((error.at, error.what), (at, what), "{template}");
    }
    let names = |count: usize| (0..count).map(|n| format!("n{n}")).collect::<Vec<_>>().join(",");
    assert!(Template::parse(&format!("{{{}}}", names(64))).is_ok());
    let refused = Template::parse(&format!("{{{}}}", names(65))).expect_err("too many");
    assert_eq!(refused.what, F::TooMany);
    assert_eq!(
        Template::parse("file:///{path*}").expect_err("a list").to_string(),
        "URI template, byte 13: lists (\"*\") are not supported"
    );
}

#[test]
fn names_are_those_between_braces() {
    let template = Template::parse("a{b.c,d}{?e_1}{+%41}").expect("a template");
    assert_eq!(template.names().collect::<Vec<_>>(), ["b.c", "d", "e_1", "%41"]);
    assert_eq!(template.to_string(), template.as_str());
}

/// The text of a template with a few parts.
fn template() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[-/.x?&;=#,]{1,2}".prop_map(|literal| literal),
        ("[+#./;?&]?", 1..3_usize)
            .prop_map(|(operator, names)| format!("{{{operator}{}}}", vec!["@"; names].join(","))),
    ];
    // The names are inserted last, so that none occurs twice.
    prop::collection::vec(piece, 1..5).prop_map(|pieces| {
        let mut names = 'a'..;
        let name = |c| if c == '@' { names.next().expect("few") } else { c };
        pieces.concat().chars().map(name).collect()
    })
}

/// Returns all ways in which a URI matches, by trying them. The values are not decoded.
fn naive<'u>(template: &str, uri: &'u str) -> Vec<Vec<(char, &'u str)>> {
    fn value<'u>(
        name: char,
        except: &str,
        least: usize,
        uri: &'u str,
        rest: &dyn Fn(&'u str) -> Vec<Vec<(char, &'u str)>>,
    ) -> Vec<Vec<(char, &'u str)>> {
        // The longest first.
        let longest = uri.find(|c| except.contains(c)).unwrap_or(uri.len());
        let mut found = Vec::new();
        for end in (least..=longest).rev() {
            for mut more in rest(&uri[end..]) {
                more.insert(0, (name, &uri[..end]));
                found.push(more);
            }
        }
        found
    }

    fn list<'u>(
        operator: char,
        names: &[char],
        first: bool,
        uri: &'u str,
        rest: &dyn Fn(&'u str) -> Vec<Vec<(char, &'u str)>>,
    ) -> Vec<Vec<(char, &'u str)>> {
        let Some((&name, others)) = names.split_first() else { return rest(uri) };
        let (before, between, except) = match operator {
            ' ' => ("", ",", "/?#"),
            '+' => ("", ",", ""),
            '#' => ("#", ",", ""),
            '.' => (".", ".", "/?#"),
            '/' => ("/", "/", "/?#"),
            ';' => (";", ";", "/?#;"),
            '?' => ("?", "&", "&#"),
            _ => ("&", "&", "&#"),
        };
        let before = if first { before } else { between };
        let until = format!("{except}{}", if others.is_empty() { "" } else { between });
        let except = if matches!(operator, ';' | '?' | '&') { except } else { until.as_str() };
        let behind = |uri: &'u str| list(operator, others, false, uri, rest);
        let mut found = Vec::new();
        if let Some(uri) = uri.strip_prefix(before) {
            match operator {
                ' ' | '+' => found.extend(value(name, except, 1, uri, &behind)),
                '#' | '.' | '/' => found.extend(value(name, except, 0, uri, &behind)),
                _ => {
                    if let Some(uri) = uri.strip_prefix(name) {
                        if let Some(uri) = uri.strip_prefix('=') {
                            found.extend(value(name, except, 0, uri, &behind));
                        }
                        if operator == ';' {
                            found.extend(value(name, "", 0, &uri[..0], &|_| behind(uri)));
                        }
                    }
                }
            }
        }
        match operator {
            ' ' | '+' => {}
            '#' | '.' | '/' => found.extend(rest(uri)),
            _ => found.extend(list(operator, others, first, uri, rest)),
        }
        found
    }

    match template.split_at_checked(1) {
        None => {
            if uri.is_empty() {
                vec![Vec::new()]
            } else {
                Vec::new()
            }
        }
        Some(("{", behind)) => {
            let (inner, template) = behind.split_once('}').expect("closed");
            let operator = inner.chars().next().filter(|c| !c.is_alphabetic()).unwrap_or(' ');
            let names: Vec<char> = inner.chars().filter(|c| c.is_alphabetic()).collect();
            list(operator, &names, true, uri, &|uri| naive(template, uri))
        }
        Some((literal, template)) => uri.strip_prefix(literal).map_or(Vec::new(), |uri| naive(template, uri)),
    }
}

/// Returns a template with values that are not encoded, so that their ends are ambiguous.
fn filled(template: &str, values: &[String]) -> String {
    let mut uri = String::new();
    let mut values = values.iter();
    for piece in template.split_inclusive('}') {
        let (literal, inner) = piece.trim_end_matches('}').split_once('{').unwrap_or((piece, ""));
        uri += literal;
        let mut operator = "";
        for (index, c) in inner.char_indices() {
            match c {
                '+' => {}
                ',' => {
                    operator = match operator {
                        "?" | "&" => "&",
                        "" | "#" => ",",
                        same => same,
                    }
                }
                c if c.is_alphabetic() => {
                    uri += operator;
                    if matches!(operator, ";" | "?" | "&") {
                        uri.push(c);
                        uri.push('=');
                    }
                    uri += values.next().expect("enough");
                }
                _ => operator = &inner[index..=index],
            }
        }
    }
    uri
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The result is the first match of an exhaustive matcher that tries the longest values first.
    #[test]
    fn matches_like_an_exhaustive_matcher(
        template in template(),
        any in "[-/.x?&;=#,a-c]{0,9}",
        values in prop::collection::vec("[-/.x?&;=#,a-c]{0,2}", 8),
    ) {
        for uri in [any, filled(&template, &values)] {
            let parsed = Template::parse(&template).expect("a template");
            let letter = |name: &str| name.chars().next().expect("a letter");
            let found = parsed.matches(&uri);
            let found: Option<Vec<(char, &str)>> = found
                .as_ref()
                .map(|found| found.iter().map(|(name, value)| (letter(name), value.as_str())).collect());
            prop_assert_eq!(found, naive(&template, &uri).into_iter().next(), "{} and {}", template, uri);
        }
    }

    /// An expanded URI matches for all values without list separators.
    #[test]
    fn an_expanded_uri_matches(template in template(), values in prop::collection::vec("[^%,.]{1,4}", 8)) {
        let template = Template::parse(&template).expect("a template");
        let value = |name: &str| values.get(usize::from(name.as_bytes()[0] - b'a')).map(String::as_str);
        let uri = template.expand(value);
        let found = template.matches(&uri);
        prop_assert!(found.is_some(), "{} and {}", template, uri);
        let found = found.expect("just seen");
        let again = template.expand(|name| found.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str()));
        // The values may be split differently, but they expand to the same URI, apart from percent-encoding.
        let plain = |uri: &str| Template::parse("{+all}").expect("a template").matches(uri).map(|mut all| all.remove(0).1);
        prop_assert_eq!(plain(&again), plain(&uri));
    }

    /// Values without separators are found again.
    #[test]
    fn simple_values_are_found_again(template in template(), values in prop::collection::vec("[A-Z\u{e9} ]{1,4}", 8)) {
        // Without a separator between two values, the end of the first is ambiguous.
        let template = Template::parse(&template.replace("}{", "}-{")).expect("a template");
        let value = |name: &str| values.get(usize::from(name.as_bytes()[0] - b'a')).map(String::as_str);
        let uri = template.expand(value);
        let expected: Vec<(&str, String)> =
            template.names().map(|name| (name, value(name).expect("enough").to_owned())).collect();
        prop_assert_eq!(template.matches(&uri), Some(expected), "{} and {}", template, uri);
    }

    #[test]
    fn nothing_panics(template in "\\PC{0,20}", uri in "\\PC{0,20}", pieces in "[{}+#./;?&,%a-b41\u{e9}]{0,12}") {
        for text in [template, pieces] {
            if let Ok(template) = Template::parse(&text) {
                let _ = template.matches(&uri);
                let _ = template.matches(&text);
                let _ = template.expand(|_| Some(&uri));
            }
        }
    }
}
