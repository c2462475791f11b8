//! Texts with secrets in them and without.

/// What goes in, and what comes out.
pub(super) const CASES: &[(&str, &str)] = &[
    // Members, whatever stands around them.
    (r#"{"password":"hunter2","a":1}"#, r#"{"password":"<redacted-1>","a":1}"#),
    (r#"{"Password" : "hunter2"}"#, r#"{"Password" : "<redacted-1>"}"#),
    (r#"{"api_key":"a\"b\\","next":"c"}"#, r#"{"api_key":"<redacted-1>","next":"c"}"#),
    (
        r#"{"a":"x","token":"x1","secret":"yy","t":"x"}"#,
        r#"{"a":"x","token":"<redacted-1>","secret":"<redacted-2>","t":"x"}"#,
    ),
    (r#"{"token":"Same","apiKey":"Same"}"#, r#"{"token":"<redacted-1>","apiKey":"<redacted-1>"}"#),
    (r#"{"password":123456}"#, r#"{"password":"<redacted-1>"}"#),
    (
        r#"{"tokens":["a","b"],"cookies":["c" , "d"]}"#,
        r#"{"tokens":["a","b"],"cookies":["<redacted-1>" , "<redacted-2>"]}"#,
    ),
    // What only begins like a replacement text, or has one in it.
    (r#"{"password":"<redacted-x"}"#, r#"{"password":"<redacted-1>"}"#),
    (
        r#"{"password":"<redacted-1>abc","token":"<redacted-7","secret":"<redacted-"}"#,
        r#"{"password":"<redacted-1>","token":"<redacted-2>","secret":"<redacted-3>"}"#,
    ),
    (r#"{"t":"{\"token\":\"<redacted-1>2\"}"}"#, r#"{"t":"{\"token\":\"<redacted-1>\"}"}"#),
    (
        r#"{"headers":{"Authorization":"Bearer <redacted-1>2"}}"#,
        r#"{"headers":{"Authorization":"Bearer <redacted-1>"}}"#,
    ),
    (
        r#"{"headers":{"Authorization":"Bearer <redacted-07>"}}"#,
        r#"{"headers":{"Authorization":"Bearer <redacted-1>"}}"#,
    ),
    ("postgres://me:<redacted-1>pw@db/", "postgres://me:<redacted-1>@db/"),
    // However the name is written.
    (
        r#"{"se\u0063ret":"a1","\u0074\u006F\u006B\u0065\u006E":"b2"}"#,
        r#"{"se\u0063ret":"<redacted-1>","\u0074\u006F\u006B\u0065\u006E":"<redacted-2>"}"#,
    ),
    // Codes are numbers.
    (r#"{"token":987654,"n":987654}"#, r#"{"token":"<redacted-1>","n":987654}"#),
    (r#"{"t":"{\"otp\":1234}"}"#, r#"{"t":"{\"otp\":\"<redacted-1>\"}"}"#),
    (r#"{"t":"{'password': 12, \"otp\": 34}"}"#, r#"{"t":"{'password': '<redacted-1>', \"otp\": \"<redacted-2>\"}"}"#),
    // What an object says of a secret, with the secret.
    (
        r#"{"secret":{"type":"text","value":"abc"},"value":"d"}"#,
        r#"{"secret":{"type":"text","value":"<redacted-1>"},"value":"d"}"#,
    ),
    (
        r#"{"secret":{"token":"a1", "value" : 12345}}"#,
        r#"{"secret":{"token":"<redacted-1>", "value" : "<redacted-2>"}}"#,
    ),
    (
        r#"{"t":"{\"secret\":{\"a\":{\"value\":1},\"value\":\"b2\"}}"}"#,
        r#"{"t":"{\"secret\":{\"a\":{\"value\":1},\"value\":\"<redacted-1>\"}}"}"#,
    ),
    // White space of JSON, as it is and in a string.
    ("{\"token\"\t:\"a1\", \"secret\":\r\"b2\"}", "{\"token\"\t:\"<redacted-1>\", \"secret\":\r\"<redacted-2>\"}"),
    (
        "{\"password\":\r\n[\r\n\t\"a1\"\r\n,\n\"b2\"]}",
        "{\"password\":\r\n[\r\n\t\"<redacted-1>\"\r\n,\n\"<redacted-2>\"]}",
    ),
    (
        r#"{"t":"```json\n{\n\t\"token\"\r\n:\r\n\"a1\",\n \"args\": [\n \"--token\",\n \"b2\"]}\n```"}"#,
        r#"{"t":"```json\n{\n\t\"token\"\r\n:\r\n\"<redacted-1>\",\n \"args\": [\n \"--token\",\n \"<redacted-2>\"]}\n```"}"#,
    ),
    (
        r#"{"t":"{\"h\":[{\"name\":\"Authorization\",\"value\":\"a1\"},{\"name\":\"otp\",\n \"value\": 12345}]}"}"#,
        r#"{"t":"{\"h\":[{\"name\":\"Authorization\",\"value\":\"<redacted-1>\"},{\"name\":\"otp\",\n \"value\": \"<redacted-2>\"}]}"}"#,
    ),
    (
        r#"{"pass":"hunter2","pat":"0a1b2c3d4e5f","OPENAI_KEY":"0a1b2c3d4e5f"}"#,
        r#"{"pass":"<redacted-1>","pat":"<redacted-2>","OPENAI_KEY":"<redacted-2>"}"#,
    ),
    // JSON in JSON in JSON.
    (r#"{"text":"{\"token\":\"a\\\"b\",\"n\":1}"}"#, r#"{"text":"{\"token\":\"<redacted-1>\",\"n\":1}"}"#),
    (
        r#"{"t":"{\"u\":\"{\\\"token\\\":\\\"ab1\\\"}\"}"}"#,
        r#"{"t":"{\"u\":\"{\\\"token\\\":\\\"<redacted-1>\\\"}\"}"}"#,
    ),
    // A string that is not closed within its own.
    (r#"{"text":"{\"token\":\"ab1","n":"d"}"#, r#"{"text":"{\"token\":\"<redacted-1>","n":"d"}"#),
    // Headers in JSON, in text and on a command line.
    (r#"{"headers":{"Authorization":"Bearer abc"}}"#, r#"{"headers":{"Authorization":"Bearer <redacted-1>"}}"#),
    ("curl -H 'Authorization: Bearer hunter2'", "curl -H 'Authorization: Bearer <redacted-1>'"),
    ("X-Api-Key: 0123456789abcdef", "X-Api-Key: <redacted-1>"),
    // The same with less in it, and settings.
    ("X-Api-Key: aaa11bbb", "X-Api-Key: <redacted-1>"),
    ("with X-Api-Key: aaa11bbb and so on", "with X-Api-Key: <redacted-1> and so on"),
    ("Mcp-Session-Id: ppp11qqq", "Mcp-Session-Id: <redacted-1>"),
    ("OPENAI_API_KEY: rrr33sss # mine", "OPENAI_API_KEY: <redacted-1> # mine"),
    ("client_secret = lll34mmm", "client_secret = <redacted-1>"),
    ("password: p@ssword, x", "password: <redacted-1>, x"),
    ("Cookie: sid=c52; theme=dark; odd", "Cookie: sid=<redacted-1>; theme=<redacted-2>; odd"),
    (r#"{"t":"a\nCookie: a=b2; c=d"}"#, r#"{"t":"a\nCookie: a=<redacted-1>; c=<redacted-2>"}"#),
    (r#"{"t":"a\nDB_PASS=b2\npass=c3"}"#, r#"{"t":"a\nDB_PASS=<redacted-1>\npass=<redacted-2>"}"#),
    ("Set-Cookie: sid=c52; Path=/", "Set-Cookie: sid=<redacted-1>; Path=/"),
    (
        r#"{"text":"x-auth-token: bbb22ccc\npassword: 123456\nsecret: QwErTyUi"}"#,
        r#"{"text":"x-auth-token: <redacted-1>\npassword: <redacted-2>\nsecret: <redacted-3>"}"#,
    ),
    (r#"{"token":["identifier","a1"]}"#, r#"{"token":["<redacted-1>","<redacted-2>"]}"#),
    // Addresses.
    ("GET /mcp?a=1&access_token=abc&b=2 HTTP/1.1", "GET /mcp?a=1&access_token=<redacted-1>&b=2 HTTP/1.1"),
    ("http://h/?key=abc#frag", "http://h/?key=<redacted-1>#frag"),
    ("/messages?sessionId=0a1b", "/messages?sessionId=<redacted-1>"),
    ("postgres://me:pw@db:5432/x?y", "postgres://me:<redacted-1>@db:5432/x?y"),
    (r#"{"u":"postgres:\/\/me:pw@db\/x"}"#, r#"{"u":"postgres:\/\/me:<redacted-1>@db\/x"}"#),
    (
        "see https://docs.example/a and postgres://me:pw@db/",
        "see https://docs.example/a and postgres://me:<redacted-1>@db/",
    ),
    // Options, in a shell and in a list.
    ("srv --password pppsecret --port 80", "srv --password <redacted-1> --port 80"),
    ("srv --token 'a b' --pass \"c d\" x", "srv --token '<redacted-1>' --pass \"<redacted-2>\" x"),
    (r#"{"args":["--password","hunter2","--port","80"]}"#, r#"{"args":["--password","<redacted-1>","--port","80"]}"#),
    (
        r#"{"t":"[\"--token\" , \"abc\"] --token \"d\""}"#,
        r#"{"t":"[\"--token\" , \"<redacted-1>\"] --token \"<redacted-2>\""}"#,
    ),
    // Variables.
    ("DB_PASS=a#b MYSQL_PWD=c", "DB_PASS=<redacted-1> MYSQL_PWD=<redacted-2>"),
    ("export GITHUB_TOKEN=abc; run", "export GITHUB_TOKEN=<redacted-1>; run"),
    ("the value is from-the-environment!", "the value is <redacted-1>!"),
    (r#"{"echo":"a\"quote\\in it"}"#, r#"{"echo":"<redacted-1>"}"#),
    (
        r#"{"u":"/?q=Env%2FSecret%22Val%2Bue-99+11&r=Env/Secret%22Val%2Bue-99%2011"}"#,
        r#"{"u":"/?q=<redacted-1>&r=<redacted-2>"}"#,
    ),
    // A query within a query, and names of many words.
    (
        "/?redirect=https%3A%2F%2Fx%3Fa%3D1%26token%3Da1b2%26b%3D2&c=https%253A%252F%252Fx%253Fkey%253da1b2#d",
        "/?redirect=https%3A%2F%2Fx%3Fa%3D1%26token%3D<redacted-1>%26b%3D2&c=https%253A%252F%252Fx%253Fkey%253d<redacted-1>#d",
    ),
    (
        r#"{"api key":"S3cr3tV4lueXYZ","my password":"a1"}"#,
        r#"{"api key":"<redacted-1>","my password":"<redacted-2>"}"#,
    ),
    // All that an Authorization says behind its scheme.
    (r#"Authorization: Digest username="me", realm="r", response="abc1""#, "Authorization: Digest <redacted-1>"),
    (
        r#"{"t":"a\nAuthorization: Digest username=\"me\",nc=1 , response=\"abc1\"\nb","c":"d"}"#,
        r#"{"t":"a\nAuthorization: Digest <redacted-1>\nb","c":"d"}"#,
    ),
    (
        "curl -H 'Authorization: AWS4-HMAC-SHA256 Credential=a/b/s3, SignedHeaders=host;date, Signature=abc1' http://h/",
        "curl -H 'Authorization: AWS4-HMAC-SHA256 <redacted-1>' http://h/",
    ),
    (r#"authorization: Hawk id="a", mac="b" and"#, "authorization: Hawk <redacted-1> and"),
    ("Authorization: Basic  dXNlcjpwYXNzd29yZA== x", "Authorization: Basic  <redacted-1> x"),
    // Shapes, and schemes in any case.
    (
        "a bearer S3cr3tV4lueXYZ0123456789, BEARER S3cr3tV4lueXYZ0123456789",
        "a bearer <redacted-1>, BEARER <redacted-1>",
    ),
    (
        r#"{"t":"Bearer\tabcdefgh12345678","u":"bearer  abcdefgh12345678"}"#,
        r#"{"t":"Bearer\t<redacted-1>","u":"bearer  <redacted-1>"}"#,
    ),
    ("basic dXNlcjpwYXNzd29yZA==", "basic <redacted-1>"),
    ("Bearer abcdefgh12345678", "Bearer <redacted-1>"),
    ("Basic dXNlcjpwYXNzd29yZA==", "Basic <redacted-1>"),
    ("use sk-proj-0a1b2c3d4e5f6g7h now", "use <redacted-1> now"),
    (r"\nghp_abcdefghijklmnopqrst0123456789", r"\n<redacted-1>"),
    ("xoxb-1234567890-abc", "<redacted-1>"),
    ("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "<redacted-1>"),
    ("whsec_abcdefghij1234567890abcd", "<redacted-1>"),
    ("at SG.abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG!", "at <redacted-1>!"),
    ("ya29.a0AfH6SMBx1Y2x1Y2x1Y2x1Y2", "<redacted-1>"),
    ("id AKIAIOSFODNN7EXAMPLE.", "id <redacted-1>."),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcDEF_-123", "<redacted-1>"),
    (
        r#"{"k":"-----BEGIN RSA PRIVATE KEY-----\nMIIE/+aB\nxyz=\n-----END RSA PRIVATE KEY-----\n"}"#,
        r#"{"k":"-----BEGIN RSA PRIVATE KEY-----<redacted-1>-----END RSA PRIVATE KEY-----\n"}"#,
    ),
];

/// What stays as it is.
pub(super) const PLAIN: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"p-1"},"name":"echo"}}"#,
    r#"{"result":{"nextCursor":"eyJwYWdlIjoyfQ==","tools":[]}}"#,
    r#"{"requestState":"opaque","maxTokens":100,"usage":{"tokens":1500}}"#,
    r#"{"properties":{"token":{"type":"string","description":"The token: see the manual"}},"required":["token"]}"#,
    r#"{"password":"","token":null,"secret":true,"apiKey":{"a":["b"]}}"#,
    r#"WWW-Authenticate: Bearer realm="mcp", resource_metadata="https://example.com/.well-known/x""#,
    "Basic authentication, Bearer tokens, and a task-list with sk-names-of-things in it",
    "basic information about bearer base64-encoded OAuth2-compatible tokens, a bearer /api/v1/things; 100%3D",
    "Authorization: see a=b for https%3A%2F%2Fx%3Fpage%3D2 and Authorization: use a=b",
    r#"{"s3_key":"folder/file1.txt","Enter the API key":"as it was sent to you","primary key":"a1b2c3d4e5f6"}"#,
    "http://user@host:80/path?query=1&page=2",
    "token=$TOKEN and token={token} and token=<redacted-7> and a == b",
    "a picture: iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4eyJ/AKIAbcdefghijklmnopqrstuvw",
    r#"{"cost_per_token":0.0001,"token":12,"pass":31,"key":"0a1b2c3d4e5f6g7h","cacheKey":"0a1b2c3d4e5f6g7h"}"#,
    r#"{"token":{"type":"object","properties":{"value":{"type":"string"}}},"secret":{"value":null}}"#,
    r#"{"password":"***","token":"<your token>","secret":"${SECRET}"}"#,
    r#"{"headers":{"Authorization":"Bearer <redacted-7>"},"cookies":["<redacted-8>"]}"#,
    r#"{"a":"Enter the password:","b":"token=" , "c":["--password ","x --token","y"],"d":"{\"e\":\"token=\"}"}"#,
    r#"{"data":{"token":"}","expected_token":"identifier","unexpected_token":"=>","password":"*"}}"#,
    "the token: see below, password: required; token = what you got; secret: none, Unexpected token: StringLiteral",
    "password: /run/secrets/db1, token: https://docs.example/token1, secret::inner1x, token: 12 of 300",
    "token=await foo(), this.token=token; token=getToken() apiKey: process.env.OPENAI_API_KEY, SG.x ya29.y",
    r#"{"a":"--password","token":"","b":["--token"],"c":1}"#,
    "--token is missing: give --token TOKEN or --token <token>, or --token-file x; PWD=/tmp/1a2b3c4d",
    "",
];
