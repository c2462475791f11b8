//! Patterns for places in messages, such as `/result/tools/*/title` or `tools/list:/result/tools/*/title`.

use std::str::FromStr;

/// A JSON Pointer in which `*` matches any one member or element. The pattern also covers everything below the place.
#[derive(Debug, Clone)]
pub struct PathPattern {
    /// The method of the messages that the pattern covers, including their responses; `None` for all methods.
    method: Option<String>,
    steps: Vec<PathStep>,
}

#[derive(Debug, Clone, PartialEq)]
enum PathStep {
    Any,
    Name(String),
}

impl FromStr for PathPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (method, pointer) = match text.split_once(":/") {
            Some((method, rest)) if !text.starts_with('/') => (Some(method.to_owned()), rest),
            _ => (None, text.strip_prefix('/').ok_or(EXPECTED)?),
        };
        if pointer.is_empty() || method.as_deref() == Some("") {
            return Err(EXPECTED);
        }
        let step = |step: &str| match step {
            "*" => PathStep::Any,
            named => PathStep::Name(unescaped(named)),
        };
        Ok(Self { method, steps: pointer.split('/').map(step).collect() })
    }
}

impl PathPattern {
    /// Whether a path leads to a covered place or to a place below one.
    pub(crate) fn covers(&self, method: &str, path: &[String]) -> bool {
        let same = |(step, name): (&PathStep, &String)| match step {
            PathStep::Any => true,
            PathStep::Name(wanted) => wanted == name,
        };
        self.method.as_deref().is_none_or(|wanted| wanted == method)
            && self.steps.len() <= path.len()
            && self.steps.iter().zip(path).all(same)
    }
}

pub(super) fn pointer(path: &[String]) -> String {
    path.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

const EXPECTED: &str = "expected a path like /result/time or tools/call:/result/time";

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pattern: &str, method: &str, path: &str) -> bool {
        let path: Vec<String> = path[1..].split('/').map(unescaped).collect();
        pattern.parse::<PathPattern>().expect(pattern).covers(method, &path)
    }

    #[test]
    fn a_place_and_everything_below_it() {
        assert!(covers("/result/a", "m", "/result/a"));
        assert!(covers("/result/a", "m", "/result/a/0/b"));
        assert!(!covers("/result/a", "m", "/result"));
        assert!(!covers("/result/a", "m", "/result/b"));
        assert!(covers("/result/*/time", "m", "/result/3/time"));
        assert!(!covers("/result/*/time", "m", "/result/time"));
        assert!(covers("/a~1b/~0", "m", "/a~1b/~0"));
    }

    #[test]
    fn a_method_restricts_the_pattern() {
        assert!(covers("tools/call:/result/a", "tools/call", "/result/a"));
        assert!(!covers("tools/call:/result/a", "tools/list", "/result/a"));
    }

    #[test]
    fn malformed_paths_are_refused() {
        for text in ["", "/", "result", "tools/call", ":/a", "tools/call:/"] {
            assert!(text.parse::<PathPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pointer_is_escaped() {
        assert_eq!(pointer(&["a/b".into(), "~".into(), "0".into()]), "/a~1b/~0/0");
    }
}
