//! What a server asks the user -> the terminal, the answers that were given on the command line, or nobody.

use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};

use barewire_proto::mcp::{ElicitForm, ElicitResult, ElicitUrl, Object};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use super::console::Console;
use super::terminal::{self, Terminal};
use crate::ask::given::{Pair, Text};
use crate::ask::schema::Fields;
use crate::output::shown;

/// Whoever answers for the user.
pub(super) struct Elicitor {
    console: Arc<Console>,
    answers: Vec<Pair>,
    /// Who asks, once that is known.
    server: OnceLock<String>,
    is_interactive: bool,
    /// One question after the other: there is one terminal.
    turn: Mutex<()>,
}

impl Elicitor {
    pub(super) fn new(console: Arc<Console>, answers: Vec<Pair>) -> Arc<Self> {
        let is_interactive = io::stdin().is_terminal() && console.is_terminal();
        let server = OnceLock::new();
        Arc::new(Self { console, answers, server, is_interactive, turn: Mutex::default() })
    }

    /// Says who asks from now on.
    pub(super) fn server_is(&self, name: String) {
        let _ = self.server.set(name);
    }

    pub(super) async fn form(self: Arc<Self>, form: ElicitForm) -> ElicitResult {
        let fields = Fields::of(&form.requested_schema);
        let known = match self.known(&fields) {
            Ok(known) => known,
            Err(wrong) => {
                self.console.say(format!("barewire: --answer {wrong}"));
                Object::new()
            }
        };
        let is_full = fields.fields.iter().all(|field| !field.required || known.contains_key(&field.name));
        // A form that nothing was given for is not accepted, also if nothing in it must be given.
        if is_full && !known.is_empty() {
            return ElicitResult::accept(known);
        }
        if !self.is_interactive {
            return self.nobody(&form.message, "--answer key=value fills in a form");
        }
        self.at_terminal(move |server, terminal| terminal.form(server, &form, &fields, &known)).await
    }

    pub(super) async fn url(self: Arc<Self>, page: ElicitUrl) -> ElicitResult {
        if !self.is_interactive {
            let what = format!("{} ({})", page.message, page.url);
            return self.nobody(&what, "a page is asked about at a terminal only");
        }
        self.at_terminal(move |server, terminal| terminal.url(server, &page)).await
    }

    /// What of the form was answered on the command line.
    fn known(&self, fields: &Fields) -> Result<Object, String> {
        let mut known = Object::new();
        for Pair { key, value } in &self.answers {
            let Some(field) = fields.find(key) else { continue };
            let value = match value {
                Text::Plain(text) => terminal::read(field, text),
                Text::Json(json) => serde_json::from_str(json.get())
                    .map_err(|error| error.to_string())
                    .and_then(|value| field.check(&value).map(|()| value)),
            };
            let value = value.map_err(|wrong| format!("{}: {wrong}", shown(key.as_bytes(), LONGEST)))?;
            known.insert(key.clone(), value);
        }
        Ok(known)
    }

    fn nobody(&self, message: &str, hint: &str) -> ElicitResult {
        let message = shown(message.as_bytes(), LONGEST);
        self.console.say(format!(
            "barewire: the server asks, and there is no terminal to ask at; cancelled: {message}\nhint: {hint}"
        ));
        ElicitResult::cancel()
    }

    async fn at_terminal(
        &self,
        ask: impl FnOnce(&str, &mut Terminal<io::StdinLock<'_>, io::Stderr>) -> io::Result<ElicitResult> + Send + 'static,
    ) -> ElicitResult {
        let _turn = self.turn.lock().await;
        let _held = self.console.hold();
        let server = self.server.get().map_or("the server", String::as_str).to_owned();
        // If the call is cancelled meanwhile, the thread stays with its read until the program ends, which is at once.
        let asked = spawn_blocking(move || {
            let mut terminal = Terminal { typed: io::stdin().lock(), seen: io::stderr() };
            ask(&server, &mut terminal)
        });
        match asked.await {
            Ok(Ok(result)) => result,
            // A terminal that is gone is nobody any more.
            Ok(Err(_)) | Err(_) => ElicitResult::cancel(),
        }
    }
}

/// As much of a message as fits a line or two.
const LONGEST: usize = 200;
