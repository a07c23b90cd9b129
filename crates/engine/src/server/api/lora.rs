//! Loading and unloading adapters: vLLM's two paths, and SageMaker's two for the same.

use serde::Deserialize;

use super::super::app::App;
use super::super::error::ApiError;
use super::parse;

/// Body of `/v1/load_lora_adapter`.
#[derive(Deserialize)]
struct Load {
    #[serde(default)]
    lora_name: String,
    #[serde(default)]
    lora_path: String,
    #[serde(default)]
    load_inplace: bool,
}

/// Body of `/v1/unload_lora_adapter`.
#[derive(Deserialize)]
struct Unload {
    #[serde(default)]
    lora_name: String,
}

/// Body of `POST /adapters`.
#[derive(Deserialize)]
struct Register {
    #[serde(default)]
    name: String,
    #[serde(default)]
    src: String,
}

/// `POST /v1/load_lora_adapter`; returns what is said of it.
pub(in super::super) fn load(app: &App, body: &[u8]) -> Result<String, ApiError> {
    let Load { lora_name, lora_path, load_inplace } = parse(body)?;
    app.adapters.write().load(&lora_name, &lora_path, load_inplace)?;
    tracing::info!(adapter = lora_name, "adapter is loaded");
    Ok(format!("Success: LoRA adapter '{lora_name}' added successfully."))
}

/// `POST /v1/unload_lora_adapter`; returns what is said of it.
pub(in super::super) fn unload(app: &App, body: &[u8]) -> Result<String, ApiError> {
    let Unload { lora_name } = parse(body)?;
    if lora_name.is_empty() {
        return Err(ApiError::user("'lora_name' needs to be provided."));
    }
    app.adapters.write().unload(&lora_name)?;
    tracing::info!(adapter = lora_name, "adapter is unloaded");
    Ok(format!("Success: LoRA adapter '{lora_name}' removed successfully."))
}

/// `POST /adapters`; returns what is said of it.
pub(in super::super) fn register(app: &App, body: &[u8]) -> Result<String, ApiError> {
    let Register { name, src } = parse(body)?;
    app.adapters.write().load(&name, &src, false)?;
    tracing::info!(adapter = name, "adapter is loaded");
    Ok(format!("Adapter {name} registered"))
}

/// `DELETE /adapters/{name}`; returns what is said of it.
pub(in super::super) fn unregister(app: &App, name: &str) -> Result<String, ApiError> {
    app.adapters.write().unload(name)?;
    tracing::info!(adapter = name, "adapter is unloaded");
    Ok(format!("Adapter {name} unregistered"))
}
