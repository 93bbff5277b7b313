//! timerd's native front door. `door` tells how a call travels; the other files are one idea each.

mod bell;
mod call;
mod certificate;
mod connection;
mod door;
mod exchange;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod fuzz;
mod guard;
mod guests;
mod headers;
mod keepalive;
mod message;
mod relay;
mod reply;
mod settings;
mod tls;

use pyo3::prelude::*;

/// Grows when what Python and the door say to each other changes.
const WIRE_VERSION: u32 = 2;

#[pyfunction]
fn wire_version() -> u32 {
    WIRE_VERSION
}

#[pymodule]
fn timerd_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(wire_version, module)?)?;
    module.add_function(wrap_pyfunction!(door::check_tls, module)?)?;
    module.add_class::<door::Door>()
}
