//! The formats of tokens that are recognized without a name: a table of prefixes and of the text after them.

use super::SecretKind;
use super::shapes::{has_random_word, is_base64, is_key};

/// The format of a service's tokens.
pub(super) struct TokenFormat {
    /// The public prefix that all these tokens have.
    pub(super) begins: &'static str,
    what: &'static str,
    /// The text after the prefix, as parts with a space between them:
    /// - a letter for a set of characters (see [`is_in_set`]) and a length: `h40` exactly 40, `h40-64` a range, `h40+`
    ///   at least 40, followed by all characters up to the end of the word
    /// - `=text`: this text
    /// - `~` at the start: ordinary names also have this prefix, so a part must look random.
    body: &'static str,
}

impl TokenFormat {
    pub(super) const fn kind(&self) -> SecretKind {
        SecretKind::Shaped { what: self.what, begins: self.begins }
    }

    /// Reads the text after the prefix. Returns its length, or how the text differs.
    pub(super) fn read(&self, text: &[u8], more: bool) -> FormatMatch {
        let (is_doubtful, parts) = match self.body.strip_prefix('~') {
            Some(parts) => (true, parts),
            None => (false, self.body),
        };
        let (mut at, mut is_open) = (0, false);
        for part in parts.split(' ') {
            let rest = &text[at..];
            if let Some(literal) = part.strip_prefix('=') {
                match rest.get(..literal.len()) {
                    Some(begin) if begin == literal.as_bytes() => at += literal.len(),
                    None if more && literal.as_bytes().starts_with(rest) => return FormatMatch::Wait,
                    _ => return FormatMatch::No,
                }
                continue;
            }
            let (set, least, most) = lengths(part);
            is_open = most == usize::MAX;
            let most = most.min(super::view::MAX_RUN);
            let length = rest.iter().take(most).take_while(|b| is_in_set(set, **b)).count();
            if length == rest.len() && length < most && more {
                return FormatMatch::Wait;
            }
            if length < least {
                return FormatMatch::No;
            }
            at += length;
        }
        // A format of an exact length must be the whole word; one with an open end takes all of it.
        let tail = text[at..].iter().take(super::view::MAX_RUN).take_while(|b| is_key(**b)).count();
        if at + tail == text.len() && more && at < super::view::MAX_RUN {
            return FormatMatch::Wait;
        }
        if !is_open && tail > 0 {
            return FormatMatch::No;
        }
        let body = &text[..at];
        let fits = if is_doubtful { body.len() >= 57 || has_random_word(body) } else { varies(body) };
        if fits { FormatMatch::Fits(at + tail) } else { FormatMatch::No }
    }
}

/// The result of comparing a text with a format.
pub(super) enum FormatMatch {
    /// The text has the format, in this many bytes.
    Fits(usize),
    No,
    /// The text is too short to decide.
    Wait,
}

/// Splits `h40-64` into the set and the least and the greatest length.
fn lengths(part: &str) -> (u8, usize, usize) {
    let (set, length) = part.split_at(1);
    let number = |text: &str| text.parse().unwrap_or(0);
    let (least, most) = match (length.strip_suffix('+'), length.split_once('-')) {
        (Some(least), _) => (number(least), usize::MAX),
        (None, Some((least, most))) => (number(least), number(most)),
        (None, None) => (number(length), number(length)),
    };
    (set.as_bytes()[0], least, most)
}

fn is_in_set(set: u8, byte: u8) -> bool {
    match set {
        b'd' => byte.is_ascii_digit(),
        b'h' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        b'x' => byte.is_ascii_hexdigit(),
        b'u' => matches!(byte, b'0'..=b'9' | b'A'..=b'Z'),
        b'l' => matches!(byte, b'0'..=b'9' | b'a'..=b'z'),
        b'a' => byte.is_ascii_alphanumeric(),
        // Words, as in most tokens.
        b'w' => is_key(byte),
        b'.' => is_key(byte) || matches!(byte, b'.' | b'=' | b'~'),
        b'b' => is_base64(byte) || matches!(byte, b'-' | b'_'),
        _ => false,
    }
}

/// Whether a text is not a placeholder such as `xxxxxxxx` or `your_token_here`: it has a digit or letters of both
/// cases, and three different characters, or it has many different capital letters.
fn varies(body: &[u8]) -> bool {
    let has = |part: fn(&u8) -> bool| body.iter().any(part);
    let distinct = body.iter().fold(0_u128, |seen, byte| seen | 1 << (byte & 0x7f)).count_ones();
    distinct >= 3 && (has(u8::is_ascii_digit) || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))
        || distinct >= 8 && body.iter().all(u8::is_ascii_uppercase)
}

const fn format(begins: &'static str, what: &'static str, body: &'static str) -> TokenFormat {
    TokenFormat { begins, what, body }
}

/// The formats, by provider.
#[rustfmt::skip] // a table
pub(super) const TOKEN_FORMATS: &[TokenFormat] = &[
    format("sk-", "a key of a model's provider", "~w17+"),
    format("sk-ant-", "a key of Anthropic", "w20+"),
    format("sk-proj-", "a key of OpenAI", "w16+"),
    format("sess-", "a session of OpenAI", "a40+"),
    format("xai-", "a key of xAI", "~w16+"),
    format("pplx-", "a key of Perplexity", "~w15+"),
    format("gsk_", "a key of Groq", "a26+"),
    format("hf_", "a token of Hugging Face", "a27+"),
    format("api_org_", "a token of Hugging Face", "a30+"),
    format("r8_", "a token of Replicate", "a35+"),
    format("tvly-", "a key of Tavily", "~w15+"),
    format("nvapi-", "a key of NVIDIA", "w60+"),
    format("fw_", "a key of Fireworks", "a22+"),
    format("pcsk_", "a key of Pinecone", "w60+"),
    format("lsv2_pt_", "a key of LangSmith", "w40+"),
    format("lsv2_sk_", "a key of LangSmith", "w40+"),
    format("ls__", "a key of LangSmith", "h32+"),
    format("voyage-", "a key of Voyage", "~a30+"),
    format("jina_", "a key of Jina", "w50+"),
    format("esecret_", "a key of Anyscale", "a20+"),
    format("AKIA", "a key of AWS", "u16+"), format("ASIA", "a key of AWS", "u16+"),
    format("ABIA", "a key of AWS", "u16+"), format("ACCA", "a key of AWS", "u16+"),
    format("A3T", "a key of AWS", "u17"), format("ABSK", "a key of AWS", "b100+"),
    format("bedrock-api-key-", "a key of AWS", "b20+"),
    format("AIza", "a key of Google", "w31+"),
    format("GOCSPX-", "a client secret of Google", "w20+"),
    format("ya29.", "a token of Google", ".25+"),
    format("1//0", "a refresh token of Google", "w30+"),
    format("GOOG1E", "a key of Google", "u30+"),
    format("LTAI", "a key of Alibaba", "a12-20"),
    format("AKID", "a key of Tencent", "a32"),
    format("AKLT", "a key of Volcengine", "a40+"),
    format("AQVN", "a key of Yandex", "w35+"),
    format("YCAJ", "a key of Yandex", "w20+"), format("YCP", "a key of Yandex", "w35+"),
    format("y0_", "a token of Yandex", "w50+"), format("t1.", "a token of Yandex", ".100+"),
    format("dop_v1_", "a token of DigitalOcean", "a33+"), format("doo_v1_", "a token of DigitalOcean", "a33+"),
    format("dor_v1_", "a token of DigitalOcean", "a33+"),
    format("ocid1.credential.", "a credential of Oracle", ".20+"),
    format("scw-secret-", "a key of Scaleway", "w20+"),
    format("tk-us-", "a token of Scalingo", "w40+"),
    format("HRKU-", "a key of Heroku", "w30+"),
    format("ghp_", "a token of GitHub", "w16+"), format("gho_", "a token of GitHub", "w16+"),
    format("ghu_", "a token of GitHub", "w16+"), format("ghs_", "a token of GitHub", "w16+"),
    format("ghr_", "a token of GitHub", "w16+"), format("github_pat_", "a token of GitHub", "w16+"),
    format("v1.", "a token of GitHub", "h40"),
    format("glpat-", "a token of GitLab", ".14+"), format("gldt-", "a token of GitLab", "w20+"),
    format("glrt-", "a token of GitLab", ".20+"), format("glrtr-", "a token of GitLab", "w20+"),
    format("glcbt-", "a token of GitLab", "w20+"), format("glptt-", "a token of GitLab", "w20+"),
    format("glft-", "a token of GitLab", "w20+"), format("glimt-", "a token of GitLab", "w20+"),
    format("glagent-", "a token of GitLab", "w40+"), format("gloas-", "a secret of GitLab", "w40+"),
    format("glsoat-", "a token of GitLab", "w20+"), format("glffct-", "a token of GitLab", "w20+"),
    format("glwt-", "a token of GitLab", "w20+"), format("GR1348941", "a token of GitLab", "w20+"),
    format("ATATT3", "a token of Atlassian", ".40+"), format("ATCTT3", "a token of Atlassian", ".40+"),
    format("ATBB", "a password of Bitbucket", "a28+"), format("ATSTT3", "a token of Atlassian", ".40+"),
    format("BBDC-", "a token of Bitbucket", "a30+"),
    format("xoxa-", "a token of Slack", "~w9+"), format("xoxb-", "a token of Slack", "~w9+"),
    format("xoxe-", "a token of Slack", "~w9+"), format("xoxp-", "a token of Slack", "~w9+"),
    format("xoxr-", "a token of Slack", "~w9+"), format("xoxs-", "a token of Slack", "~w9+"),
    format("xoxo-", "a token of Slack", "~w9+"), format("xoxc-", "a token of Slack", "~w9+"),
    format("xoxd-", "a cookie of Slack", "~w9+"), format("xapp-", "a token of Slack", "~w9+"),
    format("xoxe.xox", "a token of Slack", "w20+"), format("xwfp-", "a token of Slack", "w20+"),
    format("SG.", "a key of SendGrid", ".57+"),
    format("xkeysib-", "a key of Brevo", "w60+"), format("xsmtpsib-", "a key of Brevo", "w60+"),
    format("key-", "a key of Mailgun", "h32"), format("pubkey-", "a key of Mailgun", "h32"),
    format("re_", "a key of Resend", "w24+"), format("pm-", "a token of Postmark", "h30+"),
    format("mlsn.", "a token of MailerSend", "h60+"), format("kn.", "a key of Knock", "w30+"),
    format("SK", "a key of Twilio", "x32"),
    format("sk_live_", "a key of Stripe", "w10+"), format("sk_test_", "a key of Stripe", "w10+"),
    format("sk_prod_", "a key of Stripe", "w10+"), format("rk_live_", "a key of Stripe", "w10+"),
    format("rk_test_", "a key of Stripe", "w10+"), format("rk_prod_", "a key of Stripe", "w10+"),
    format("whsec_", "a secret of Stripe", "b18+"), format("ek_live_", "a key of Stripe", "w10+"),
    format("sq0atp-", "a token of Square", "w20+"), format("sq0csp-", "a secret of Square", "w30+"),
    format("EAAA", "a token of Square", "w55+"), format("EAAC", "a token of Facebook", "a80+"),
    format("EAAM", "a token of Facebook", "a80+"), format("EAAG", "a token of Facebook", "a80+"),
    format("EAAB", "a token of Facebook", "a80+"), format("IGQV", "a token of Instagram", "w80+"),
    format("access_token$production$", "a token of PayPal", "l16 =$ h32"),
    format("access_token$sandbox$", "a token of PayPal", "l16 =$ h32"),
    format("access-sandbox-", "a token of Plaid", "w36"), format("access-production-", "a token of Plaid", "w36"),
    format("access-development-", "a token of Plaid", "w36"),
    format("rzp_live_", "a key of Razorpay", "a14+"), format("rzp_test_", "a key of Razorpay", "a14+"),
    format("FLWSECK-", "a key of Flutterwave", "w20+"), format("FLWSECK_TEST-", "a key of Flutterwave", "w12+"),
    format("EZAK", "a key of EasyPost", "a50+"), format("EZTK", "a key of EasyPost", "a50+"),
    format("shippo_live_", "a token of Shippo", "x40"), format("shippo_test_", "a token of Shippo", "x40"),
    format("duffel_live_", "a token of Duffel", "w40+"), format("duffel_test_", "a token of Duffel", "w40+"),
    format("live_", "a key of a test and live service", "h35+"), format("test_", "a key of a test and live service", "h35+"),
    format("CFPAT-", "a token of Contentful", "w40+"),
    format("shpat_", "a token of Shopify", "x24+"), format("shpca_", "a token of Shopify", "x24+"),
    format("shppa_", "a token of Shopify", "x24+"), format("shpss_", "a secret of Shopify", "x24+"),
    format("shptka_", "a token of Shopify", "x24+"), format("atkn_", "a token of Shopify", "a24+"),
    format("npm_", "a token of npm", "a26+"), format("pypi-", "a token of PyPI", "w45+"),
    format("rubygems_", "a key of RubyGems", "h40+"), format("CLOJARS_", "a token of Clojars", "a40+"),
    format("oy2", "a key of NuGet", "l43"), format("cio", "a token of crates.io", "a32"),
    format("dckr_pat_", "a token of Docker", "w20+"), format("dckr_oat_", "a token of Docker", "w20+"),
    format("hvs.", "a token of Vault", "w24+"), format("hvb.", "a token of Vault", "w60+"),
    format("hvr.", "a token of Vault", "w24+"), format("s.", "a token of Vault", "a24"),
    format("b.AAAAAQ", "a token of Vault", "w60+"), format("atlasv1.", "a token of Terraform", "w50+"),
    format("pul-", "a token of Pulumi", "h40"), format("dp.pt.", "a token of Doppler", "a40+"),
    format("dp.st.", "a token of Doppler", ".40+"), format("dp.ct.", "a token of Doppler", "a40+"),
    format("dp.sa.", "a token of Doppler", "a40+"), format("dp.scim.", "a token of Doppler", "a40+"),
    format("dp.audit.", "a token of Doppler", "a40+"),
    format("A3-", "a key of 1Password", "u6 =- w25+"), format("ops_eyJ", "a token of 1Password", "b60+"),
    format("AGE-SECRET-KEY-1", "a key of age", "u58"), format("AGE-SECRET-KEY-PQ-1", "a key of age", "u58+"),
    format("tskey-", "a key of Tailscale", "w20+"), format("dnkey-", "a key of Defined Networking", "w60+"),
    format("cf_", "a token of Cloudflare", "w40"), format("v1.0-", "a key of Cloudflare", "h24 =- h100+"),
    format("fo1_", "a token of Fly.io", "w40+"), format("fm1a_", "a token of Fly.io", "b60+"),
    format("fm1r_", "a token of Fly.io", "b60+"), format("fm2_", "a token of Fly.io", "b60+"),
    format("nfp_", "a token of Netlify", "a36+"), format("nfc_", "a token of Netlify", "a36+"),
    format("vercel_", "a token of Vercel", "a24+"), format("vcp_", "a token of Vercel", "a24+"),
    format("rnd_", "a key of Render", "a28+"), format("railway_", "a token of Railway", "w30+"),
    format("sbp_", "a token of Supabase", "h26+"), format("sb_secret_", "a key of Supabase", "w20+"),
    format("pscale_tkn_", "a token of PlanetScale", ".32+"), format("pscale_pw_", "a password of PlanetScale", ".32+"),
    format("pscale_oauth_", "a token of PlanetScale", ".32+"), format("napi_", "a key of Neon", "l40+"),
    format("fnA", "a key of Fauna", "w36+"), format("4b1d", "a key of ClickHouse", "a38"),
    format("dapi", "a token of Databricks", "h32"), format("dose", "a secret of Databricks", "h32"),
    format("dt0c01.", "a token of Dynatrace", "u24 =. u64"), format("dt0s01.", "a token of Dynatrace", ".60+"),
    format("dt0s16.", "a token of Dynatrace", ".60+"),
    format("NRAK-", "a key of New Relic", "u27"), format("NRII-", "a key of New Relic", "w32"),
    format("NRRA-", "a key of New Relic", "h42"), format("NRIQ-", "a key of New Relic", "w30+"),
    format("sntrys_", "a token of Sentry", "b40+"), format("sntryu_", "a token of Sentry", "h60+"),
    format("glsa_", "a token of Grafana", "a32 =_ x8"), format("glc_", "a token of Grafana", "b32+"),
    format("eyJrIjoi", "a key of Grafana", "b60+"),
    format("hcaik_", "a key of Honeycomb", "l50+"), format("hcxik_", "a key of Honeycomb", "l50+"),
    format("hcxmk_", "a key of Honeycomb", "l50+"), format("hcamk_", "a key of Honeycomb", "l50+"),
    format("phx_", "a key of PostHog", "a40+"), format("phs_", "a key of PostHog", "a40+"),
    format("squ_", "a token of SonarQube", "h40"), format("sqp_", "a token of SonarQube", "h40"),
    format("sqa_", "a token of SonarQube", "h40"), format("sgp_", "a token of Sourcegraph", "w40+"),
    format("slk_", "a token of Sourcegraph", "h64"),
    format("lin_api_", "a key of Linear", "a22+"), format("lin_oauth_", "a token of Linear", "h60+"),
    format("ntn_", "a token of Notion", "a26+"), format("secret_", "a token of Notion", "a43"),
    format("figd_", "a token of Figma", "w25+"), format("figo_", "a token of Figma", "w25+"),
    format("figu_", "a token of Figma", "w25+"),
    format("PMAK-", "a key of Postman", "h24 =- h34"), format("PMAT-", "a token of Postman", "u26"),
    format("pat", "a token of Airtable", "a14 =. h64"),
    format("pat.", "a token of Harness", "w22 =. a24 =. a20"), format("sat.", "a token of Harness", "w22 =. a24 =. a20"),
    format("pat-na1-", "a token of HubSpot", "w36"), format("pat-eu1-", "a token of HubSpot", "w36"),
    format("rdme_", "a key of ReadMe", "l70"), format("tfp_", "a token of Typeform", ".40+"),
    format("sl.", "a token of Dropbox", "w100+"), format("sl.u.", "a token of Dropbox", "w100+"),
    format("fio-u-", "a token of Frame.io", ".60+"), format("p8e-", "a secret of Adobe", "l32"),
    format("aio_", "a key of Adafruit", "a28"), format("b_", "a token of Beamer", "w44"),
    format("AKCp", "a key of Artifactory", "a69"), format("cmVmdGtu", "a token of Artifactory", "a56"),
    format("API-", "a key of Octopus", "u26+"), format("bkua_", "a token of Buildkite", "h40"),
    format("CCIPAT_", "a token of CircleCI", "w40+"), format("CCIPRJ_", "a token of CircleCI", "w40+"),
    format("pnu_", "a key of Prefect", "a36"), format("pnb_", "a key of Prefect", "a36"),
    format("ico-", "a key of Infracost", "a32"), format("sm_aat_", "a token of SettleMint", "a16"),
    format("sm_pat_", "a token of SettleMint", "a16"), format("sm_sat_", "a token of SettleMint", "a16"),
    format("s-s4t2ud-", "a secret of 42", "h64"), format("s-s4t2af-", "a secret of 42", "h64"),
    format("apify_api_", "a token of Apify", "a36"), format("waka_", "a key of WakaTime", "w36"),
    format("zpka_", "a key of Zuplo", "w32+"), format("tss_", "a token of Thunderstore", "w30+"),
    format("sha256~", "a token of OpenShift", "w43"), format("api-", "a token of LaunchDarkly", "h8 =- h4 =- h4 =- h4 =- h12"),
    format("sdk-", "a key of LaunchDarkly", "h8 =- h4 =- h4 =- h4 =- h12"),
    format("sk.eyJ", "a token of Mapbox", ".60+"), format("tk.eyJ", "a token of Mapbox", ".60+"),
    format("api_live.", "a token of Onfido", ".30+"), format("api_sandbox.", "a token of Onfido", ".30+"),
    format("persona_production_", "a key of Persona", "a20+"), format("persona_sandbox_", "a key of Persona", "a20+"),
    format("ion_", "a token of Ionic", "a42"),
    format("sc_", "a key of Authress", "a5-30 =. l4-6 =. w10+"), format("ory_at_", "a token of Ory", "w40+"),
    format("ory_pat_", "a token of Ory", "a32"), format("ory_st_", "a token of Ory", "a32"),
    format("AstraCS:", "a token of Astra DB", "a24 =: h64"),
    format("pk_prod_", "a key of Courier", "w20+"), format("dckr_", "a token of Docker", "w30+"),
    format("e2b_", "a key of E2B", "h40"),
    format("fc-", "a key of Firecrawl", "h32"),
    format("gitea_", "a token of Gitea", "h40"), format("ctx7sk-", "a key of Context7", "w36"),
    format("cflt", "a secret of Confluent", "b60+"), format("FlyV1 ", "a token of Fly.io", "b40+"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_can_be_read() {
        for TokenFormat { begins, body, .. } in TOKEN_FORMATS {
            assert!(begins.len() >= 2 && begins.len() <= super::super::hits::MAX_KEYWORD, "{begins}");
            for part in body.trim_start_matches('~').split(' ').filter(|part| !part.starts_with('=')) {
                let (set, least, most) = lengths(part);
                let is_set = (0..=127).any(|byte| is_in_set(set, byte));
                assert!(is_set && least > 0 && least <= most, "{begins} {part}");
            }
        }
        assert!(TOKEN_FORMATS.len() >= 200, "{}", TOKEN_FORMATS.len());
    }
}
