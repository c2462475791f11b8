//! A temporary folder with configurations, and the program run in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder, which is the home and the working folder.
pub(super) struct Place(pub(super) PathBuf);

impl Place {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("barewire-attach-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("it can be made");
        Self(fs::canonicalize(path).expect("it is there"))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        fs::write(&path, text).expect("it is written");
        path
    }

    pub(super) fn read(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.path(name)).expect("it is there")).expect("UTF-8")
    }

    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.0).stdin(Stdio::null()).env("HOME", &self.0);
        let hosts = ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"];
        for name in
            ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "CONTINUE_GLOBAL_DIR", "CLICOLOR_FORCE"].into_iter().chain(hosts)
        {
            command.env_remove(name);
        }
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_barewire")).args(args).output().expect("it runs")
    }

    /// Runs the program with success, and returns its stdout and stderr.
    pub(super) fn done(&self, args: &[&str]) -> (String, String) {
        let output = self.run(args);
        let (printed, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{args:?}: {printed}{said}");
        (printed, said)
    }

    /// Runs the program with failure, and returns its stderr.
    pub(super) fn failed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
        text(&output.stderr)
    }

    pub(super) fn files(&self) -> Vec<String> {
        let all = fs::read_dir(&self.0).expect("it is there");
        let mut names: Vec<String> = all.map(|it| text(it.expect("read").file_name().as_encoded_bytes())).collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700));
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) const BAREWIRE: &[&str] = &["--barewire", "/b/barewire", "--record", "/%t.wire"];

pub(super) fn attach<'a>(config: &'a str, server: &'a str) -> Vec<&'a str> {
    [&["attach", config, server], BAREWIRE].concat()
}
