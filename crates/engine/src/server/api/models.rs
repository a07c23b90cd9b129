//! `/v1/models`: the base model, then its adapters.

use serde::Serialize;

use super::super::app::App;
use super::to_json;

#[derive(Serialize)]
struct Models<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    root: &'a str,
    /// The base model of an adapter.
    parent: Option<&'a str>,
    /// Only of the base model.
    max_model_len: Option<u32>,
    permission: [Permission; 1],
}

#[derive(Serialize)]
struct Permission {
    id: String,
    object: &'static str,
    created: u64,
    allow_create_engine: bool,
    allow_sampling: bool,
    allow_logprobs: bool,
    allow_search_indices: bool,
    allow_view: bool,
    allow_fine_tuning: bool,
    organization: &'static str,
    group: (),
    is_blocking: bool,
}

/// The list as JSON.
pub(in super::super) fn list(app: &App) -> Vec<u8> {
    let root = format!("simulated/{}", app.preset_name);
    let adapters = app.adapters.read().list();
    let base = Model { max_model_len: Some(app.context_tokens_max()), ..Model::new(app, &app.model, &root, u64::MAX) };
    let adapted = adapters.iter().map(|adapter| Model {
        parent: Some(&app.model),
        ..Model::new(app, &adapter.name, &adapter.path, u64::MAX - u64::from(adapter.id))
    });
    to_json(&Models { object: "list", data: std::iter::once(base).chain(adapted).collect() })
}

impl<'a> Model<'a> {
    /// `number` is one that no request has: it names the permission.
    fn new(app: &App, id: &'a str, root: &'a str, number: u64) -> Self {
        let created = app.clock.started_unix().as_secs();
        Self {
            id,
            object: "model",
            created,
            owned_by: "vllm",
            root,
            parent: None,
            max_model_len: None,
            permission: [Permission::new(app.new_id("modelperm-", number), created)],
        }
    }
}

impl Permission {
    /// What vLLM says of every model.
    fn new(id: String, created: u64) -> Self {
        Self {
            id,
            object: "model_permission",
            created,
            allow_create_engine: false,
            allow_sampling: true,
            allow_logprobs: true,
            allow_search_indices: false,
            allow_view: true,
            allow_fine_tuning: false,
            organization: "*",
            group: (),
            is_blocking: false,
        }
    }
}
