//! Requests of a given length, and answers counted by id.

/// A request as a line of `bytes` bytes or a few more.
pub(super) fn request(id: usize, bytes: usize) -> Vec<u8> {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"e","params":[""#);
    let mut line = head.into_bytes();
    line.resize(line.len().max(bytes.saturating_sub(4)), b'x');
    line.extend_from_slice(b"\"]}\n");
    line
}

/// The id of a request of [`request`] or of its answer, without parsing the rest.
pub(super) fn id(line: &[u8]) -> usize {
    let digits = line.strip_prefix(br#"{"jsonrpc":"2.0","id":"#).unwrap_or_else(|| panic!("{}", shown(line)));
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).expect("more follows");
    str::from_utf8(&digits[..end]).expect("digits").parse().expect("a number")
}

/// The beginning of a line.
pub(super) fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}

/// Whether an answer is a result.
pub(super) fn is_result(line: &[u8]) -> bool {
    line[..line.len().min(80)].windows(10).any(|window| window == b",\"result\":")
}

/// The ids that have been answered, each at most once.
#[derive(Default)]
pub(super) struct AnsweredIds(Vec<bool>);

impl AnsweredIds {
    pub(super) fn add(&mut self, line: &[u8]) {
        assert!(is_result(line), "{}", shown(line));
        let id = id(line);
        if self.0.len() <= id {
            self.0.resize(id + 1, false);
        }
        assert!(!std::mem::replace(&mut self.0[id], true), "{id} is answered twice");
    }

    /// Checks that the ids `0..count` have been answered, and no others.
    pub(super) fn assert_complete(&self, count: usize) {
        let missing: Vec<usize> = (0..count).filter(|id| self.0.get(*id) != Some(&true)).take(10).collect();
        assert!(missing.is_empty(), "of {count}, these are not answered: {missing:?}");
        assert_eq!(self.0.len(), count, "more answers than requests");
    }
}
