//! The operations of a bucket as they appear in error messages, and the errors for statuses that both stores use in the same way.

use crate::bucket::{BucketError, BucketErrorKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Get,
    Put,
    Delete,
    List,
}

impl Operation {
    /// What a message says before the name of the object, or before the prefix of a list.
    pub fn verb(self) -> &'static str {
        match self {
            Operation::Get => "reading",
            Operation::Put => "writing",
            Operation::Delete => "deleting",
            Operation::List => "listing names with",
        }
    }
}

/// The error for the status of a response. `permission` is what the operation needs; `details` is the explanation in the response.
pub fn status_error(status: u16, permission: &str, details: &str) -> BucketError {
    let (kind, reason) = match status {
        401 => (BucketErrorKind::Forbidden, "the credentials are not accepted"),
        403 => {
            let message = format!("not allowed (403); it needs {permission}. {details}");
            return BucketError::new(BucketErrorKind::Forbidden, message);
        }
        404 => (BucketErrorKind::Unsupported, "there is no such bucket"),
        405 | 501 => (BucketErrorKind::Unsupported, "the store does not support this request"),
        // S3 answers with 409 while another conditional request for the same name is executed.
        408 | 409 | 429 | 500.. => (BucketErrorKind::Unknown, "refused temporarily"),
        400..500 => (BucketErrorKind::Damaged, "the store says that the request is invalid"),
        _ => (BucketErrorKind::Unsupported, "the status of the response is unexpected"),
    };
    BucketError::new(kind, format!("{reason} ({status}). {details}"))
}
