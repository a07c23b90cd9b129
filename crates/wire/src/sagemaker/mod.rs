//! SageMaker's runtime API as clients see it: paths, headers, errors.

mod errors;
mod headers;
mod paths;

pub use errors::{ErrorReply, ServiceError, StreamErrorCode, StreamException, TEXT_CHARS_MAX};
pub use headers::{HeaderError, InvokeHeaders, Operation, check_endpoint_name, name as header};
pub use paths::{Route, decode_name, parse_path};
