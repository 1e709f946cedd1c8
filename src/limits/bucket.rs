//! The limits of the clients of object stores, and of the credentials for them.

use super::{KIB, MIB};

/// One object, written or read: 32 segments of 1 MiB joined, and as much again for single lines that are longer. A larger one is
/// neither sent nor read.
pub const OBJECT_BYTES: usize = 64 * MIB;
/// Names on one page of a list: as many as both stores give at most.
pub const PAGE_NAMES: usize = 1_000;
/// One page of a list: [`PAGE_NAMES`] objects with 2 KiB of metadata, which JSON may write six times as long.
pub const PAGE_BYTES: usize = 16 * MIB;
/// The body of an answer that is no object and no list. The rest of an error's explanation is not read.
pub const ANSWER_BYTES: usize = 64 * KIB;
/// The characters of an explanation that a message repeats.
pub const EXPLANATION_CHARS: usize = 300;
/// Each buffer of a connection, and the head of an answer. Small, because there are as many connections as threads of the lane.
pub const BUFFER_BYTES: usize = 16 * KIB;
/// Connections that are kept open for the next request, and for how long: a new one costs three round trips.
pub const IDLE_CONNECTIONS: usize = 16;
pub const IDLE_MS: u64 = 60_000;
/// Elements inside of each other in an answer of S3. Lists have three.
pub const XML_DEPTH: usize = 8;
/// The longest name of a bucket that one of the stores allows.
pub const BUCKET_NAME_BYTES: usize = 222;

/// The file that `GOOGLE_APPLICATION_CREDENTIALS` names. A service account's has 2.4 KiB. A larger one is refused.
pub const CREDENTIALS_BYTES: u64 = 64 * KIB as u64;
/// A request for an access token. Half of what an attempt has, so that there is time to use the token.
pub const TOKEN_MS: u64 = 5_000;
/// How long before its end a token is renewed: longer than every request that is made with it takes.
pub const TOKEN_EARLY_MS: u64 = 300_000;
/// The time between two requests for a token while the old one can still be used: the metadata server gives the same token until
/// shortly before its end, and a server that fails is not asked by every request.
pub const TOKEN_AGAIN_MS: u64 = 30_000;
/// The remaining time of a token that is not sent any more, because it may end on its way.
pub const TOKEN_LAST_MS: u64 = 15_000;
/// How long the signature of a service account is valid: the longest time that Google accepts.
pub const ASSERTION_SECONDS: u64 = 3_600;
