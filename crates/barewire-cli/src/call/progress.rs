//! A progress notification -> a line of text.

use barewire_proto::mcp::ProgressParams;

use crate::output::shown;

/// Returns a text such as `3/10 sleeping`, with a bar before it if `with_bar`.
pub(super) fn line(progress: &ProgressParams, with_bar: bool) -> String {
    let ProgressParams { progress: done, total, message, .. } = progress;
    let mut line = String::new();
    if let Some(part) = total.map(|total| done / total).filter(|part| (0.0..=1.0).contains(part) && with_bar) {
        let full = (1..=BAR_WIDTH).filter(|step| f64::from(*step) <= part * f64::from(BAR_WIDTH)).count();
        line = format!("[{:<width$}] ", "#".repeat(full), width = usize::from(BAR_WIDTH));
    } else if !with_bar {
        line.push_str("progress ");
    }
    line.push_str(&done.to_string());
    if let Some(total) = total {
        line = format!("{line}/{total}");
    }
    match message {
        Some(message) => format!("{line} {}", shown(message.as_bytes(), MAX_MESSAGE)),
        None => line,
    }
}

const BAR_WIDTH: u16 = 20;

/// The maximum number of characters of a message to show.
const MAX_MESSAGE: usize = 200;

#[cfg(test)]
mod tests {
    use barewire_proto::rpc::Id;

    use super::*;

    #[test]
    fn a_line_has_progress_total_and_message() {
        let mut progress = ProgressParams::new(Id::from(1), 5.0);
        assert_eq!(line(&progress, false), "progress 5");
        assert_eq!(line(&progress, true), "5");
        progress.total = Some(10.0);
        progress.message = Some("half\u{7}".to_owned());
        assert_eq!(line(&progress, false), r"progress 5/10 half\x07");
        assert_eq!(line(&progress, true), r"[##########          ] 5/10 half\x07");
        progress.total = Some(0.0);
        assert_eq!(line(&progress, true), r"5/0 half\x07");
    }
}
