//! Limits of access: credentials, attempts, tickets.

/// The credentials file. Larger ones are refused at the start, and ignored when they are read again.
pub const CREDENTIALS_BYTES: u64 = 1024 * 1024;
/// Credentials in the file: more than a team has, and few enough to be read again quickly. A file with more is refused.
pub const CREDENTIALS: usize = 2_000;
/// Characters of a credential's id, of its subject and of its note. A file with longer ones is refused.
pub const CREDENTIAL_ID_CHARS: usize = 32;
pub const SUBJECT_CHARS: usize = 128;
pub const NOTE_CHARS: usize = 1_000;

/// The fewest characters of a secret in an environment variable, so that nobody can guess it. A shorter one is refused at the start.
pub const ENVIRONMENT_TOKEN_CHARS: usize = 32;

/// How often the credentials file is checked for changes while there are connections, so that a revoked credential loses access within a
/// second.
pub const CREDENTIALS_CHECK_MS: u64 = 500;

/// Calls of one credential per minute, and calls in a burst. More are refused with 429.
pub const CALLS_PER_MINUTE: u32 = 600;
pub const CALLS_BURST: u32 = 120;
/// Prompts of one credential per minute, and prompts in a burst: each prompt costs money. More are refused with 429.
pub const PROMPTS_PER_MINUTE: u32 = 60;
pub const PROMPTS_BURST: u32 = 20;
/// Credentials and subjects of web tokens whose calls are counted. Those that have not called for a minute are forgotten first.
pub const BUDGETS: usize = 8_192;
/// Streams and sockets of one credential at the same time. More are refused with 429.
pub const STREAMS: u32 = 64;
/// The `Retry-After` for a client with too many streams, because nobody knows when one of them ends.
pub const STREAMS_RETRY_MS: u64 = 5_000;
/// Turns of one credential that run at the same time. More wait.
pub const TURNS: u32 = 8;

/// Invalid credentials per minute from one address, and from all. More are answered with 429 instead of 401, so that guessing is slow and
/// the log stays short. A valid credential is never refused because of its address.
pub const WRONG_PER_ADDRESS: u32 = 10;
pub const WRONG_IN_ALL: u32 = 1_000;
/// Addresses whose invalid credentials are counted. A new address replaces the one that was inactive for the longest time.
pub const ADDRESSES: usize = 4_096;

/// How long a ticket is valid, and how many used tickets are remembered until they expire. With more, further tickets are refused, because
/// a second use could not be noticed.
pub const TICKET_MS: u64 = 30_000;
pub const TICKETS: usize = 1_024;
/// Keys for the model API that clients gave, and the characters of a key. Google's have 39. At the limit the oldest key is dropped, and its
/// client has to give it again; a longer key is refused.
pub const CLIENT_KEYS: usize = 10_000;
pub const CLIENT_KEY_CHARS: usize = 512;

/// Tokens of an identity-aware proxy: their bytes, the allowed clock difference, and how many verified tokens are remembered. A longer
/// token is refused; one that is not remembered is verified again with each request.
pub const JWT_BYTES: usize = 8 * 1024;
pub const JWT_LEEWAY_MS: u64 = 60_000;
pub const JWT_REMEMBERED: usize = 1_024;
/// The longest time for which a connection may use one such token, whatever its expiry says.
pub const JWT_CONNECTION_MS: u64 = 366 * 86_400_000;
/// The key set of their issuer: its keys, its bytes, the time for fetching it, the least and the greatest time for which it is kept, and
/// the least time between two fetches. Google publishes five keys in 2 KiB. Further keys are ignored; a longer key set is not used.
pub const JWT_KEYS: usize = 64;
pub const JWKS_BYTES: u64 = 64 * 1024;
pub const JWKS_MS: u64 = 5_000;
pub const JWKS_KEEP_LEAST_MS: u64 = 300_000;
pub const JWKS_KEEP_MOST_MS: u64 = 86_400_000;
pub const JWKS_RETRY_MS: u64 = 60_000;
