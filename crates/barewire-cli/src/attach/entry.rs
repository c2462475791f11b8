//! What stands under a server's name in a host's configuration <-> the same, started through `barewire tap`.
//!
//! The way there and the way back are edits of a few bytes. The way back needs nothing but the text: the program's name goes, letter by
//! letter as it was written, from `command` to behind the `--` of the arguments, and ours stand before the first of the server's own. So
//! whatever the user changes elsewhere in the meantime, what was there before comes back.

use std::ops::Range;

use super::jsonc::{Child, Document};

/// What a host does to reach a server.
pub(super) enum Entry {
    /// It starts a program.
    Program(Program),
    /// It starts a program through `barewire tap`.
    Attached(Attached),
    /// So it does, but not as we would have written it; what tap starts.
    TappedByHand(String),
    /// It connects to a URL.
    Url(String),
    /// It cannot be told.
    Unsupported(&'static str),
}

pub(super) struct Program {
    /// The member `command`.
    command: Child,
    args: Option<ArgsMember>,
}

/// The member `args`.
struct ArgsMember {
    value: Range<usize>,
    elements: Vec<Range<usize>>,
}

pub(super) struct Attached {
    command: Child,
    args: ArgsMember,
    /// EntryArgs of the arguments is the program.
    inner: usize,
    /// Where captures go.
    pub(super) record: String,
    had_args: bool,
}

/// Bytes of a text, and what stands there instead afterwards.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) span: Range<usize>,
    pub(super) with: String,
}

impl Entry {
    pub(super) fn read(document: &Document<'_>, entry: &Range<usize>) -> Self {
        if !document.is_object(entry) {
            return Self::Unsupported("is no object");
        }
        let member = |name| document.member(entry, name);
        let told = |name| document.string(&member(name)?.value);
        let url = || ["url", "serverUrl", "httpUrl"].into_iter().find_map(told);
        let Some(command) = member("command") else {
            return url().map_or(Self::Unsupported("has neither a command nor a url"), Self::Url);
        };
        if document.string(&command.value).is_none() {
            return Self::Unsupported("has a command that is no text");
        }
        // Where both are there the type says which one is meant, unless we have written the command.
        let remote = if told("type").is_some_and(|kind| kind != "stdio") { url() } else { None };
        let direct = |command, args| match remote {
            Some(url) => Self::Url(url),
            None => Self::Program(Program { command, args }),
        };
        let args = match member("args") {
            None => return direct(command, None),
            Some(args) if !document.is_array(&args.value) => return Self::Unsupported("has args that are no array"),
            Some(args) => {
                let elements = document.children(&args.value).into_iter().map(|child| child.value);
                ArgsMember { elements: elements.collect(), value: args.value }
            }
        };
        match TapCommand::find(document, &command, &args) {
            Some(TapCommand::Attached { inner, record, had_args }) => {
                Self::Attached(Attached { command, args, inner, record, had_args })
            }
            Some(TapCommand::ByHand { program }) => Self::TappedByHand(program),
            None => direct(command, Some(args)),
        }
    }
}

impl Program {
    /// What is started, without its arguments: they may hold secrets.
    pub(super) fn command(&self, document: &Document<'_>) -> String {
        document.string(&self.command.value).expect("it was read")
    }

    /// The edits after which the program is started through `barewire tap --record FILE OPTIONS… --`.
    pub(super) fn attach(
        &self,
        document: &Document<'_>,
        barewire: &str,
        record: &str,
        options: &[String],
    ) -> Vec<Edit> {
        let text = document.text();
        let own = self.command.value.clone();
        let mut ours = vec![quoted("tap")];
        // The two ways to write an option tell the way back whether there were arguments: an empty list and none are the same to hosts.
        match self.args {
            Some(_) => ours.extend([quoted("--record"), quoted(record)]),
            None => ours.push(quoted(&format!("--record={record}"))),
        }
        ours.extend(options.iter().map(|option| quoted(option)));
        ours.extend([quoted("--"), text[own.clone()].to_owned()]);
        let arguments = match &self.args {
            Some(ArgsMember { value, elements }) => match elements.first() {
                Some(first) => {
                    let between = format!(",{}", line_break_before(text, first.start).unwrap_or(" "));
                    Edit { span: first.start..first.start, with: ours.join(&between) + &between }
                }
                None => Edit { span: value.start + 1..value.start + 1, with: ours.join(", ") },
            },
            None => {
                let between = line_break_before(text, self.command.key.start).unwrap_or(" ");
                let with = format!(",{between}\"args\": [{}]", ours.join(", "));
                Edit { span: own.end..own.end, with }
            }
        };
        let mut edits = vec![Edit { span: own, with: quoted(barewire) }, arguments];
        edits.sort_by_key(|edit| edit.span.start);
        edits
    }
}

/// An entry in which `tap` comes first.
enum TapCommand {
    /// EntryArgs argument is the program, where captures go, and whether there were arguments before.
    Attached {
        inner: usize,
        record: String,
        had_args: bool,
    },
    ByHand {
        program: String,
    },
}

impl TapCommand {
    fn find(document: &Document<'_>, command: &Child, args: &ArgsMember) -> Option<Self> {
        let said: Vec<Option<String>> = args.elements.iter().map(|element| document.string(element)).collect();
        let is = |at: usize, what: &str| said.get(at).is_some_and(|it| it.as_deref() == Some(what));
        if !is(0, "tap") {
            return None;
        }
        let inner = 1 + (1..said.len()).find(|at| is(*at, "--"))?;
        let program = said.get(inner)?.clone()?;
        // We write where captures go, and before everything else.
        let joined = said[1].as_deref().and_then(|it| it.strip_prefix("--record=")).map(str::to_owned);
        let had_args = joined.is_none();
        if let Some(record) = joined.or_else(|| if is(1, "--record") { said[2].clone() } else { None }) {
            return Some(Self::Attached { inner, record, had_args });
        }
        let starts = document.string(&command.value)?;
        let is_ours = starts.rsplit(['/', '\\']).next().is_some_and(|name| name.starts_with("barewire"));
        is_ours.then_some(Self::ByHand { program })
    }
}

impl Attached {
    /// What tap starts, without its arguments.
    pub(super) fn command(&self, document: &Document<'_>) -> String {
        document.string(&self.args.elements[self.inner]).expect("it was read")
    }

    /// The edits after which the program is started directly.
    pub(super) fn detach(&self, document: &Document<'_>) -> Vec<Edit> {
        let text = document.text();
        let elements = &self.args.elements;
        let own = &elements[self.inner];
        let arguments = match elements.get(self.inner + 1) {
            Some(next) => elements[0].start..next.start,
            None if !self.had_args && self.follows_directly(text) => self.command.value.end..self.args.value.end,
            // A comma that somebody put behind the last one has nothing to stand behind.
            None => elements[0].start..document.trailing_comma_after(own.end).unwrap_or(own.end),
        };
        let mut edits = vec![
            Edit { span: self.command.value.clone(), with: text[own.clone()].to_owned() },
            Edit { span: arguments, with: String::new() },
        ];
        edits.sort_by_key(|edit| edit.span.start);
        edits
    }

    /// Whether there were no arguments before, but it has been changed so that their list has to stay.
    pub(super) fn leaves_empty_args(&self, document: &Document<'_>) -> bool {
        let is_last = self.inner + 1 == self.args.elements.len();
        !self.had_args && is_last && !self.follows_directly(document.text())
    }

    /// Whether nothing but our own comma, space and name stand between the command and its arguments.
    fn follows_directly(&self, text: &str) -> bool {
        let between = text.get(self.command.value.end..self.args.value.start);
        let name = between.and_then(|between| between.trim().strip_prefix(',')).map(str::trim_start);
        let name = name.and_then(|name| name.strip_suffix(':')).map(str::trim_end);
        name == Some("\"args\"")
    }
}

/// The text after its edits, which are in order and do not overlap.
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

/// The line break and indentation directly before a byte, if it is the first of its line.
fn line_break_before(text: &str, at: usize) -> Option<&str> {
    let indented = text[..at].trim_end_matches([' ', '\t']);
    let start = if indented.ends_with("\r\n") { indented.len() - 2 } else { indented.strip_suffix('\n')?.len() };
    Some(&text[start..at])
}
