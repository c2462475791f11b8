//! Shapes and text -> a self-contained SVG: no scripts, no fonts, no external references.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::svg_rows::{count, pixels};
use crate::xml::escape;

/// An SVG that is being built.
pub(super) struct SvgPage {
    body: String,
    width: u32,
    height: u32,
    /// Extra space to the left of x = 0, for long right-aligned texts.
    left: u32,
}

/// The part of a text that its coordinates refer to.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl SvgPage {
    pub(super) fn new(width: u32, height: u32) -> Self {
        Self { body: String::new(), width, height, left: 0 }
    }

    /// Adds SVG elements. They are not escaped, so they must not contain text from a peer.
    pub(super) fn shape(&mut self, shape: &str) {
        self.body.push_str(shape);
        self.body.push('\n');
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => {
                self.left = self.left.max(pixels(column(12.0) * count(text.width()) + 4.0 - x));
                " text-anchor=\"end\""
            }
        };
        let text = escape(text);
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor} class=\"{class}\" xml:space=\"preserve\">{text}</text>"
        );
    }

    pub(super) fn finish(self) -> String {
        let Self { body, width, height, left } = self;
        let (width, x) = (width + left, -i64::from(left));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{x} 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\">\n<title>Messages over the wire</title>\n<style>{STYLE}</style>\n{DEFINITIONS}\n\
             <rect x=\"{x}\" width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n{body}</svg>\n"
        )
    }
}

/// Returns the width of a character in a monospace font of this size.
pub(super) const fn column(size: f64) -> f64 {
    size * 0.602
}

/// The styles of the SVG. Colours only repeat information that shapes and words already give.
const STYLE: &str = "\
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace;font-size:12px;fill:#1f2328}\
.s{font-size:11px}.f{fill:#6e7781}.b{font-weight:bold}.r{fill:#b42318}\
.l{stroke:#1f2328;stroke-width:1.2;fill:none}.d{stroke-dasharray:5 3}.e{stroke:#b42318}\
.life{stroke:#8c959f;stroke-width:1}.bar{fill:#ddf4ff;stroke:#54708c;stroke-width:1}.many{fill:#fff1c9;stroke:#8a6d1a;stroke-width:1}\
.none{fill:#fff;stroke:#b42318;stroke-width:1;stroke-dasharray:3 2}.z{fill:#f6f8fa}\
.on{fill:#ddf4ff;stroke:#54708c;stroke-width:1;stroke-dasharray:3 2}\
.good{fill:#4c83b6}.bad{fill:url(#x);stroke:#b42318;stroke-width:1}.open{fill:#fff;stroke:#57606a;stroke-width:1;stroke-dasharray:3 2}\
.run{fill:url(#m);stroke:#4c83b6;stroke-width:1}.thread{stroke:#4c83b6;stroke-width:1.5}.grid{stroke:#d0d7de;stroke-width:1}";

/// Arrow heads and fill patterns.
const DEFINITIONS: &str = "<defs>\
<marker id=\"a\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"9\" markerHeight=\"9\" orient=\"auto\"><path d=\"M0 1 9 5 0 9z\" fill=\"#1f2328\"/></marker>\
<marker id=\"n\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"9\" markerHeight=\"9\" orient=\"auto\"><path d=\"M1 1 9 5 1 9\" fill=\"none\" stroke=\"#1f2328\" stroke-width=\"1.3\"/></marker>\
<marker id=\"k\" viewBox=\"0 0 10 10\" refX=\"8\" refY=\"5\" markerWidth=\"10\" markerHeight=\"10\" orient=\"auto\"><path d=\"M1 1 9 9M9 1 1 9\" fill=\"none\" stroke=\"#b42318\" stroke-width=\"1.6\"/></marker>\
<pattern id=\"x\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#fff\"/><rect width=\"2.5\" height=\"5\" fill=\"#b42318\"/></pattern>\
<pattern id=\"m\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\"><rect width=\"4\" height=\"4\" fill=\"#fff\"/><rect width=\"2\" height=\"4\" fill=\"#4c83b6\"/></pattern>\
</defs>";
