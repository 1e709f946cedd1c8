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

/// The error for the status of a response. `permission` is what the operation needs; `details` is the explanation in the response, which
/// may be empty.
pub fn status_error(status: u16, permission: &str, details: &str) -> BucketError {
    let (kind, reason) = match status {
        401 => (BucketErrorKind::Forbidden, "the credentials are not accepted"),
        403 => (BucketErrorKind::Forbidden, "not allowed"),
        404 => (BucketErrorKind::Unsupported, "there is no such bucket"),
        405 | 501 => (BucketErrorKind::Unsupported, "the store does not support this request"),
        // S3 answers with 409 while another conditional request for the same name is executed.
        408 | 409 | 429 | 500.. => (BucketErrorKind::Unknown, "refused temporarily"),
        400..500 => (BucketErrorKind::Damaged, "the store says that the request is invalid"),
        _ => (BucketErrorKind::Unsupported, "the status of the response is unexpected"),
    };
    let needed = if status == 403 { format!("; it needs {permission}") } else { String::new() };
    let details = if details.is_empty() { String::new() } else { format!(": {details}") };
    let message = format!("{reason} ({status}){needed}{details}");
    BucketError::new(kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_an_explanation_has_no_empty_sentence() {
        let message = |status, details| status_error(status, "storage.objects.create", details).message;
        assert_eq!(message(500, ""), "refused temporarily (500)");
        assert_eq!(message(404, "No bucket."), "there is no such bucket (404): No bucket.");
        assert_eq!(message(403, "Denied"), "not allowed (403); it needs storage.objects.create: Denied");
    }
}
