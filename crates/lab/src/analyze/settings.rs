//! The advice as settings: for kvroute, and for a SageMaker endpoint.

use super::words::count;

/// What to set.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Settings {
    /// `prefix_aware`, or `least_outstanding` where that would not pay.
    pub strategy: &'static str,
    /// Characters of message text.
    pub prefix_length: Option<u32>,
    /// The same in tokens.
    pub prefix_tokens: Option<u64>,
    /// Requests in flight at which a replica is passed over, for each gateway.
    pub concurrency_threshold: Option<u32>,
    /// How lines begin that are left out of keys.
    pub key_skip_lines: Vec<String>,
}

impl Settings {
    /// A configuration that `kvroute check` accepts, but for the replicas, which are invented.
    pub fn yaml(&self) -> String {
        let mut text = String::from("replicas: [http://10.0.0.4:8000, http://10.0.0.5:8000]   # write yours\n");
        if !self.key_skip_lines.is_empty() {
            // JSON strings are YAML strings.
            let lines = serde_json::to_string(&self.key_skip_lines).unwrap_or_default();
            text.push_str(&format!("key_skip_lines: {lines}\n"));
        }
        text.push_str(&format!("routing:\n  strategy: {}\n", self.strategy));
        if let Some(length) = self.prefix_length {
            let tokens =
                self.prefix_tokens.map_or_else(String::new, |tokens| format!(", about {} tokens", count(tokens)));
            text.push_str(&format!("  prefix_length: {length}   # characters of message text{tokens}\n"));
        }
        if let Some(threshold) = self.concurrency_threshold {
            text.push_str(&format!("  concurrency_threshold: {threshold}   # requests in flight, for each gateway\n"));
        }
        text
    }

    /// SageMaker's `RoutingConfig` of a production variant.
    pub fn routing_config(&self) -> serde_json::Value {
        match (self.strategy, self.prefix_length, self.concurrency_threshold) {
            ("prefix_aware", Some(length), Some(threshold)) => serde_json::json!({
                "RoutingStrategy": "PREFIX_AWARE",
                "PrefixAwareRoutingConfig": {"PrefixLength": length, "ConcurrencyThreshold": threshold},
            }),
            _ => serde_json::json!({"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sagemaker_gets_its_own_names_and_no_prefix_settings_for_another_strategy() {
        let mut settings = Settings {
            strategy: "prefix_aware",
            prefix_length: Some(4096),
            prefix_tokens: Some(1024),
            concurrency_threshold: Some(24),
            key_skip_lines: vec![],
        };
        let config = settings.routing_config();
        assert_eq!(config["RoutingStrategy"], "PREFIX_AWARE");
        assert_eq!(config["PrefixAwareRoutingConfig"]["PrefixLength"], 4096);
        assert_eq!(config["PrefixAwareRoutingConfig"]["ConcurrencyThreshold"], 24);
        settings.strategy = "least_outstanding";
        assert_eq!(settings.routing_config(), serde_json::json!({"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}));
    }
}
