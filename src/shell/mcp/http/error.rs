//! Errors of requests to a server over HTTP.

use crate::mcp::transport::url::Url;
use std::io::ErrorKind;

/// Why a message has no response.
pub enum RequestError {
    /// The server cannot be reached, perhaps only for a while.
    Unreachable(String),
    Other(String),
}

impl RequestError {
    /// Classifies an error of the HTTP client.
    pub fn of(error: &ureq::Error, url: &Url) -> RequestError {
        let why = format!("{} cannot be reached: {error}", url.shown());
        if is_temporary(error) { RequestError::Unreachable(why) } else { RequestError::Other(why) }
    }

    pub fn text(self) -> String {
        match self {
            RequestError::Unreachable(why) | RequestError::Other(why) => why,
        }
    }
}

impl From<String> for RequestError {
    fn from(why: String) -> RequestError {
        RequestError::Other(why)
    }
}

impl From<&str> for RequestError {
    fn from(why: &str) -> RequestError {
        RequestError::Other(why.to_owned())
    }
}

/// Whether a status is one that proxies return while the server behind them is not running.
pub fn is_gateway_error(status: u16) -> bool {
    matches!(status, 502..=504)
}

/// Whether an error may be temporary. A refused address and an invalid certificate are I/O errors too, but without an error code of the
/// operating system.
fn is_temporary(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => {
            let is_refusal =
                matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidData | ErrorKind::InvalidInput);
            error.raw_os_error().is_some() || !is_refusal
        }
        ureq::Error::Timeout(_) | ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
        // The status of the proxy is available only as text.
        ureq::Error::ConnectProxyFailed(why) => ["502", "503", "504"].iter().any(|status| why.contains(status)),
        _ => false,
    }
}
