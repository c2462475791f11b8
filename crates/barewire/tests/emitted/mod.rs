//! The messages of a test -> lines for `interop/validate`, if the variable BAREWIRE_EMITTED names a folder. There,
//! validators of other projects check them.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

use barewire_proto::json::Json;
use serde_json::{Value, json};

/// One connection of a test.
pub(super) struct Emitted {
    connection: u64,
    /// The server has sent a result, so the revision is known.
    agreed: AtomicBool,
    ours: &'static str,
}

/// One file a test program.
static FILE: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let folder = std::env::var_os("BAREWIRE_EMITTED")?;
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let path = std::path::Path::new(&folder).join(format!("{}.ndjson", std::process::id()));
    Some(Mutex::new(File::create(path).expect("the file can be made")))
});

impl Emitted {
    /// A connection whose `server` or `client` is ours.
    pub(super) fn of(ours: &'static str) -> Self {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        Self { connection, agreed: AtomicBool::new(false), ours }
    }

    /// Records a line that `from` sent. Our own side must only send JSON; other lines of the other side are ignored.
    pub(super) fn sent(&self, from: &str, line: &str) {
        let Some(file) = &*FILE else { return };
        let message: Option<Value> = serde_json::from_str(line).ok();
        let ours = from == self.ours;
        // Checked with our own parser: a lone surrogate is valid JSON too, but serde_json does not accept it.
        assert!(!ours || Json::parse(line.as_bytes()).is_ok(), "not JSON: {line}");
        let batch = match message {
            Some(Value::Array(elements)) => elements,
            message => message.into_iter().collect(),
        };
        for message in batch {
            self.write(file, from, ours, &message);
        }
    }

    fn write(&self, file: &Mutex<File>, from: &str, ours: bool, message: &Value) {
        let is_empty = message.get("result").is_some_and(|result| *result == json!({}));
        if from == "server" && message.get("result").is_some() && !is_empty {
            self.agreed.store(true, Ordering::Relaxed);
        }
        // A ping may be answered before the revision is known, and the test's own methods are in no revision.
        let is_early = is_empty && !self.agreed.load(Ordering::Relaxed);
        let is_own = message["method"].as_str().is_some_and(|method| method.starts_with("x/"));
        if is_early || is_own {
            return;
        }
        let connection = self.connection.to_string();
        let entry = json!({"connection": connection, "from": from, "ours": ours, "message": message});
        writeln!(file.lock().expect("no writer panics"), "{entry}").expect("written");
    }
}
