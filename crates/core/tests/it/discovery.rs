//! Adapters that engines list are served where they are listed.

use std::collections::HashSet;
use std::sync::Arc;

use kvroute_core::decision::Drop;
use kvroute_core::discovery::Discovery;
use kvroute_core::facts::RequestFacts;
use kvroute_core::fleet::{Adapter, Endpoint, Fleet, Replica};
use kvroute_core::live::Health;
use kvroute_core::router::NoRoute;
use kvroute_core::routing::Strategy;

use crate::fixture::*;

fn discovering(replicas: usize) -> Endpoint {
    let mut endpoint = fleet_of(replicas, routing(Strategy::PrefixAware, 32));
    let discovery = Discovery::default();
    discovery.follow(endpoint.variants[0].replicas.iter().map(Replica::engine).collect());
    endpoint.discovery = Some(Arc::new(discovery));
    endpoint
}

fn list(endpoint: &Endpoint, replica: usize, adapters: &[&str]) {
    let adapters: HashSet<String> = adapters.iter().map(|name| (*name).to_owned()).collect();
    endpoint
        .discovery
        .as_ref()
        .expect("lists are read")
        .lists(endpoint.variants[0].replicas[replica].engine(), &adapters);
}

fn of_model(model: &str, n: u64) -> RequestFacts {
    RequestFacts { model: Some(model.to_owned()), ..facts(&format!("prompt {n}")) }
}

/// Where 60 requests of a model go.
fn serving(endpoint: &Endpoint, model: &str) -> Vec<usize> {
    let served: HashSet<usize> = (0..60).map(|n| pass(endpoint, &of_model(model, n), n)).collect();
    let mut served: Vec<usize> = served.into_iter().collect();
    served.sort_unstable();
    served
}

/// S76
#[test]
fn a_listed_adapter_is_served_where_it_is_listed_and_follows_the_lists() {
    let endpoint = discovering(4);
    list(&endpoint, 1, &["sql"]);
    list(&endpoint, 2, &["sql", "css"]);
    for (model, replicas) in [("sql", vec![1, 2]), ("css", vec![2]), ("base", vec![0, 1, 2, 3])] {
        assert_eq!(serving(&endpoint, model), replicas, "{model}");
    }
    list(&endpoint, 1, &[]);
    list(&endpoint, 2, &["css"]);
    list(&endpoint, 3, &["sql"]);
    assert_eq!(serving(&endpoint, "sql"), [3]);
    endpoint.variants[0].replicas[3].live.set_health(Health::Down);
    let refused = refusal(&endpoint, &of_model("sql", 1));
    assert_eq!(refused, NoRoute::NoReplica(vec![(Drop::NoAdapter, 3), (Drop::Down, 1)]));
    list(&endpoint, 3, &[]);
    assert_eq!(serving(&endpoint, "sql"), [0, 1, 2], "what nobody lists is for the engines to refuse");
}

#[test]
fn what_the_configuration_says_of_an_adapter_counts_before_the_lists() {
    let mut endpoint = discovering(3);
    let replicas = Some(vec![Arc::from("r0")]);
    endpoint.adapters = vec![Adapter { name: "sql".to_owned(), component: None, base: None, replicas }];
    list(&endpoint, 2, &["sql"]);
    assert_eq!(serving(&endpoint, "sql"), [0]);
}

#[test]
fn a_listed_adapter_selects_its_endpoint() {
    let mut first = discovering(1);
    first.models = vec!["m".to_owned()];
    let mut second = discovering(1);
    second.models = vec!["n".to_owned()];
    list(&second, 0, &["sql"]);
    let fleet = Fleet { endpoints: vec![first, second] };
    let by_model = |model| fleet.endpoint_for_model(Some(model));
    assert_eq!((by_model("m"), by_model("n"), by_model("sql"), by_model("css")), (Some(0), Some(1), Some(1), None));
}

#[test]
fn an_adapter_shares_no_cache_with_its_base() {
    let endpoint = discovering(1);
    list(&endpoint, 0, &["sql"]);
    let scoped = |model: &str| {
        let mut facts = RequestFacts { model: Some(model.to_owned()), ..facts(&"word ".repeat(1_000)) };
        let scope = facts.scope().expect("a model has a scope");
        facts.prompt.chain.scope(scope);
        facts
    };
    let captured = |model: &str| place(&endpoint, &scoped(model), 1).0.captured_bytes;
    assert_eq!((captured("base"), captured("sql")), (0, 0));
    assert!(captured("base") > 0 && captured("sql") > 0);
}
