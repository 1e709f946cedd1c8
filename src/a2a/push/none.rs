//! Webhooks on the wire, in a build without the feature `webhooks`: every request is refused. The switch is off in such a build, so
//! requests are normally refused before these functions are called.

use crate::a2a::requests::object::Object;
use crate::a2a::requests::operation::Ask;
use crate::task::call::Call;
use crate::task::fault::Fault;
use crate::task::push::{Wish, not_supported};

pub fn call(_: &Ask) -> Result<Call, Fault> {
    Err(not_supported())
}

pub fn inline_config(_: &Ask, _: &Object, _: &str) -> Result<Wish, Fault> {
    Err(not_supported())
}
