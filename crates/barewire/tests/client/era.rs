//! Negotiation of the era and the revision.

use barewire::ClientError;
use barewire::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::script::{discovered, initialized, legacy, modern, refused, tester, unconnected};
use super::{Log, seconds};

const LATEST: &str = "2026-07-28";

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_discovered() {
    let (here, mut script) = unconnected();
    let (client, request) = tokio::join!(tester().over(here), script.modern(json!({"tools": {}})));
    let client = client.expect("connected");
    assert_eq!(
        request["params"],
        json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": LATEST,
            "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "0.1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }})
    );
    assert_eq!((client.revision(), client.era()), (Revision::V2026_07_28, Era::Modern));
    assert_eq!(client.server_info().implementation.expect("given").name, "scripted");
    assert_eq!(client.instructions().as_deref(), Some("be kind"));
    assert!(client.capabilities().tools.is_some() && client.capabilities().prompts.is_none());
}

#[tokio::test(start_paused = true)]
async fn each_legacy_revision_can_be_negotiated() {
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_modern()) {
        let (here, mut script) = unconnected();
        let (client, request) = tokio::join!(tester().over(here), script.legacy(revision, json!({})));
        assert_eq!(client.expect("connected").revision(), revision);
        let params = &request["params"];
        assert_eq!(params["protocolVersion"], "2025-11-25");
        assert_eq!(params["clientInfo"]["name"], "tester");
        assert_eq!(params["capabilities"], json!({}));
        assert!(params.get("_meta").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_modern_leads_to_initialize() {
    let odd: [fn(&Value) -> Value; 7] = [
        |id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}}),
        |id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "bad"}}),
        |id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "not initialized"}}),
        |id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": 0, "message": ""}}),
        |id| json!({"jsonrpc": "2.0", "id": id, "result": {}}),
        |id| json!({"jsonrpc": "2.0", "id": id, "result": null}),
        // Not a valid response.
        |id| json!({"jsonrpc": "2.0", "id": id, "result": {}, "error": {"code": 1, "message": "both"}}),
    ];
    for answer in odd {
        let (here, mut script) = unconnected();
        let server = async {
            let probe = script.expect("server/discover").await;
            script.send(answer(&probe["id"])).await;
            script.handshake("2025-06-18", json!({})).await;
        };
        let (client, ()) = tokio::join!(tester().over(here), server);
        assert_eq!(client.expect("connected").revision(), Revision::V2025_06_18);
    }
}

#[tokio::test(start_paused = true)]
async fn the_probe_times_out_after_two_seconds_and_a_late_response_is_ignored() {
    let (here, mut script) = unconnected();
    let log = Log::default();
    let began = Instant::now();
    let server = async {
        let probe = script.expect("server/discover").await;
        let request = script.expect("initialize").await;
        assert_eq!(began.elapsed(), seconds(2));
        // A late response to the probe, before the response to `initialize`.
        script.respond(&probe, discovered(json!({"prompts": {}}))).await;
        script.respond(&request, initialized("2025-11-25", json!({"tools": {}}))).await;
        script.expect("notifications/initialized").await;
    };
    let (client, ()) = tokio::join!(tester().over(here), server);
    let client = client.expect("connected");
    assert_eq!(client.era(), Era::Legacy);
    assert!(client.capabilities().tools.is_some() && client.capabilities().prompts.is_none());
    // The timeout of the probe is neither sent to the server nor logged.
    script.expect_silence().await;
    assert_eq!(log.text(), "");
}

#[tokio::test(start_paused = true)]
async fn a_slow_modern_server_that_refuses_initialize_is_probed_again() {
    let (here, mut script) = unconnected();
    let server = async {
        let probe = script.expect("server/discover").await;
        let request = script.expect("initialize").await;
        script.respond(&probe, discovered(json!({"tools": {}}))).await;
        let error =
            json!({"code": -32022, "message": "no", "data": {"supported": [LATEST], "requested": "2025-11-25"}});
        script.send(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
        let probe = script.expect("server/discover").await;
        tokio::time::sleep(seconds(5)).await;
        script.respond(&probe, discovered(json!({"tools": {}}))).await;
    };
    let (client, ()) = tokio::join!(tester().over(here), server);
    let client = client.expect("connected");
    assert_eq!(client.era(), Era::Modern);
    // There was no `notifications/initialized`.
    script.expect_silence().await;
}

#[tokio::test(start_paused = true)]
async fn the_probe_timeout_can_be_set() {
    let (here, mut script) = unconnected();
    let began = Instant::now();
    let server = async {
        script.expect("server/discover").await;
        script.handshake("2025-11-25", json!({})).await;
    };
    let (client, ()) = tokio::join!(tester().probe_timeout(seconds(7)).over(here), server);
    assert_eq!(client.expect("connected").era(), Era::Legacy);
    assert_eq!(began.elapsed(), seconds(7));
}

#[tokio::test(start_paused = true)]
async fn a_listed_version_is_tried_after_a_refusal() {
    let (here, mut script) = unconnected();
    let server = async {
        let probe = script.expect("server/discover").await;
        let data = json!({"supported": ["2030-01-01", LATEST, "2025-11-25"], "requested": LATEST});
        script.refuse(&probe, -32022, data).await;
        let again = script.modern(json!({})).await;
        assert_ne!(again["id"], probe["id"]);
        assert_eq!(again["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], LATEST);
    };
    let (client, ()) = tokio::join!(tester().over(here), server);
    assert_eq!(client.expect("connected").revision(), Revision::V2026_07_28);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lists_only_legacy_versions_is_initialized() {
    let answers: [fn(&Value) -> Value; 2] = [
        |id| {
            let data = json!({"supported": ["2025-06-18"], "requested": LATEST});
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "no", "data": data}})
        },
        |id| {
            let result = json!({"supportedVersions": ["2025-11-25"], "capabilities": {}});
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        },
    ];
    for answer in answers {
        let (here, mut script) = unconnected();
        let server = async {
            let probe = script.expect("server/discover").await;
            script.send(answer(&probe["id"])).await;
            script.handshake("2025-06-18", json!({})).await;
        };
        let (client, ()) = tokio::join!(tester().over(here), server);
        assert_eq!(client.expect("connected").revision(), Revision::V2025_06_18);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_common_version_there_is_no_initialize() {
    for supported in [json!(["2030-01-01"]), json!([])] {
        let (here, mut script) = unconnected();
        let server = async {
            let probe = script.expect("server/discover").await;
            script.refuse(&probe, -32022, json!({"supported": supported})).await;
            assert_eq!(script.0.recv_line().await.expect("memory"), None, "the client has gone");
        };
        let (client, ()) = tokio::join!(tester().over(here), server);
        let error = client.expect_err("nothing in common");
        assert!(matches!(&error, ClientError::Version { .. }), "{error}");
        assert!(error.to_string().contains("this client supports 2024-11-05, 2025-03-26"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_refusal_is_not_followed_by_initialize() {
    for (code, times) in [(-32020, 1), (-32021, 1), (-32022, 3)] {
        let (here, mut script) = unconnected();
        let server = async {
            for _ in 0..times {
                let probe = script.expect("server/discover").await;
                script.refuse(&probe, code, json!({"supported": [LATEST]})).await;
            }
            assert_eq!(script.0.recv_line().await.expect("memory"), None, "the client has gone");
        };
        let (client, ()) = tokio::join!(tester().over(here), server);
        assert_eq!(client.expect_err("refused").code().map(|code| code.get()), Some(code));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_version_in_the_initialize_result_is_an_error() {
    for version in ["2030-01-01", "2026-07-28", ""] {
        let (here, mut script) = unconnected();
        let server = async {
            let probe = script.expect("server/discover").await;
            script.refuse(&probe, -32601, Value::Null).await;
            let request = script.expect("initialize").await;
            script.respond(&request, initialized(version, json!({}))).await;
            assert_eq!(script.0.recv_line().await.expect("memory"), None, "no notifications/initialized");
        };
        let (client, ()) = tokio::join!(tester().over(here), server);
        let error = client.expect_err("not known");
        assert!(matches!(&error, ClientError::Version { theirs, .. } if theirs == &[version]), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_initialize_that_times_out_is_not_cancelled() {
    let (here, mut script) = unconnected();
    let server = async {
        script.0.send_line("Listening on stdio").await.expect("memory");
        let probe = script.expect("server/discover").await;
        script.refuse(&probe, -32601, Value::Null).await;
        script.expect("initialize").await;
        assert_eq!(script.0.recv_line().await.expect("memory"), None, "nothing but the end");
    };
    let log = Log::default();
    let (client, ()) = tokio::join!(tester().timeout(seconds(5)).over(here), server);
    let error = client.expect_err("no answer");
    assert!(error.to_string().contains("no response to initialize within 5s"), "{error}");
    // The banner was logged and not answered.
    assert!(log.text().contains("Listening on stdio"), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn output_that_is_not_a_message_is_in_the_error() {
    let (here, mut script) = unconnected();
    let server = async {
        script.0.send_line("Usage: server [--stdio]").await.expect("memory");
        script.expect("server/discover").await;
        script.expect("initialize").await;
        assert_eq!(script.0.recv_line().await.expect("memory"), None);
    };
    let (client, ()) = tokio::join!(tester().timeout(seconds(5)).over(here), server);
    let error = refused(client);
    assert!(error.contains("at byte 0 is not a message: Usage: server [--stdio]"), "{error}");
    assert!(error.contains("other output to stderr"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_is_an_error() {
    let (here, mut script) = unconnected();
    let server = async {
        script.expect("server/discover").await;
        script.0.close_write();
    };
    let (client, ()) = tokio::join!(tester().over(here), server);
    assert!(matches!(client, Err(ClientError::Closed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_known_legacy_era_skips_the_probe() {
    let (here, mut script) = unconnected();
    let server = script.handshake("2025-11-25", json!({}));
    let (client, _) = tokio::join!(tester().era(Era::Legacy).over(here), server);
    assert_eq!(client.expect("connected").era(), Era::Legacy);

    // A known modern server still gets `server/discover`, with the full call timeout.
    let (here, mut script) = unconnected();
    let server = async {
        let probe = script.expect("server/discover").await;
        tokio::time::sleep(seconds(30)).await;
        script.respond(&probe, discovered(json!({}))).await;
    };
    let (client, ()) = tokio::join!(tester().era(Era::Modern).over(here), server);
    assert_eq!(client.expect("connected").era(), Era::Modern);
}

#[tokio::test(start_paused = true)]
async fn an_outdated_era_is_corrected() {
    let (here, mut script) = unconnected();
    let server = async {
        let request = script.expect("initialize").await;
        script.refuse(&request, -32601, json!({"supported": [LATEST]})).await;
        script.modern(json!({})).await;
    };
    let (client, ()) = tokio::join!(tester().era(Era::Legacy).over(here), server);
    assert_eq!(client.expect("connected").era(), Era::Modern);

    let (here, mut script) = unconnected();
    let server = script.legacy(Revision::V2025_11_25, json!({}));
    let (client, _) = tokio::join!(tester().era(Era::Modern).over(here), server);
    assert_eq!(client.expect("connected").era(), Era::Legacy);
}

#[tokio::test(start_paused = true)]
async fn only_the_requested_revision_is_accepted() {
    let (here, mut script) = unconnected();
    let server = async {
        let request = script.expect("initialize").await;
        assert_eq!(request["params"]["protocolVersion"], "2025-03-26");
        script.respond(&request, initialized("2025-11-25", json!({}))).await;
    };
    let (client, ()) = tokio::join!(tester().revision(Revision::V2025_03_26).over(here), server);
    let error = refused(client);
    assert!(error.contains("the server supports 2025-11-25; this client supports 2025-03-26"), "{error}");

    let (here, mut script) = unconnected();
    let server = async {
        let probe = script.expect("server/discover").await;
        script.refuse(&probe, -32601, Value::Null).await;
        assert_eq!(script.0.recv_line().await.expect("memory"), None, "no initialize");
    };
    let (client, ()) = tokio::join!(tester().revision(Revision::V2026_07_28).over(here), server);
    let error = refused(client);
    assert!(error.contains("not that of a 2026-07-28 server"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn undeclared_methods_are_sent_only_if_lenient() {
    let (client, mut script) = modern(tester(), json!({"tools": {}})).await;
    let error = client.list_prompts().await.expect_err("not declared").to_string();
    assert!(error.contains("prompts/list was not sent: the server does not declare prompts"), "{error}");
    let error = client.subscribe("file:///a").await.expect_err("not declared").to_string();
    assert!(error.contains("resources.subscribe"), "{error}");
    let error = client.ping().await.expect_err("gone").to_string();
    assert!(error.contains("revision 2026-07-28") && error.contains("instead: any request"), "{error}");
    script.expect_silence().await;

    let (client, mut script) = legacy(tester(), Revision::V2025_03_26, json!({})).await;
    let error = client.discover().await.expect_err("later").to_string();
    assert!(error.contains("it was added in 2026-07-28"), "{error}");
    let error = client.call_tool("a", ()).await.expect_err("not declared");
    assert!(matches!(error, ClientError::NotOffered { capability: "tools", .. }));
    script.expect_silence().await;

    let (client, mut script) = modern(tester().lenient(), json!({})).await;
    let call = tokio::spawn(client.call_tool("a", ()).into_future());
    let request = script.expect("tools/call").await;
    script.refuse(&request, -32601, Value::Null).await;
    assert!(matches!(call.await.expect("no panic"), Err(ClientError::Refused { .. })));
}
