//! The entry of a server in a host's configuration <-> the same entry, changed to start the server through `barewire
//! tap`.
//!
//! Attaching and detaching are edits of a few bytes. Attaching moves the program's name, exactly as it was written,
//! from `command` to the place after the `--` in `args`, and puts tap's arguments before the server's own. So the entry
//! holds all that detaching needs to restore it, even if the user has changed other parts of the file in between.

use std::ops::Range;

use super::jsonc::{Child, Document};

/// The form of a server's entry: how the host reaches the server.
pub(super) enum Entry {
    /// The host starts a program.
    Program(Program),
    /// The host starts a program through `barewire tap`, and the entry has the form that `attach` writes.
    Attached(Attached),
    /// The host starts this program through `barewire tap`, but the entry does not have the form that `attach` writes.
    TappedByHand(String),
    /// The host connects to a URL.
    Url(String),
    /// The entry has none of these forms, for this reason.
    Unsupported(&'static str),
}

pub(super) struct Program {
    command: Child,
    args: Option<ArgsMember>,
}

struct ArgsMember {
    value: Range<usize>,
    elements: Vec<Range<usize>>,
}

pub(super) struct Attached {
    command: Child,
    args: ArgsMember,
    /// The index of the program in `args`.
    program: usize,
    /// The path of the captures, from `--record`.
    pub(super) record: String,
    /// Whether the entry had `args` before it was attached.
    had_args: bool,
}

/// A range of bytes in a text, and its replacement.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) span: Range<usize>,
    pub(super) with: String,
}

impl Entry {
    pub(super) fn read(document: &Document<'_>, entry: &Range<usize>) -> Self {
        if !document.is_object(entry) {
            return Self::Unsupported("is not an object");
        }
        let member = |name| document.member(entry, name);
        let text = |name| document.string(&member(name)?.value);
        let url = || ["url", "serverUrl", "httpUrl"].into_iter().find_map(text);
        let Some(command) = member("command") else {
            return url().map_or(Self::Unsupported("has neither a command nor a url"), Self::Url);
        };
        if document.string(&command.value).is_none() {
            return Self::Unsupported("has a command that is not a string");
        }
        let args = match member("args") {
            None => None,
            Some(args) if !document.is_array(&args.value) => {
                return Self::Unsupported("has args that are not an array");
            }
            Some(args) => {
                let elements = document.children(&args.value).into_iter().map(|child| child.value);
                Some(ArgsMember { elements: elements.collect(), value: args.value })
            }
        };
        let args = match args.map(|args| Self::read_tap(document, &command, args)) {
            Some(Ok(entry)) => return entry,
            Some(Err(args)) => Some(args),
            None => None,
        };
        // If the entry has both a command and a URL, its `type` decides. Attached entries were already recognized
        // above.
        match url().filter(|_| text("type").is_some_and(|kind| kind != "stdio")) {
            Some(url) => Self::Url(url),
            None => Self::Program(Program { command, args }),
        }
    }

    /// Reads an entry that starts `barewire tap`. If the entry starts another program, returns `args` unchanged.
    fn read_tap(document: &Document<'_>, command: &Child, args: ArgsMember) -> Result<Self, ArgsMember> {
        let words: Vec<Option<String>> = args.elements.iter().map(|element| document.string(element)).collect();
        let word = |at: usize| words.get(at).and_then(Option::as_deref);
        let separator = (1..words.len()).find(|at| word(*at) == Some("--")).filter(|_| word(0) == Some("tap"));
        let Some((program, program_name)) = separator.and_then(|at| Some((at + 1, word(at + 1)?))) else {
            return Err(args);
        };
        // `attach` always writes `--record` as the first option.
        let joined = word(1).and_then(|it| it.strip_prefix("--record="));
        let separate = word(2).filter(|_| word(1) == Some("--record"));
        if let Some(record) = joined.or(separate) {
            let (record, had_args) = (record.to_owned(), joined.is_none());
            return Ok(Self::Attached(Attached { command: command.clone(), args, program, record, had_args }));
        }
        let command = document.string(&command.value).unwrap_or_default();
        let is_barewire = command.rsplit(['/', '\\']).next().is_some_and(|name| name.starts_with("barewire"));
        if is_barewire { Ok(Self::TappedByHand(program_name.to_owned())) } else { Err(args) }
    }
}

impl Program {
    /// Returns the program without its arguments, because they may contain secrets.
    pub(super) fn command(&self, document: &Document<'_>) -> String {
        document.string(&self.command.value).expect("`Entry::read` checked that it is a string")
    }

    /// Returns the edits that make the host start the program through `barewire tap --record FILE OPTIONS… --`.
    pub(super) fn attach(
        &self,
        document: &Document<'_>,
        barewire: &str,
        record: &str,
        options: &[String],
    ) -> Vec<Edit> {
        let text = document.text;
        let own = self.command.value.clone();
        let mut words = vec![quoted("tap")];
        // `--record FILE` tells `detach` that the entry had args before, and `--record=FILE` that it had none.
        match self.args {
            Some(_) => words.extend([quoted("--record"), quoted(record)]),
            None => words.push(quoted(&format!("--record={record}"))),
        }
        words.extend(options.iter().map(|option| quoted(option)));
        words.extend([quoted("--"), text[own.clone()].to_owned()]);
        let (at, with) = match &self.args {
            Some(ArgsMember { value, elements }) => match elements.first() {
                Some(first) => {
                    let between = format!(",{}", line_break_before(text, first.start).unwrap_or(" "));
                    (first.start, words.join(&between) + &between)
                }
                None => (value.start + 1, words.join(", ")),
            },
            None => {
                let between = line_break_before(text, self.command.key.start).unwrap_or(" ");
                (own.end, format!(",{between}\"args\": [{}]", words.join(", ")))
            }
        };
        sorted([Edit { span: own, with: quoted(barewire) }, Edit { span: at..at, with }])
    }
}

impl Attached {
    /// Returns the program that tap starts, without its arguments.
    pub(super) fn command(&self, document: &Document<'_>) -> String {
        document.string(&self.args.elements[self.program]).expect("`Entry::read` checked that it is a string")
    }

    /// Returns the edits that make the host start the program directly again.
    pub(super) fn detach(&self, document: &Document<'_>) -> Vec<Edit> {
        let text = document.text;
        let elements = &self.args.elements;
        let own = &elements[self.program];
        let removed = match elements.get(self.program + 1) {
            Some(next) => elements[0].start..next.start,
            None if !self.had_args && self.has_added_args(text) => self.command.value.end..self.args.value.end,
            // A trailing comma after the last argument is removed too.
            None => elements[0].start..document.trailing_comma_after(own.end).unwrap_or(own.end),
        };
        sorted([
            Edit { span: self.command.value.clone(), with: text[own.clone()].to_owned() },
            Edit { span: removed, with: String::new() },
        ])
    }

    /// Whether the entry had no `args` before `attach`, but was edited since, so that `detach` leaves an empty list.
    pub(super) fn leaves_empty_args(&self, document: &Document<'_>) -> bool {
        let is_last = self.program + 1 == self.args.elements.len();
        !self.had_args && is_last && !self.has_added_args(document.text)
    }

    /// Whether `args` directly follows `command`, where `attach` adds it.
    fn has_added_args(&self, text: &str) -> bool {
        let between = text.get(self.command.value.end..self.args.value.start);
        let name = between.and_then(|between| between.trim().strip_prefix(',')?.strip_suffix(':'));
        name.map(str::trim) == Some("\"args\"")
    }
}

fn sorted(mut edits: [Edit; 2]) -> Vec<Edit> {
    edits.sort_by_key(|edit| edit.span.start);
    edits.into()
}

/// Applies edits to a text. The edits must be in order and must not overlap.
pub(super) fn edited(text: &str, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for edit in edits {
        out.push_str(&text[at..edit.span.start]);
        out.push_str(&edit.with);
        at = edit.span.end;
    }
    out.push_str(&text[at..]);
    out
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the line break and indentation before the byte `at`, if that byte is the first of its line apart from the
/// indentation.
fn line_break_before(text: &str, at: usize) -> Option<&str> {
    let indented = text[..at].trim_end_matches([' ', '\t']);
    let start = if indented.ends_with("\r\n") { indented.len() - 2 } else { indented.strip_suffix('\n')?.len() };
    Some(&text[start..at])
}
