//! Webhooks on the wire, in a build without the feature `webhooks`: there are none. The switch is off in such a build, so that
//! requests are refused before they come here; they are refused here too.

use crate::a2a::requests::object::Object;
use crate::a2a::requests::operation::Ask;
use crate::task::call::Call;
use crate::task::fault::Fault;
use crate::task::push::{Wish, not_supported};

pub fn call(_: &Ask) -> Result<Call, Fault> {
    Err(not_supported())
}

pub fn brought(_: &Ask, _: &Object, _: &str) -> Result<Wish, Fault> {
    Err(not_supported())
}
