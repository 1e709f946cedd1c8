//! Clients of object stores: Google Cloud Storage and S3. Environment variables select the client. The clients know nothing about tasks; the
//! store of the server that uses them is in `store`.

pub mod gcs;
pub mod google;
mod http;
pub mod measured;
mod operation;
mod pages;
pub mod port;
mod probe;
pub mod projection;
pub mod reindex;
pub mod s3;
pub mod sigv4;
pub mod store;
mod xml;

pub use http::agent;
pub use probe::{ProbeError, probe, probe_name};

use crate::base::secret::Secret;
use crate::bucket::Bucket;
use crate::config::Env;
use crate::config::proxy::Proxies;
use crate::config::settings::StoreKind;
use crate::limits::bucket::BUCKET_NAME_BYTES;
use gcs::Gcs;
use google::{Origin, STORAGE_SCOPE, Tokens};
use s3::S3;
use sigv4::Keys;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use ureq::tls::TlsConfig;

/// Environment variables that contradict each other or have unusable values. The program exits with status 78.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl From<String> for ConfigError {
    fn from(message: String) -> ConfigError {
        ConfigError(message)
    }
}

/// The bucket of `--store gcs` if no variable names one. The reference server uses the same name.
const DEFAULT_BUCKET: &str = "gemini-cli-a2a-tasks";

/// The bucket that the operator has selected with `--store` or with a variable that names one. Makes no request.
pub fn configured(
    kind: Option<StoreKind>,
    variables: Env<'_>,
    tls: TlsConfig,
) -> Result<Option<Arc<dyn Bucket>>, ConfigError> {
    match kind {
        Some(StoreKind::Files) => Ok(None),
        None => from_environment(variables, tls),
        Some(StoreKind::Gcs) => {
            let usual = |name: &str| (name == "GCS_BUCKET_NAME").then(|| DEFAULT_BUCKET.to_owned());
            let google = |name: &str| variables(name).filter(|value| !value.is_empty() && name != "A2A_S3_BUCKET");
            from_environment(&|name| google(name).or_else(|| usual(name)), tls)
        }
        Some(StoreKind::S3) => {
            let is_google = |name: &str| name == "A2A_GCS_BUCKET" || name == "GCS_BUCKET_NAME";
            match from_environment(&|name| variables(name).filter(|_| !is_google(name)), tls)? {
                None => Err(ConfigError("--store s3 needs the name of a bucket in A2A_S3_BUCKET".into())),
                bucket => Ok(bucket),
            }
        }
    }
}

/// The bucket that the environment names, if it names one. Makes no request.
pub fn from_environment(variables: Env<'_>, tls: TlsConfig) -> Result<Option<Arc<dyn Bucket>>, ConfigError> {
    let set = |name: &str| variables(name).filter(|value| !value.is_empty());
    let google = set("A2A_GCS_BUCKET").map(|bucket| ("A2A_GCS_BUCKET", bucket));
    let google = google.or_else(|| set("GCS_BUCKET_NAME").map(|bucket| ("GCS_BUCKET_NAME", bucket)));
    match (google, set("A2A_S3_BUCKET")) {
        (None, None) => Ok(None),
        (Some((name, _)), Some(_)) => Err(ConfigError(format!(
            "{name} and A2A_S3_BUCKET are both set; tasks are in one bucket: unset one of them"
        ))),
        (Some((name, bucket)), None) => Ok(Some(Arc::new(gcs(&bucket_name(name, bucket)?, &set, tls)?))),
        (None, Some(bucket)) => Ok(Some(Arc::new(s3(&bucket_name("A2A_S3_BUCKET", bucket)?, &set, tls)?))),
    }
}

/// Checks the name of a bucket, which becomes a part of a host name and of paths.
fn bucket_name(variable: &str, name: String) -> Result<String, ConfigError> {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let bytes = name.as_bytes();
    let is_valid = bytes.len() <= BUCKET_NAME_BYTES && bytes.iter().all(|byte| is_part(*byte));
    match is_valid && is_edge(bytes.first()) && is_edge(bytes.last()) && !name.contains("..") {
        true => Ok(name),
        false => Err(ConfigError(format!(
            "{variable} must be the name of a bucket (small letters, digits, dashes and dots), not a URL"
        ))),
    }
}

fn gcs(bucket: &str, set: Env<'_>, tls: TlsConfig) -> Result<Gcs, ConfigError> {
    let proxies = Proxies::new(set);
    if let Some(host) = set("STORAGE_EMULATOR_HOST") {
        let base = if host.contains("://") { host } else { format!("http://{host}") };
        return Ok(Gcs::new(bucket, &base, http::agent(tls, proxies.to(&base))?, None));
    }
    let (file, host) = (set("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from), set("GCE_METADATA_HOST"));
    let origin = Origin { file: file.as_deref(), metadata_host: host.as_deref() };
    let tokens = Tokens::new(&origin, STORAGE_SCOPE, tls.clone(), |url| proxies.to(url).map(str::to_owned))?;
    Ok(Gcs::new(bucket, gcs::BASE_URL, http::agent(tls, proxies.to(gcs::BASE_URL))?, Some(tokens)))
}

fn s3(bucket: &str, set: Env<'_>, tls: TlsConfig) -> Result<S3, ConfigError> {
    let need = |name: &str| {
        set(name).ok_or_else(|| {
            ConfigError(format!("A2A_S3_BUCKET needs {name}: only static keys are used, no profiles and no roles"))
        })
    };
    let keys = Keys {
        id: need("AWS_ACCESS_KEY_ID")?,
        secret: Secret::new(need("AWS_SECRET_ACCESS_KEY")?),
        session: set("AWS_SESSION_TOKEN").map(Secret::new),
    };
    let endpoint = set("AWS_ENDPOINT_URL_S3").or_else(|| set("AWS_ENDPOINT_URL"));
    if endpoint.as_ref().is_some_and(|url| !(url.starts_with("http://") || url.starts_with("https://"))) {
        return Err(ConfigError("AWS_ENDPOINT_URL must be an http(s) URL".into()));
    }
    let region = match set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION")) {
        Some(region) if region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => region,
        Some(_) => return Err(ConfigError("AWS_REGION must be letters, digits and dashes".into())),
        // Other stores accept any region and document this one.
        None if endpoint.is_some() => "us-east-1".into(),
        None => {
            return Err(ConfigError("A2A_S3_BUCKET needs AWS_REGION, or AWS_ENDPOINT_URL for another store".into()));
        }
    };
    let url = s3::url(bucket, &region, endpoint.as_deref());
    let agent = http::agent(tls, Proxies::new(set).to(&url))?;
    Ok(S3::new(bucket, &url, &region, keys, agent))
}
