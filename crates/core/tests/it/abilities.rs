//! What replicas can do decides who may serve a request, and who never can.

use kvroute_core::abilities::{Abilities, Demands, Modalities, Role};
use kvroute_core::decision::Drop;
use kvroute_core::facts::RequestFacts;
use kvroute_core::fleet::{Endpoint, Replica};
use kvroute_core::live::Health;
use kvroute_core::router::NoRoute;
use kvroute_core::routing::Strategy;

use crate::fixture::*;

fn able(id: &str, abilities: Abilities) -> Replica {
    Replica { abilities, ..replica(id) }
}

fn fleet(abilities: &[Abilities]) -> Endpoint {
    let replicas = abilities.iter().enumerate().map(|(i, abilities)| able(&format!("r{i}"), *abilities)).collect();
    endpoint(vec![variant("main", routing(Strategy::PrefixAware, 32), replicas)])
}

fn context(tokens: u64) -> Abilities {
    Abilities { context_tokens_max: Some(tokens), ..Abilities::default() }
}

fn demanding(demands: Demands, n: u64) -> RequestFacts {
    RequestFacts { demands, ..facts(&format!("prompt {n}")) }
}

const ANY: Abilities = Abilities { role: Role::Both, modalities: Modalities::ALL, context_tokens_max: None };
const TEXT: Abilities = Abilities { modalities: Modalities { image: false, audio: false }, ..ANY };
const PICTURES: Abilities = Abilities { modalities: Modalities { image: true, audio: false }, ..ANY };
const PREFILL: Abilities = Abilities { role: Role::Prefill, ..ANY };
const DECODE: Abilities = Abilities { role: Role::Decode, ..ANY };

fn tokens(min: u64, likely: u64) -> Demands {
    Demands { tokens_min: min, tokens_likely: likely, ..Demands::default() }
}

fn media(image: bool, audio: bool) -> Demands {
    Demands { modalities: Modalities { image, audio }, ..Demands::default() }
}

#[test]
fn a_request_goes_only_to_replicas_that_can_do_what_it_demands_and_to_all_of_those() {
    for (what, abilities, demands, may) in [
        ("nothing special", vec![ANY, TEXT, PICTURES, context(100)], Demands::default(), vec![0, 1, 2, 3]),
        ("pictures", vec![ANY, TEXT, PICTURES, context(100)], media(true, false), vec![0, 2, 3]),
        ("sound", vec![ANY, TEXT, PICTURES], media(false, true), vec![0]),
        ("the whole work", vec![PREFILL, ANY, DECODE], Demands::default(), vec![1]),
        ("room for its prompt", vec![context(100), context(1_000), ANY], tokens(101, 101), vec![1, 2]),
        ("likely more room for its answer", vec![context(100), context(1_000), ANY], tokens(10, 500), vec![1, 2]),
        ("more room than there likely is", vec![context(100), context(200)], tokens(10, 500), vec![0, 1]),
        ("exactly the room that there is", vec![context(100), context(200)], tokens(100, 100), vec![0, 1]),
    ] {
        let endpoint = fleet(&abilities);
        let mut served = [0; 4];
        (0..80).for_each(|n| served[pass(&endpoint, &demanding(demands, n), n)] += 1);
        let serving: Vec<usize> = (0..4).filter(|i| served[*i] > 0).collect();
        assert_eq!(serving, may, "{what}");
    }
}

#[test]
fn what_no_replica_can_ever_serve_is_told_apart_from_what_none_can_serve_now() {
    let too_long = || demanding(Demands { modalities: media(true, false).modalities, ..tokens(500, 900) }, 1);
    let endpoint = fleet(&[TEXT, context(100), context(200), PREFILL]);
    let refused = refusal(&endpoint, &too_long());
    let drops = vec![(Drop::NoModality, 1), (Drop::ContextTooShort, 2), (Drop::OtherRole, 1)];
    assert_eq!(refused, NoRoute::Unfit(drops));
    let words = "no replica can serve such a request \
                 (1 without the modality, 2 with too short a context, 1 with another role)";
    assert_eq!(refused.to_string(), words);

    let endpoint = fleet(&[TEXT, ANY]);
    endpoint.variants[0].replicas[1].live.set_health(Health::Down);
    let now = refusal(&endpoint, &too_long());
    assert_eq!(now, NoRoute::NoReplica(vec![(Drop::NoModality, 1), (Drop::Down, 1)]));
}

#[test]
fn the_variant_that_could_serve_it_is_the_one_whose_refusal_is_told() {
    let of = |name: &str, abilities| variant(name, routing(Strategy::Random, 32), vec![able(name, abilities)]);
    let endpoint = endpoint(vec![of("text", TEXT), of("pictures", PICTURES)]);
    let image = demanding(media(true, false), 1);
    assert!((0..30).all(|n| place(&endpoint, &image, n).0.variant == 1));
    endpoint.variants[1].replicas[0].live.set_health(Health::Down);
    assert_eq!(refusal(&endpoint, &image), NoRoute::NoReplica(vec![(Drop::Down, 1)]));
}

#[test]
fn what_an_engine_says_of_its_context_counts_where_the_configuration_says_nothing() {
    let endpoint = fleet(&[ANY, context(1_000)]);
    for replica in &endpoint.variants[0].replicas {
        replica.live.set_context_tokens_max(Some(100));
    }
    assert!((0..30).all(|n| pass(&endpoint, &demanding(tokens(500, 500), n), n) == 1));
    endpoint.variants[0].replicas[0].live.set_context_tokens_max(None);
    assert!((0..30).any(|n| pass(&endpoint, &demanding(tokens(500, 500), n), n) == 0), "not known is not short");
}
