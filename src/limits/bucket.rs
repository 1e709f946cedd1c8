//! The limits of the clients of object stores, and of the credentials for them.

use super::{KIB, MIB};

/// One object, written or read: 32 segments of 1 MiB joined, and as much again for single lines that are longer. A larger one is
/// neither sent nor read.
pub const OBJECT_BYTES: usize = 64 * MIB;
/// Names on one page of a list: as many as both stores give at most.
pub const PAGE_NAMES: usize = 1_000;
/// One page of a list: [`PAGE_NAMES`] objects with 2 KiB of metadata, which JSON may write six times as long.
pub const PAGE_BYTES: usize = 16 * MIB;
/// The body of a response that is neither an object nor a list, such as an error. The rest is not read.
pub const ANSWER_BYTES: usize = 64 * KIB;
/// Characters of the store's explanation of an error that our message repeats. The rest is cut.
pub const EXPLANATION_CHARS: usize = 300;
/// Each buffer of a connection, and the head of an answer. Small, because there are as many connections as threads of the lane.
pub const BUFFER_BYTES: usize = 16 * KIB;
/// Connections that are kept open for the next request, and for how long: a new one costs three round trips.
pub const IDLE_CONNECTIONS: usize = 16;
pub const IDLE_MS: u64 = 60_000;
/// Nested elements in a response of S3. Lists have three. A response with more is an error.
pub const XML_DEPTH: usize = 8;
/// The longest name of a bucket that one of the stores allows.
pub const BUCKET_NAME_BYTES: usize = 222;

/// The file that `GOOGLE_APPLICATION_CREDENTIALS` names. That of a service account has 2.4 KiB. A larger one is refused.
pub const CREDENTIALS_BYTES: u64 = 64 * KIB as u64;
/// Time limit of a request for an access token: half of the time of an attempt, so that there is time left to use the token.
pub const TOKEN_MS: u64 = 5_000;
/// How long before its expiry a token is renewed: longer than any request that uses it takes.
pub const TOKEN_EARLY_MS: u64 = 300_000;
/// The time between two requests for a token while the old one can still be used: the metadata server gives the same token until
/// shortly before its end, and a server that fails is not asked by every request.
pub const TOKEN_AGAIN_MS: u64 = 30_000;
/// A token that expires within this time is not sent, because it may expire on its way.
pub const TOKEN_LAST_MS: u64 = 15_000;
/// How long the signature of a service account is valid: the longest time that Google accepts.
pub const ASSERTION_SECONDS: u64 = 3_600;
