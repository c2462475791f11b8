//! The features of the crate: dependencies of disabled features are not compiled.

use std::process::Command;

/// The crates that are compiled with these features, one a line.
fn tree(features: &str) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "barewire", "--edges", "normal", "--prefix", "none", "--offline"])
        .args(["--no-default-features", "--features", features])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo exists, because it has built this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("names of crates")
}

fn has(tree: &str, name: &str) -> bool {
    tree.lines().any(|line| line.split(' ').next() == Some(name))
}

#[test]
fn each_feature_brings_only_what_it_needs() {
    let (blocking, json_rpc, client) = (tree(""), tree("tokio"), tree("client"));
    for name in ["schemars", "chacha20poly1305", "regex-lite"] {
        for tree in [&blocking, &json_rpc, &client] {
            assert!(!has(tree, name), "{name} is in {tree}");
        }
        assert!(has(&tree("server"), name), "a server has {name}; if not, this test looks for a wrong name");
    }
    assert!(!has(&blocking, "tokio") && has(&json_rpc, "tokio"));
    for name in ["hyper", "rustls"] {
        let (without, with) = (tree("client,server"), tree("client,http"));
        assert!(!has(&without, name) && has(&with, name), "{name}");
    }
    // The cryptography of tokens is that of TLS.
    let (with, without) = (tree("server,oauth"), tree("client,server,http"));
    let names = |tree: &str| tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    let (with, without): (std::collections::BTreeSet<String>, _) = (names(&with), names(&without));
    assert_eq!(with, without, "the feature oauth brings no crate of its own");
}
