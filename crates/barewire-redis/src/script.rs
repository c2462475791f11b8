//! Small programs that the server runs without interruption.

use bytes::Bytes;
use redis::{Cmd, cmd};

/// A Lua script, with the hash under which the server remembers it.
pub(crate) struct Script {
    hash: String,
    text: &'static str,
}

impl Script {
    pub(crate) fn new(text: &'static str) -> Self {
        Self { hash: redis::Script::new(text).get_hash().to_owned(), text }
    }

    /// Returns the command that runs the script if the server remembers it, to which the arguments are added.
    pub(crate) fn by_hash(&self, keys: &[&str]) -> Cmd {
        with_keys("EVALSHA", &self.hash, keys)
    }

    /// Returns the command that runs the script, and makes the server remember it.
    pub(crate) fn by_text(&self, keys: &[&str]) -> Cmd {
        with_keys("EVAL", self.text, keys)
    }
}

/// What a script is run with: one key, and arguments.
pub(crate) struct ScriptCall {
    pub(crate) key: String,
    pub(crate) arguments: Vec<Bytes>,
}

impl ScriptCall {
    /// Returns the command that runs the script if the server remembers it.
    pub(crate) fn by_hash(&self, script: &Script) -> Cmd {
        self.with_arguments(script.by_hash(&[&self.key]))
    }

    /// Returns the command that runs the script, and makes the server remember it.
    pub(crate) fn by_text(&self, script: &Script) -> Cmd {
        self.with_arguments(script.by_text(&[&self.key]))
    }

    fn with_arguments(&self, mut command: Cmd) -> Cmd {
        self.arguments.iter().for_each(|argument| {
            command.arg(&**argument);
        });
        command
    }
}

fn with_keys(name: &'static str, script: &str, keys: &[&str]) -> Cmd {
    let mut command = cmd(name);
    command.arg(script).arg(keys.len());
    keys.iter().for_each(|key| {
        command.arg(*key);
    });
    command
}
