//! What differs between two configurations: pure, typed, printed line by line at reload.
//!
//! Things are told apart by name or id, so reordering is no change. A replica that moves to another variant is removed
//! there and added here. Every struct is taken apart without `..`, so that a new field
//! cannot be forgotten. Values of secrets are compared but shown as `***`.

use std::fmt;

use kvroute_core::abilities::{Abilities, Modalities};

use super::model::{
    Adapter, Component, Config, Copy, Cors, Endpoint, Health, Limits, Replica, ReplicaTls, Routing, Scrape, Timeouts,
    Variant,
};

impl Config {
    /// Takes over what only a restart can change, so that the next reload compares with what is in force.
    pub(crate) fn keep_what_needs_a_restart(&mut self, in_force: &Config) {
        self.listen = in_force.listen;
        self.admin = in_force.admin;
        self.limits.header_bytes_max = in_force.limits.header_bytes_max;
        self.timeouts.client_idle_ms = in_force.timeouts.client_idle_ms;
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it is about.
    pub subject: Subject,
    /// What happened to it.
    pub kind: ChangeKind,
}

/// What a [`Change`] is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Settings that belong to no endpoint.
    Gateway,
    /// An endpoint.
    Endpoint {
        /// Its name.
        endpoint: String,
    },
    /// A variant of an endpoint.
    Variant {
        /// Name of the endpoint.
        endpoint: String,
        /// Its name.
        variant: String,
    },
    /// A replica of a variant.
    Replica {
        /// Name of the endpoint.
        endpoint: String,
        /// Name of the variant.
        variant: String,
        /// Its id.
        replica: String,
    },
    /// An inference component of an endpoint.
    Component {
        /// Name of the endpoint.
        endpoint: String,
        /// Its name.
        component: String,
    },
    /// An adapter of an endpoint.
    Adapter {
        /// Name of the endpoint.
        endpoint: String,
        /// Its name.
        adapter: String,
    },
}

/// What happened to a [`Subject`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only the new configuration has it. What it holds is not listed.
    Added,
    /// Only the old configuration has it. What it held is not listed.
    Removed,
    /// A setting has another value, which applies to what comes next.
    Set {
        /// Path of the setting within the subject: `timeouts.connect_ms`, `routing.strategy`.
        key: &'static str,
        /// As people read it.
        old: String,
        /// As people read it.
        new: String,
    },
    /// A setting has another value, which applies only after a restart.
    NeedsRestart {
        /// Path of the setting.
        key: &'static str,
        /// As people read it.
        old: String,
        /// As people read it.
        new: String,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = &self.subject;
        match &self.kind {
            ChangeKind::Added => write!(f, "{subject} added"),
            ChangeKind::Removed => write!(f, "{subject} removed"),
            ChangeKind::Set { key, old, new } => write!(f, "{subject}: {key} {old} -> {new}"),
            ChangeKind::NeedsRestart { key, old, new } => {
                write!(f, "{subject}: {key} {old} -> {new} needs a restart")
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Gateway => write!(f, "gateway"),
            Subject::Endpoint { endpoint } => write!(f, "endpoint {endpoint}"),
            Subject::Variant { endpoint, variant } => write!(f, "variant {endpoint}/{variant}"),
            Subject::Replica { endpoint, variant, replica } => write!(f, "replica {endpoint}/{variant}/{replica}"),
            Subject::Component { endpoint, component } => write!(f, "component {endpoint}/{component}"),
            Subject::Adapter { endpoint, adapter } => write!(f, "adapter {endpoint}/{adapter}"),
        }
    }
}

/// Every difference from `old` to `new`: settings first, then endpoint by endpoint in the order of `new`, the removed
/// ones last. Empty exactly when both mean the same.
pub fn changes(old: &Config, new: &Config) -> Vec<Change> {
    let mut diff = Diff(Vec::new());
    diff.gateway(old, new);
    let subject = |e: &Endpoint| Subject::Endpoint { endpoint: e.name.clone() };
    diff.matched(&old.endpoints, &new.endpoints, |e| &e.name, subject, Diff::endpoint);
    diff.0
}

struct Diff(Vec<Change>);

impl Diff {
    /// Pairs things by name, reports those without a partner and compares the others. `name` must be unique.
    fn matched<T>(
        &mut self,
        old: &[T],
        new: &[T],
        name: impl Fn(&T) -> &String,
        subject: impl Fn(&T) -> Subject,
        compare: impl Fn(&mut Self, &Subject, &T, &T),
    ) {
        let index = |things: &[T]| {
            things.iter().enumerate().map(|(i, t)| (name(t).clone(), i)).collect::<std::collections::HashMap<_, _>>()
        };
        let (old_by_name, new_by_name) = (index(old), index(new));
        for thing in new {
            match old_by_name.get(name(thing)) {
                Some(i) => compare(self, &subject(thing), &old[*i], thing),
                None => self.0.push(Change { subject: subject(thing), kind: ChangeKind::Added }),
            }
        }
        for thing in old.iter().filter(|thing| !new_by_name.contains_key(name(thing))) {
            self.0.push(Change { subject: subject(thing), kind: ChangeKind::Removed });
        }
    }

    fn set<T: PartialEq>(
        &mut self,
        subject: &Subject,
        key: &'static str,
        old: &T,
        new: &T,
        show: impl Fn(&T) -> String,
    ) {
        if old != new {
            let kind = ChangeKind::Set { key, old: show(old), new: show(new) };
            self.0.push(Change { subject: subject.clone(), kind });
        }
    }

    fn set_shown<T: PartialEq + fmt::Display>(&mut self, subject: &Subject, key: &'static str, old: &T, new: &T) {
        self.set(subject, key, old, new, T::to_string);
    }

    fn needs_restart<T: PartialEq + fmt::Display>(&mut self, key: &'static str, old: &T, new: &T) {
        if old != new {
            let kind = ChangeKind::NeedsRestart { key, old: old.to_string(), new: new.to_string() };
            self.0.push(Change { subject: Subject::Gateway, kind });
        }
    }

    fn gateway(&mut self, old: &Config, new: &Config) {
        let Config {
            listen,
            admin,
            hash_seed,
            key_skip_lines,
            limits,
            timeouts,
            replica_tls,
            health,
            metrics_scrape,
            cors,
            endpoints: _,
        } = old;
        let gateway = &Subject::Gateway;
        self.needs_restart("listen", listen, &new.listen);
        self.needs_restart("admin", admin, &new.admin);
        self.set(gateway, "hash_seed", hash_seed, &new.hash_seed, |_| "***".to_owned());
        self.set(gateway, "key_skip_lines", key_skip_lines, &new.key_skip_lines, |lines| joined(lines));
        let Limits {
            body_bytes_max,
            bodies_bytes_max,
            connections_max,
            header_bytes_max,
            decompressed_bytes_max,
            prompt_bytes_max,
        } = limits;
        let now = &new.limits;
        self.set_shown(gateway, "limits.body_bytes_max", body_bytes_max, &now.body_bytes_max);
        self.set_shown(gateway, "limits.bodies_bytes_max", bodies_bytes_max, &now.bodies_bytes_max);
        self.set_shown(gateway, "limits.connections_max", connections_max, &now.connections_max);
        self.needs_restart("limits.header_bytes_max", header_bytes_max, &now.header_bytes_max);
        let key = "limits.decompressed_bytes_max";
        self.set_shown(gateway, key, decompressed_bytes_max, &now.decompressed_bytes_max);
        self.set_shown(gateway, "limits.prompt_bytes_max", prompt_bytes_max, &now.prompt_bytes_max);
        let Timeouts {
            connect_ms,
            first_byte_ms,
            answer_idle_ms,
            body_idle_ms,
            client_stall_ms,
            client_idle_ms,
            pool_idle_ms,
            drain_delay_ms,
            drain_ms,
        } = timeouts;
        let now = &new.timeouts;
        self.set_shown(gateway, "timeouts.connect_ms", connect_ms, &now.connect_ms);
        self.set_shown(gateway, "timeouts.first_byte_ms", first_byte_ms, &now.first_byte_ms);
        self.set_shown(gateway, "timeouts.answer_idle_ms", answer_idle_ms, &now.answer_idle_ms);
        self.set_shown(gateway, "timeouts.body_idle_ms", body_idle_ms, &now.body_idle_ms);
        self.set_shown(gateway, "timeouts.client_stall_ms", client_stall_ms, &now.client_stall_ms);
        self.needs_restart("timeouts.client_idle_ms", client_idle_ms, &now.client_idle_ms);
        self.set_shown(gateway, "timeouts.pool_idle_ms", pool_idle_ms, &now.pool_idle_ms);
        self.set_shown(gateway, "timeouts.drain_delay_ms", drain_delay_ms, &now.drain_delay_ms);
        self.set_shown(gateway, "timeouts.drain_ms", drain_ms, &now.drain_ms);
        let ReplicaTls { ca_file, certificates } = replica_tls;
        let now = &new.replica_tls;
        self.set(gateway, "replica_tls.ca_file", ca_file, &now.ca_file, |path| optional(path.as_deref()));
        self.set(gateway, "replica_tls.ca_file (its content)", certificates, &now.certificates, |all| {
            format!("{} certificates", all.len())
        });
        let Health { interval_ms, timeout_ms, failures, successes, path } = health;
        let now = &new.health;
        self.set_shown(gateway, "health.interval_ms", interval_ms, &now.interval_ms);
        self.set_shown(gateway, "health.timeout_ms", timeout_ms, &now.timeout_ms);
        self.set_shown(gateway, "health.failures", failures, &now.failures);
        self.set_shown(gateway, "health.successes", successes, &now.successes);
        self.set(gateway, "health.path", path, &now.path, |path| optional(path.as_deref()));
        let Scrape { enabled, interval_ms, timeout_ms } = metrics_scrape;
        let now = &new.metrics_scrape;
        self.set_shown(gateway, "metrics_scrape.enabled", enabled, &now.enabled);
        self.set_shown(gateway, "metrics_scrape.interval_ms", interval_ms, &now.interval_ms);
        self.set_shown(gateway, "metrics_scrape.timeout_ms", timeout_ms, &now.timeout_ms);
        let Cors { allowed_origins, allowed_headers, max_age_s } = cors;
        let now = &new.cors;
        self.set(gateway, "cors.allowed_origins", allowed_origins, &now.allowed_origins, |origins| joined(origins));
        self.set(gateway, "cors.allowed_headers", allowed_headers, &now.allowed_headers, |headers| {
            headers.as_deref().map_or_else(|| "any".to_owned(), joined)
        });
        self.set_shown(gateway, "cors.max_age_s", max_age_s, &now.max_age_s);
    }

    fn endpoint(&mut self, subject: &Subject, old: &Endpoint, new: &Endpoint) {
        // An endpoint's routing only stands in for its variants', which are compared below.
        let Endpoint {
            name,
            models,
            aliases,
            forward_authorization,
            decompress_requests,
            routing: _,
            variants,
            components,
            adapters,
            discover_models,
        } = old;
        self.set(subject, "models", models, &new.models, |models| joined(models));
        self.set(subject, "aliases", aliases, &new.aliases, |aliases| {
            joined(&aliases.iter().map(|(alias, model)| format!("{alias}: {model}")).collect::<Vec<_>>())
        });
        self.set_shown(subject, "forward_authorization", forward_authorization, &new.forward_authorization);
        self.set_shown(subject, "decompress_requests", decompress_requests, &new.decompress_requests);
        self.set_shown(subject, "discover_models", discover_models, &new.discover_models);
        let endpoint = || name.clone();
        let variant = |v: &Variant| Subject::Variant { endpoint: endpoint(), variant: v.name.clone() };
        self.matched(
            variants,
            &new.variants,
            |v| &v.name,
            variant,
            |diff, subject, old, new| {
                diff.variant(name, subject, old, new);
            },
        );
        let component = |c: &Component| Subject::Component { endpoint: endpoint(), component: c.name.clone() };
        self.matched(components, &new.components, |c| &c.name, component, Self::component);
        let adapter = |a: &Adapter| Subject::Adapter { endpoint: endpoint(), adapter: a.name.clone() };
        self.matched(adapters, &new.adapters, |a| &a.name, adapter, Self::adapter);
    }

    fn variant(&mut self, endpoint: &str, subject: &Subject, old: &Variant, new: &Variant) {
        let Variant { name, weight, routing, replicas } = old;
        self.set_shown(subject, "weight", weight, &new.weight);
        self.routing(subject, routing, &new.routing);
        let replica = |r: &Replica| Subject::Replica {
            endpoint: endpoint.to_owned(),
            variant: name.clone(),
            replica: r.id.clone(),
        };
        self.matched(replicas, &new.replicas, |r| &r.id, replica, Self::replica);
    }

    fn routing(&mut self, subject: &Subject, old: &Routing, new: &Routing) {
        let Routing {
            strategy,
            prefix_length,
            concurrency_threshold,
            native_prefix_source,
            tenant_header,
            session_header,
        } = old;
        self.set_shown(subject, "routing.strategy", strategy, &new.strategy);
        self.set_shown(subject, "routing.prefix_length", prefix_length, &new.prefix_length);
        self.set_shown(subject, "routing.concurrency_threshold", concurrency_threshold, &new.concurrency_threshold);
        self.set(subject, "routing.native_prefix_source", native_prefix_source, &new.native_prefix_source, |source| {
            source.as_str().to_owned()
        });
        self.set_shown(subject, "routing.tenant_header", tenant_header, &new.tenant_header);
        self.set_shown(subject, "routing.session_header", session_header, &new.session_header);
    }

    fn replica(&mut self, subject: &Subject, old: &Replica, new: &Replica) {
        let Replica { id: _, url, http2, weight, api, stateful_sessions, api_key, labels, abilities } = old;
        self.set_shown(subject, "url", url, &new.url);
        self.set_shown(subject, "http2", http2, &new.http2);
        self.set_shown(subject, "weight", weight, &new.weight);
        self.set(subject, "api", api, &new.api, |api| api.as_str().to_owned());
        self.set_shown(subject, "stateful_sessions", stateful_sessions, &new.stateful_sessions);
        self.set(subject, "api_key", api_key, &new.api_key, |key| optional(key.as_ref()));
        self.set(subject, "labels", labels, &new.labels, |labels| {
            let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            joined(&pairs)
        });
        let Abilities { role, modalities, context_tokens_max } = abilities;
        let now = &new.abilities;
        self.set(subject, "role", role, &now.role, |role| role.as_str().to_owned());
        self.set(subject, "modalities", modalities, &now.modalities, |modalities| joined(&modality_words(*modalities)));
        self.set(subject, "context_tokens_max", context_tokens_max, &now.context_tokens_max, |tokens| {
            optional(*tokens)
        });
    }

    fn component(&mut self, subject: &Subject, old: &Component, new: &Component) {
        let Component { name: _, variant, copies } = old;
        self.set(subject, "variant", variant, &new.variant, |variant| optional(variant.as_deref()));
        self.set(subject, "copies", copies, &new.copies, |copies| {
            joined(&copies.iter().map(copy_words).collect::<Vec<_>>())
        });
    }

    fn adapter(&mut self, subject: &Subject, old: &Adapter, new: &Adapter) {
        let Adapter { name: _, component, base, replicas } = old;
        self.set(subject, "component", component, &new.component, |name| optional(name.as_deref()));
        self.set(subject, "base", base, &new.base, |name| optional(name.as_deref()));
        self.set(subject, "replicas", replicas, &new.replicas, |ids| {
            ids.as_deref().map_or_else(|| "all".to_owned(), joined)
        });
    }
}

/// What a replica reads, in words.
pub(super) fn modality_words(modalities: Modalities) -> Vec<String> {
    let Modalities { image, audio } = modalities;
    let named = [(true, "text"), (image, "image"), (audio, "audio")];
    named.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name.to_owned()).collect()
}

fn copy_words(copy: &Copy) -> String {
    let Copy { replica, url } = copy;
    url.as_ref().map_or_else(|| replica.clone(), |url| format!("{replica} at {url}"))
}

fn optional<T: fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn joined<T: ToString>(values: &[T]) -> String {
    format!("[{}]", values.iter().map(T::to_string).collect::<Vec<_>>().join(", "))
}
