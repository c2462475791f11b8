//! A server's requests for user input -> answers from `--answer` or the terminal, or a cancel.

use std::io::{self, BufWriter, IsTerminal};
use std::sync::{Arc, OnceLock};

use barewire_proto::mcp::{ElicitForm, ElicitResult, ElicitUrl, Object};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use super::console::Console;
use super::terminal::{self, Terminal};
use super::time_limit::TimeLimit;
use crate::ask::given::{Pair, Text};
use crate::ask::schema::Fields;
use crate::output::{shown, stderr};

pub(super) struct Elicitor {
    console: Arc<Console>,
    answers: Vec<Pair>,
    /// The server's name, set after the handshake.
    server: OnceLock<String>,
    is_interactive: bool,
    /// Locked while a question is shown on the terminal.
    terminal: Mutex<()>,
    /// Paused while a question is shown on the terminal.
    limit: Arc<TimeLimit>,
}

impl Elicitor {
    pub(super) fn new(console: Arc<Console>, answers: Vec<Pair>, limit: Arc<TimeLimit>) -> Arc<Self> {
        let is_interactive = io::stdin().is_terminal() && console.is_terminal;
        let server = OnceLock::new();
        Arc::new(Self { console, answers, server, is_interactive, terminal: Mutex::default(), limit })
    }

    pub(super) fn set_server(&self, name: String) {
        let _ = self.server.set(name);
    }

    pub(super) async fn form(self: Arc<Self>, form: ElicitForm) -> ElicitResult {
        let fields = Fields::of(&form.requested_schema);
        let known = self.given_answers(&fields).unwrap_or_else(|error| {
            self.console.line(format!("barewire: --answer {error}"));
            Object::new()
        });
        let is_full = fields.fields.iter().all(|field| !field.required || known.contains_key(&field.name));
        // A form is accepted without asking only if `--answer` gave at least one value, even if no field is required.
        if is_full && !known.is_empty() {
            return ElicitResult::accept(known);
        }
        if !self.is_interactive {
            return self.cancel(&form.message, "--answer key=value fills in a form");
        }
        self.at_terminal(move |server, terminal| terminal.form(server, &form, &fields, &known)).await
    }

    pub(super) async fn url(self: Arc<Self>, page: ElicitUrl) -> ElicitResult {
        if !self.is_interactive {
            let what = format!("{} ({})", page.message, page.url);
            return self.cancel(&what, "opening a page has to be confirmed on a terminal");
        }
        self.at_terminal(move |server, terminal| terminal.url(server, &page)).await
    }

    /// Returns the values that `--answer` gives for the fields of a form.
    fn given_answers(&self, fields: &Fields) -> Result<Object, String> {
        let mut known = Object::new();
        for Pair { key, value } in &self.answers {
            let Some(field) = fields.find(key) else { continue };
            let value = match value {
                Text::Plain(text) => terminal::read(field, text),
                Text::Json(json) => serde_json::from_str(json.get())
                    .map_err(|error| error.to_string())
                    .and_then(|value| field.check(&value).map(|()| value)),
            };
            let value = value.map_err(|error| format!("{}: {error}", shown(key.as_bytes(), MAX_MESSAGE)))?;
            known.insert(key.clone(), value);
        }
        Ok(known)
    }

    fn cancel(&self, message: &str, hint: &str) -> ElicitResult {
        let message = shown(message.as_bytes(), MAX_MESSAGE);
        let what = "the server asks for user input, but there is no terminal; cancelled";
        self.console.line(format!("barewire: {what}: {message}\nhint: {hint}"));
        ElicitResult::cancel()
    }

    async fn at_terminal(
        &self,
        ask: impl FnOnce(&str, &mut Terminal<io::StdinLock<'_>, BufWriter<io::Stderr>>) -> io::Result<ElicitResult>
        + Send
        + 'static,
    ) -> ElicitResult {
        let _lock = self.terminal.lock().await;
        let _pauses = (self.console.pause(), self.limit.pause());
        let server = self.server.get().map_or("the server", String::as_str).to_owned();
        // If the call is cancelled meanwhile, this thread keeps reading until the process exits, which is soon after.
        let answer = spawn_blocking(move || {
            let mut terminal = Terminal { input: io::stdin().lock(), output: stderr() };
            ask(&server, &mut terminal)
        });
        match answer.await {
            Ok(Ok(result)) => result,
            // The terminal was closed.
            Ok(Err(_)) | Err(_) => ElicitResult::cancel(),
        }
    }
}

/// The maximum number of characters of a message to show.
const MAX_MESSAGE: usize = 200;
