//! Why a server over HTTP gave no answer.

/// Why a message was not answered.
pub enum Trouble {
    /// The server is not there, or not yet.
    Unreached(String),
    Other(String),
}

impl Trouble {
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
