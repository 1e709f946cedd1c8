//! Reads the card of another agent, and chooses the interface to use.

use crate::task::log::event::Protocol;
use serde_json::Value;

/// One way to reach an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub url: String,
    pub transport: Transport,
    pub protocol: Protocol,
    /// The tenant to address, if the agent serves several.
    pub tenant: Option<String>,
    pub streams: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    JsonRpc,
    Rest,
}

impl Transport {
    fn from_word(word: &str) -> Option<Transport> {
        match word.to_ascii_uppercase().as_str() {
            "JSONRPC" => Some(Transport::JsonRpc),
            "HTTP+JSON" => Some(Transport::Rest),
            _ => None,
        }
    }
}

/// The interface of the newest version that both sides know; of several, the one that the card names first. An error says why there is
/// none.
pub fn interface(card: &Value) -> Result<Interface, String> {
    if !card.is_object() {
        return Err("its card is not a JSON object".into());
    }
    let streams = card["capabilities"]["streaming"] == true;
    let found: Vec<Interface> =
        listed(card).chain(of_03(card)).map(|interface| Interface { streams, ..interface }).collect();
    let newest = |protocol: Protocol| found.iter().find(|interface| interface.protocol == protocol);
    newest(Protocol::V10).or(newest(Protocol::V03)).cloned().ok_or_else(|| {
        "its card names no interface that is supported: JSONRPC or HTTP+JSON of A2A 1.0 or 0.3".to_owned()
    })
}

/// The interfaces that 1.0 lists, each with its version.
fn listed(card: &Value) -> impl Iterator<Item = Interface> {
    card["supportedInterfaces"].as_array().into_iter().flatten().filter_map(|row| {
        Some(Interface {
            url: row["url"].as_str()?.to_owned(),
            transport: Transport::from_word(row["protocolBinding"].as_str()?)?,
            protocol: version(row["protocolVersion"].as_str().unwrap_or("1.0"))?,
            tenant: row["tenant"].as_str().filter(|tenant| !tenant.is_empty()).map(str::to_owned),
            streams: false,
        })
    })
}

/// The interfaces of a card of 0.3: the preferred one, then the additional ones. All have the version of the card.
fn of_03(card: &Value) -> impl Iterator<Item = Interface> {
    let protocol = version(card["protocolVersion"].as_str().unwrap_or("0.3"));
    let preferred = (card["url"].as_str(), Some(card["preferredTransport"].as_str().unwrap_or("JSONRPC")));
    let additional = card["additionalInterfaces"].as_array().into_iter().flatten();
    let additional = additional.map(|row| (row["url"].as_str(), row["transport"].as_str()));
    std::iter::once(preferred).chain(additional).filter_map(move |(url, transport)| {
        Some(Interface {
            url: url?.to_owned(),
            transport: Transport::from_word(transport?)?,
            // These members are defined by 0.3 only; in a hybrid card they describe 0.3.
            protocol: protocol.filter(|protocol| *protocol == Protocol::V03)?,
            tenant: None,
            streams: false,
        })
    })
}

fn version(word: &str) -> Option<Protocol> {
    let mut numbers = word.split('.');
    match (numbers.next(), numbers.next().unwrap_or("0")) {
        (Some("1"), "0") => Some(Protocol::V10),
        (Some("0"), "3") => Some(Protocol::V03),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chosen(card: Value) -> Option<(String, Transport, Protocol)> {
        interface(&card).ok().map(|found| (found.url, found.transport, found.protocol))
    }

    fn row(url: &str, binding: &str, version: &str) -> Value {
        json!({"url": url, "protocolBinding": binding, "protocolVersion": version})
    }

    #[test]
    fn the_newest_common_version_is_used_in_the_order_of_the_card() {
        use Protocol::{V03, V10};
        use Transport::{JsonRpc, Rest};
        let some = |url: &str, transport, protocol| Some((url.to_owned(), transport, protocol));
        let both = json!({"supportedInterfaces": [row("o", "JSONRPC", "0.3"), row("g", "GRPC", "1.0"),
            row("r", "HTTP+JSON", "1.0.1"), row("j", "JSONRPC", "1.0")]});
        assert_eq!(chosen(both), some("r", Rest, V10));
        assert_eq!(chosen(json!({"supportedInterfaces": [row("o", "jsonrpc", "0.3.0")]})), some("o", JsonRpc, V03));
        assert_eq!(chosen(json!({"supportedInterfaces": [row("n", "JSONRPC", "2.0")]})), None);
        assert_eq!(chosen(json!({"url": "u"})), some("u", JsonRpc, V03));
        assert_eq!(chosen(json!({"url": "u", "protocolVersion": "0.2.5"})), None);
        let hybrid =
            json!({"url": "u", "protocolVersion": "0.3.0", "supportedInterfaces": [row("j", "JSONRPC", "1.0")]});
        assert_eq!(chosen(hybrid), some("j", JsonRpc, V10));
        let rest = json!({"url": "g", "preferredTransport": "GRPC", "protocolVersion": "0.3.0",
            "additionalInterfaces": [{"url": "r", "transport": "HTTP+JSON"}, {"url": "j", "transport": "JSONRPC"}]});
        assert_eq!(chosen(rest), some("r", Rest, V03));
        for nothing in [json!(null), json!([]), json!({}), json!({"supportedInterfaces": [7, {"url": 7}]})] {
            assert_eq!(chosen(nothing), None);
        }
        let streams = |card: Value| interface(&card).expect("an interface").streams;
        assert!(streams(json!({"url": "u", "capabilities": {"streaming": true}})));
        assert!(!streams(json!({"url": "u"})));
    }
}
