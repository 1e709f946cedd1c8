//! Fetches the public keys of an identity provider. This blocks, so a worker does it.

use crate::limits::access::{JWKS_BYTES, JWKS_KEEP_LEAST_MS, JWKS_KEEP_MOST_MS, JWKS_MS};
use crate::task::access::jwt::{self, Key};
use std::io::Read;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::TlsConfig;

pub struct KeySource {
    url: String,
    agent: Agent,
}

impl KeySource {
    pub fn new(url: &str, tls: TlsConfig) -> KeySource {
        let time = Some(Duration::from_millis(JWKS_MS));
        let config = Agent::config_builder().tls_config(tls).timeout_global(time).max_redirects(0).proxy(None);
        KeySource { url: url.to_owned(), agent: config.build().new_agent() }
    }

    /// The keys, and for how many milliseconds they may be used.
    pub fn fetch(&self) -> Result<(Vec<Key>, u64), String> {
        let failed = |error: ureq::Error| format!("{} cannot be fetched: {error}", self.url);
        let response = self.agent.get(&self.url).call().map_err(failed)?;
        if response.status() != 200 {
            return Err(format!("{} answers with the status {}", self.url, response.status().as_u16()));
        }
        let control = response.headers().get("cache-control").and_then(|value| value.to_str().ok());
        let keep = keep_ms(control.unwrap_or_default());
        let mut text = Vec::new();
        let read = response.into_body().into_reader().take(JWKS_BYTES + 1).read_to_end(&mut text);
        read.map_err(|error| format!("{} cannot be fetched: {error}", self.url))?;
        if text.len() as u64 > JWKS_BYTES {
            return Err(format!("{} is larger than {JWKS_BYTES} bytes", self.url));
        }
        let keys = jwt::keys(&text).map_err(|why| format!("{} has no usable keys: {why}", self.url))?;
        Ok((keys, keep))
    }
}

/// For how many milliseconds the keys may be used, by the field `Cache-Control` and within our own limits.
fn keep_ms(control: &str) -> u64 {
    let seconds = control.split(',').find_map(|word| word.trim().strip_prefix("max-age=")?.parse::<u64>().ok());
    seconds.unwrap_or(0).saturating_mul(1_000).clamp(JWKS_KEEP_LEAST_MS, JWKS_KEEP_MOST_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_as_long_as_their_source_allows_within_limits() {
        assert_eq!(keep_ms("public, max-age=3600"), 3_600_000);
        for (control, kept) in [
            ("", JWKS_KEEP_LEAST_MS),
            ("no-store", JWKS_KEEP_LEAST_MS),
            ("max-age=1", JWKS_KEEP_LEAST_MS),
            ("max-age=99999999999999999999", JWKS_KEEP_LEAST_MS),
            ("max-age=999999999", JWKS_KEEP_MOST_MS),
        ] {
            assert_eq!(keep_ms(control), kept, "{control}");
        }
    }
}
