//! What is said to a model and what it says back, as values. The HTTP call itself is `shell/client.rs`.
