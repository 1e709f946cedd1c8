//! The web of a build without the feature `web-tools`: it has no tools and fetches nothing.

use crate::tool::Tool;
use ureq::tls::TlsConfig;

#[derive(Default)]
pub struct Web {}

impl Web {
    pub fn new(_: TlsConfig) -> Web {
        Web {}
    }
}

pub(super) fn tools() -> Vec<Box<dyn Tool>> {
    Vec::new()
}
