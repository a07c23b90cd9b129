//! The gateway: configuration, listener, request path, upstream pool, health, reload, admin API, telemetry.
