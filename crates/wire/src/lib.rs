//! Bytes to facts and back: JSON scanner, OpenAI and SageMaker shapes, server-sent events, AWS event stream. No sockets.
