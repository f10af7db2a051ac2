//! The durable record of a domain: schema, writer, fence, reader.
mod model;
pub use model::*;
