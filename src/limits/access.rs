//! Limits of access: credentials, attempts, tickets.

/// The credentials file. Larger ones are refused at the start, and ignored when they are read again.
pub const CREDENTIALS_BYTES: u64 = 1024 * 1024;
/// Credentials in the file: more than a team has, and few enough to be read again in a moment.
pub const CREDENTIALS: usize = 2_000;
pub const CREDENTIAL_ID_CHARS: usize = 32;
pub const SUBJECT_CHARS: usize = 128;
pub const NOTE_CHARS: usize = 1_000;

/// A secret that the environment gives: as many characters as nobody guesses.
pub const ENVIRONMENT_TOKEN_CHARS: usize = 32;

/// How often the credentials file is looked at while there are connections: a revoked credential is out within a second.
pub const CREDENTIALS_LOOK_MS: u64 = 500;

/// Calls of one credential per minute, and how many of them may come at once. More are refused with 429.
pub const CALLS_PER_MINUTE: u32 = 600;
pub const CALLS_BURST: u32 = 120;
/// Prompts of one credential per minute, and at once: each of them costs money. More are refused with 429.
pub const PROMPTS_PER_MINUTE: u32 = 60;
pub const PROMPTS_BURST: u32 = 20;
/// Credentials and subjects of web tokens whose calls are counted. Those that have not called for a minute are forgotten first.
pub const BUDGETS: usize = 8_192;
/// Streams and sockets of one credential at the same time. More are refused with 429.
pub const STREAMS: u32 = 64;
/// When a client may try again that has too many of them. Nobody knows when one ends.
pub const STREAMS_RETRY_MS: u64 = 5_000;
/// Turns of one credential that run at the same time. More wait.
pub const TURNS: u32 = 8;

/// Wrong credentials from one address per minute, and from all. More are answered with 429 instead of 401, so that guessing is slow and
/// the log stays short. A right credential is never refused for its address.
pub const WRONG_PER_ADDRESS: u32 = 10;
pub const WRONG_IN_ALL: u32 = 1_000;
/// Addresses whose wrong credentials are counted. The one that was quiet for the longest time is forgotten for a new one.
pub const ADDRESSES: usize = 4_096;

/// How long a ticket is valid, and how many used ones are remembered: as many as can be valid at a time.
pub const TICKET_MS: u64 = 30_000;
pub const TICKETS: usize = 1_024;
/// Keys for the model API that clients gave, and the characters of one. Google's have 39.
pub const CLIENT_KEYS: usize = 10_000;
pub const CLIENT_KEY_CHARS: usize = 512;

/// Tokens of an identity-aware proxy: their bytes, how far clocks may differ, and how many verified ones are remembered.
pub const JWT_BYTES: usize = 8 * 1024;
pub const JWT_LEEWAY_MS: u64 = 60_000;
/// For how long a connection may go on with one.
pub const JWT_MOST_MS: u64 = 366 * 86_400_000;
pub const JWT_REMEMBERED: usize = 1_024;
/// The keys of their issuer: how many, the bytes of the key set, how long fetching it may take, how long it is kept, and the least
/// time between two fetches. Google publishes five keys in 2 KiB.
pub const JWT_KEYS: usize = 64;
pub const JWKS_BYTES: u64 = 64 * 1024;
pub const JWKS_MS: u64 = 5_000;
pub const JWKS_KEEP_LEAST_MS: u64 = 300_000;
pub const JWKS_KEEP_MOST_MS: u64 = 86_400_000;
pub const JWKS_RETRY_MS: u64 = 60_000;
