//! Values that differ in each run <-> placeholders for them in a transcript, such as `<state:1>`.

/// The values seen so far, by kind.
#[derive(Default)]
pub(crate) struct Secrets {
    known: Vec<(&'static str, String)>,
}

impl Secrets {
    /// Replaces values with placeholders, and remembers them. The same value gets the same placeholder.
    pub(crate) fn hide(&mut self, line: &str) -> String {
        let mut hidden = line.to_owned();
        for (member, kind) in MEMBERS {
            let begin = format!("\"{member}\":\"");
            let mut from = 0;
            while let Some(at) = hidden[from..].find(&begin).map(|at| from + at + begin.len()) {
                let end = at + hidden[at..].find('"').expect("a string ends");
                let value = hidden[at..end].to_owned();
                let name = self.name(kind, value);
                hidden.replace_range(at..end, &name);
                from = at;
            }
        }
        // A task that is known is also hidden where it is not a member of its own, as in a list of ids.
        for (number, (_, task)) in (1..).zip(self.known.iter().filter(|(kind, _)| *kind == "task")) {
            hidden = hidden.replace(&format!("\"{task}\""), &format!("\"<task:{number}>\""));
        }
        for member in TIMES {
            let begin = format!("\"{member}\":\"");
            let mut from = 0;
            while let Some(at) = hidden[from..].find(&begin).map(|at| from + at + begin.len()) {
                let end = at + hidden[at..].find('"').expect("a string ends");
                hidden.replace_range(at..end, "<time>");
                from = at;
            }
        }
        hidden
    }

    fn name(&mut self, kind: &'static str, value: String) -> String {
        let mut same = self.known.iter().filter(|(known, _)| *known == kind);
        let number = same.position(|(_, known)| *known == value).unwrap_or_else(|| {
            let number = self.known.iter().filter(|(known, _)| *known == kind).count();
            self.known.push((kind, value));
            number
        });
        format!("<{kind}:{}>", number + 1)
    }

    /// Replaces placeholders with values.
    pub(crate) fn show(&self, line: &[u8]) -> Vec<u8> {
        let Ok(line) = std::str::from_utf8(line) else { return line.to_owned() };
        let mut shown = line.to_owned();
        for (_, kind) in MEMBERS {
            let values = self.known.iter().filter(|(known, _)| *known == kind);
            for (number, (_, value)) in (1..).zip(values) {
                shown = shown.replace(&format!("<{kind}:{number}>"), value);
            }
            assert!(!shown.contains(&format!("<{kind}:")), "nothing has this name yet: {line}");
        }
        shown.into_bytes()
    }
}

/// The members whose values differ in each run, and the kinds of these values.
const MEMBERS: [(&str, &str); 3] = [("requestState", "state"), ("elicitationId", "elicitation"), ("taskId", "task")];

/// The members that are times. Two of them may be the same or not, so they have no numbers.
const TIMES: [&str; 2] = ["createdAt", "lastUpdatedAt"];
