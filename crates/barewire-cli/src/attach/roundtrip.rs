//! Attaches and detaches servers in random configurations, and checks that the original bytes are restored and that
//! attaching changes nothing outside the entry.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::entry::{Entry, edited};
use super::jsonc::JsoncDocument;
use super::node::{Node, NodeKind, Syntax};
use super::servers::{Server, servers};

/// Builds a configuration from arbitrary bytes, which decide each choice. So every proptest input is a valid
/// configuration and shrinks to a smaller one.
struct ConfigWriter<'a> {
    choices: std::slice::Iter<'a, u8>,
    out: String,
    is_strict: bool,
}

impl ConfigWriter<'_> {
    fn choose(&mut self, among: u8) -> u8 {
        self.choices.next().map_or(0, |choice| choice % among)
    }

    fn one_of(&mut self, among: &[&str]) {
        let at = self.choose(u8::try_from(among.len()).expect("few"));
        self.out.push_str(among[usize::from(at)]);
    }

    /// Writes random whitespace between two tokens.
    fn space(&mut self) {
        for _ in 0..self.choose(3) {
            self.one_of(&[" ", "\n", "\r\n", "\t", "    ", "\n  "]);
            if !self.is_strict && self.choose(4) == 0 {
                self.one_of(&["// \"args\": [\n", "/* , */", "/**/", "//\"\r\n", "/* \"tap\", \"--\" ] } */", "//é\n"]);
            }
        }
    }

    fn token(&mut self, token: &str) {
        self.space();
        self.out.push_str(token);
    }

    fn list(&mut self, open: &str, close: &str, count: u8, mut each: impl FnMut(&mut Self, u8)) {
        self.token(open);
        for at in 0..count {
            each(self, at);
            if at + 1 < count || !self.is_strict && self.choose(3) == 0 {
                self.token(",");
            }
        }
        self.token(close);
    }

    fn string(&mut self) {
        self.space();
        let plain = ["npx", "-y", "", "--", "tap", "a b", "é漢😀", "//", "--record", "barewire", "[,]"];
        let written = [r#""n\u0070x""#, r#""\"\\""#, r#""C:\\x\/y""#].map(str::to_owned);
        let strings: Vec<String> = plain.iter().map(|text| format!("\"{text}\"")).chain(written).collect();
        self.one_of(&strings.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn value(&mut self) {
        match self.choose(5) {
            0 => self.string(),
            1 => self.token("-1.5e3"),
            2 => self.token("null"),
            3 => {
                let count = self.choose(3);
                self.list("[", "]", count, |it, _| it.string());
            }
            _ => self.list("{", "}", 1, |it, _| it.member("\"command\"", Self::string)),
        }
    }

    fn member(&mut self, key: &str, value: impl FnOnce(&mut Self)) {
        self.token(key);
        self.token(":");
        value(self);
    }

    fn entry(&mut self) {
        // At least three members, one of which is the command. If a name occurs more than once, hosts use the last.
        let (command, count) = (self.choose(3), 3 + self.choose(2));
        self.list("{", "}", count, |it, at| match at {
            at if at == command => it.member("\"command\"", Self::string),
            at => match it.choose(4) {
                0 => it.member(["\"env\"", "\"type\"", "\"cwd\"", "\"x\""][usize::from(at)], Self::value),
                _ => {
                    let key = if it.choose(3) == 0 { "\"ar\\u0067s\"" } else { "\"args\"" };
                    it.member(key, |it| {
                        let count = it.choose(4);
                        it.list("[", "]", count, |it, _| it.string());
                    });
                }
            },
        });
    }

    fn config(&mut self) {
        if self.choose(4) == 0 && !self.is_strict {
            self.out.push('\u{feff}');
        }
        let place = self.choose(3);
        let servers = |it: &mut Self| {
            let count = 1 + it.choose(3);
            it.list("{", "}", count, |it, at| {
                it.member(["\"a\"", "\"\\u0061b\"", "\"é\""][usize::from(at)], Self::entry);
            });
        };
        self.list("{", "}", 3, |it, at| match (at, place) {
            (0, _) => it.member("\"before\"", Self::value),
            (2, _) => it.member("\"after\"", Self::value),
            (_, 0) => it.member("\"mcpServers\"", servers),
            (_, 1) => it.member("\"servers\"", servers),
            _ => it.member("\"mcp\"", |it| it.list("{", "}", 1, |it, _| it.member("\"servers\"", servers))),
        });
        self.space();
    }
}

fn made(choices: &[u8], is_strict: bool) -> String {
    let mut writer = ConfigWriter { choices: choices.iter(), out: String::new(), is_strict };
    writer.config();
    writer.out
}

fn document(text: &str) -> JsoncDocument {
    JsoncDocument::parse(text).unwrap_or_else(|bad| panic!("{bad:?} in {text}"))
}

fn same<'a>(all: &'a [Server], server: &Server) -> &'a Server {
    all.iter().find(|it| it.name == server.name && it.scope == server.scope).expect("the server")
}

/// Returns the command and the arguments of an entry, as a host reads them.
fn taken(server: &Server) -> (String, Vec<String>) {
    let text = |node: &Node| node.text().expect("a text").to_owned();
    let args = match server.entry.member("args").map(|args| &args.value.kind) {
        Some(NodeKind::List(list)) => list.elements.iter().map(text).collect(),
        _ => Vec::new(),
    };
    (text(&server.entry.member("command").expect("a command").value), args)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn detaching_restores_the_same_bytes(choices in prop::collection::vec(any::<u8>(), 0..400)) {
        let before = made(&choices, false);
        let first = document(&before);
        for server in servers(&first) {
            let Entry::Program(program) = Entry::read(&server.entry, Syntax::Json) else { continue };
            let options = ["--log".to_owned(), "stderr".to_owned()];
            let options = if choices.len() % 2 == 0 { &options[..] } else { &[] };
            let edits = program.attach(&before, "/opt/bare wire", "/s/é \"x\"-%t.wire", options);
            let attached = edited(&before, &edits);
            // Everything outside the entry is unchanged.
            let (start, end) = (server.entry.span.start, before.len() - server.entry.span.end);
            prop_assert_eq!(&attached[..start], &before[..start]);
            prop_assert_eq!(&attached[attached.len() - end..], &before[before.len() - end..]);

            let second = document(&attached);
            let all = servers(&second);
            let now = same(&all, &server);
            let (command, args) = taken(now);
            let (own, own_args) = taken(&server);
            prop_assert_eq!(command, "/opt/bare wire");
            let cut = args.iter().position(|arg| arg == "--").expect("it is there");
            prop_assert_eq!(&args[cut + 1], &own);
            prop_assert_eq!(&args[cut + 2..], &own_args[..]);
            prop_assert!(args[..cut].concat().starts_with("tap--record"));

            let Entry::Attached(wrapped) = Entry::read(&now.entry, Syntax::Json) else { panic!("not attached: {attached}") };
            prop_assert_eq!(&wrapped.record, "/s/é \"x\"-%t.wire");
            prop_assert_eq!(edited(&attached, &wrapped.detach(&attached)), before.clone());
        }
    }

    /// If an editor reformats the file between attaching and detaching, only the formatting differs at the end.
    #[test]
    fn detaching_a_reformatted_file_restores_its_meaning(choices in prop::collection::vec(any::<u8>(), 0..400)) {
        let before = made(&choices, true);
        let first = document(&before);
        let wanted: Value = serde_json::from_str(&before).expect("plain JSON");
        for server in servers(&first) {
            let Entry::Program(program) = Entry::read(&server.entry, Syntax::Json) else { continue };
            let attached = edited(&before, &program.attach(&before, "/b/barewire", "/s/x.wire", &[]));
            let value: Value = serde_json::from_str(&attached).expect("plain JSON");
            let anew = serde_json::to_string_pretty(&value).expect("it is written");
            let second = document(&anew);
            let all = servers(&second);
            let Entry::Attached(wrapped) = Entry::read(&same(&all, &server).entry, Syntax::Json) else { panic!("{anew}") };
            let detached = edited(&anew, &wrapped.detach(&anew));
            let value: Value = serde_json::from_str(&detached).expect("plain JSON");
            prop_assert_eq!(without_empty_args(value), without_empty_args(wanted.clone()));
        }
    }
}

/// Removes empty argument lists, because hosts treat them like missing ones.
fn without_empty_args(mut config: Value) -> Value {
    for path in ["/mcpServers", "/servers", "/mcp/servers"] {
        for entry in config.pointer_mut(path).and_then(Value::as_object_mut).into_iter().flat_map(|it| it.values_mut())
        {
            if let Some(entry) = entry.as_object_mut()
                && entry.get("args") == Some(&json!([]))
            {
                entry.remove("args");
            }
        }
    }
    config
}

/// The random choices produce all kinds of entries.
#[test]
fn all_kinds_of_entries_are_generated() {
    let (mut none, mut empty, mut some, mut commented) = (0, 0, 0, 0);
    let mut seed = 1_u64;
    for _ in 0..2000 {
        let mut choices = [0; 300];
        for choice in &mut choices {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *choice = seed.to_be_bytes()[0];
        }
        let text = made(&choices, false);
        let document = document(&text);
        for server in servers(&document) {
            match server.entry.member("args").map(|_| taken(&server).1.len()) {
                None => none += 1,
                Some(0) => empty += 1,
                Some(_) => some += 1,
            }
        }
        commented += u32::from(text.contains("//") && text.contains("/*"));
    }
    assert!(none > 100 && empty > 100 && some > 100 && commented > 100, "{none} {empty} {some} {commented}");
}
