//! Chooses the model that replaces an unavailable one: unknown to the API, without quota, or not reachable.

/// Each chain begins with the best model; a model in none of them has no replacement.
const CHAINS: [&[&str]; 3] = [
    &["gemini-3.1-pro-preview", "gemini-3-flash-preview"],
    &["gemini-2.5-pro", "gemini-2.5-flash"],
    &["gemini-3.1-flash-lite", "gemini-3.5-flash", "gemini-3.1-pro-preview"],
];

/// The next model to try after `model`, of those not tried yet in this turn.
pub fn next(model: &str, tried: &[String]) -> Option<&'static str> {
    let chain = CHAINS.iter().find(|chain| chain.contains(&model))?;
    let at = chain.iter().position(|known| *known == model)?;
    chain[at + 1..].iter().copied().find(|other| !tried.iter().any(|name| name == other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_is_tried_once_and_only_downwards() {
        assert_eq!(next("gemini-2.5-pro", &[]), Some("gemini-2.5-flash"));
        assert_eq!(next("gemini-2.5-flash", &["gemini-2.5-pro".into()]), None);
        assert_eq!(next("gemini-2.5-pro", &["gemini-2.5-flash".into()]), None);
        assert_eq!(next("gemma-4-31b-it", &[]), None);
    }
}
