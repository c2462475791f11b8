//! Configurations before and after.

/// Configurations: a description, the text before, and the text while the server `s` is attached.
pub(super) const SHAPES: &[(&str, &str, &str)] = &[
    (
        "as Claude Desktop's own documentation has it",
        r#"{
  "mcpServers": {
    "s": {
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-filesystem",
        "/Users/username/Desktop"
      ]
    }
  }
}
"#,
        r#"{
  "mcpServers": {
    "s": {
      "command": "/b/barewire",
      "args": [
        "tap",
        "--record",
        "/%t.wire",
        "--",
        "npx",
        "-y",
        "@modelcontextprotocol/server-filesystem",
        "/Users/username/Desktop"
      ]
    }
  }
}
"#,
    ),
    (
        "as claude mcp add writes it: type first, env behind",
        r#"{
  "mcpServers": {
    "s": {
      "type": "stdio",
      "command": "uvx",
      "args": ["mcp-server-git", "--repository", "."],
      "env": { "TOKEN": "${TOKEN}" }
    }
  }
}"#,
        r#"{
  "mcpServers": {
    "s": {
      "type": "stdio",
      "command": "/b/barewire",
      "args": ["tap", "--record", "/%t.wire", "--", "uvx", "mcp-server-git", "--repository", "."],
      "env": { "TOKEN": "${TOKEN}" }
    }
  }
}"#,
    ),
    (
        "VS Code: tabs, comments everywhere, commas at the end, inputs",
        "{\n\t// who asks\n\t\"inputs\": [{ \"type\": \"promptString\", \"id\": \"k\", },],\n\t\"servers\": {\n\t\t\"t\": { \"url\": \"http://x\", }, // no\n\t\t/* the one */\n\t\t\"s\": {\n\t\t\t\"command\": /* run */ \"node\", // here\n\t\t\t// its arguments\n\t\t\t\"args\": [\n\t\t\t\t// first\n\t\t\t\t\"${workspaceFolder}/s.js\", // \"--\"\n\t\t\t],\n\t\t},\n\t},\n}\n",
        "{\n\t// who asks\n\t\"inputs\": [{ \"type\": \"promptString\", \"id\": \"k\", },],\n\t\"servers\": {\n\t\t\"t\": { \"url\": \"http://x\", }, // no\n\t\t/* the one */\n\t\t\"s\": {\n\t\t\t\"command\": /* run */ \"/b/barewire\", // here\n\t\t\t// its arguments\n\t\t\t\"args\": [\n\t\t\t\t// first\n\t\t\t\t\"tap\",\n\t\t\t\t\"--record\",\n\t\t\t\t\"/%t.wire\",\n\t\t\t\t\"--\",\n\t\t\t\t\"node\",\n\t\t\t\t\"${workspaceFolder}/s.js\", // \"--\"\n\t\t\t],\n\t\t},\n\t},\n}\n",
    ),
    (
        "VS Code's settings",
        "{\n    \"editor.fontSize\": 14,\n    \"mcp\": { \"servers\": { \"s\": { \"command\": \"a\", \"args\": [\"b\"] } } },\n}",
        "{\n    \"editor.fontSize\": 14,\n    \"mcp\": { \"servers\": { \"s\": { \"command\": \"/b/barewire\", \"args\": [\"tap\", \"--record\", \"/%t.wire\", \"--\", \"a\", \"b\"] } } },\n}",
    ),
    (
        "CRLF and a byte order mark, no arguments",
        "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"s\": {\r\n      \"command\": \"a\",\r\n      \"env\": {}\r\n    }\r\n  }\r\n}\r\n",
        "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"s\": {\r\n      \"command\": \"/b/barewire\",\r\n      \"args\": [\"tap\", \"--record=/%t.wire\", \"--\", \"a\"],\r\n      \"env\": {}\r\n    }\r\n  }\r\n}\r\n",
    ),
    (
        "all in one line",
        r#"{"mcpServers":{"s":{"command":"a","args":["b"]}}}"#,
        r#"{"mcpServers":{"s":{"command":"/b/barewire","args":["tap", "--record", "/%t.wire", "--", "a", "b"]}}}"#,
    ),
    (
        "no arguments, in one line",
        r#"{"mcpServers":{"s":{"command":"a"}}}"#,
        r#"{"mcpServers":{"s":{"command":"/b/barewire", "args": ["tap", "--record=/%t.wire", "--", "a"]}}}"#,
    ),
    (
        "no arguments, a comma and a comment behind the command",
        "{\"servers\":{\"s\":{\n  \"command\": \"a\" /* x */, // y\n}}}",
        "{\"servers\":{\"s\":{\n  \"command\": \"/b/barewire\",\n  \"args\": [\"tap\", \"--record=/%t.wire\", \"--\", \"a\"] /* x */, // y\n}}}",
    ),
    (
        "an empty list is not none",
        "{\"servers\":{\"s\":{\"args\": [ ], \"command\": \"a\"}}}",
        "{\"servers\":{\"s\":{\"args\": [\"tap\", \"--record\", \"/%t.wire\", \"--\", \"a\" ], \"command\": \"/b/barewire\"}}}",
    ),
    (
        "escapes and other scripts, as they were written",
        r#"{"mcpServers":{"s":{"command":"C:\\\u0062in\/日本","args":["\ud83d\ude00","é"]}}}"#,
        r#"{"mcpServers":{"s":{"command":"/b/barewire","args":["tap", "--record", "/%t.wire", "--", "C:\\\u0062in\/日本", "\ud83d\ude00","é"]}}}"#,
    ),
    (
        "a name that stands twice: the last one counts",
        r#"{"mcpServers":{"s":{"command":"old"},"\u0073":{"command":"no","command":"new","args":["x"]}}}"#,
        r#"{"mcpServers":{"s":{"command":"old"},"\u0073":{"command":"no","command":"/b/barewire","args":["tap", "--record", "/%t.wire", "--", "new", "x"]}}}"#,
    ),
    (
        "a server with arguments like ours",
        r#"{"mcpServers":{"s":{"command":"tap","args":["--","tap","--record","--","x"]}}}"#,
        r#"{"mcpServers":{"s":{"command":"/b/barewire","args":["tap", "--record", "/%t.wire", "--", "tap", "--","tap","--record","--","x"]}}}"#,
    ),
];
