//! Why a server over HTTP gave no answer.

use crate::mcp::transport::url::Url;
use std::io::ErrorKind;

/// Why a message was not answered.
pub enum Trouble {
    /// The server is not there, or not yet.
    Unreached(String),
    Other(String),
}

impl Trouble {
    /// Why a request had no response.
    pub fn of(error: &ureq::Error, url: &Url) -> Trouble {
        let why = format!("{} cannot be reached: {error}", url.shown());
        if may_pass(error) { Trouble::Unreached(why) } else { Trouble::Other(why) }
    }

    pub fn text(self) -> String {
        match self {
            Trouble::Unreached(why) | Trouble::Other(why) => why,
        }
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Trouble {
        Trouble::Other(why)
    }
}

impl From<&str> for Trouble {
    fn from(why: &str) -> Trouble {
        Trouble::Other(why.to_owned())
    }
}

/// What a proxy answers while the server behind it is started.
pub fn is_away(status: u16) -> bool {
    matches!(status, 502..=504)
}

/// Whether it may be otherwise in a while. Our own refusal of an address is an error of input and output as well, and so is a
/// certificate that is not valid; the system has not reported those.
fn may_pass(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => {
            let is_refusal =
                matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidData | ErrorKind::InvalidInput);
            error.raw_os_error().is_some() || !is_refusal
        }
        ureq::Error::Timeout(_) | ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
        // What the proxy said is known as a text only.
        ureq::Error::ConnectProxyFailed(why) => ["502", "503", "504"].iter().any(|status| why.contains(status)),
        _ => false,
    }
}
