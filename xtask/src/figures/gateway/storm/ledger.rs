//! What engines say of the requests that reached them, by `x-request-id`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::super::super::http::exchange;

/// The books of all engines together.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    received: Mutex<HashMap<String, u64>>,
}

/// `/debug/requests` of an engine.
#[derive(Deserialize)]
struct Page {
    requests: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    received: u64,
}

impl Ledger {
    /// Adds the books of an engine, which it forgets when it ends. What reaches it after this is not seen: a handful
    /// of requests for each engine that is killed.
    pub(super) fn add(&self, engine: SocketAddr) -> Result<()> {
        let answer = exchange(engine, "GET", "/debug/requests", "").context("cannot read an engine's books")?;
        let (_, body) = answer.split_once("\r\n\r\n").context("an engine's books have no head")?;
        let page: Page = serde_json::from_str(body).context("cannot understand an engine's books")?;
        self.book(page);
        Ok(())
    }

    fn book(&self, page: Page) {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        for line in page.requests {
            *received.entry(line.id).or_default() += line.received;
        }
    }

    /// Requests that reached any engine.
    pub(super) fn requests(&self) -> usize {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Requests that reached engines more than once.
    pub(super) fn more_than_once(&self) -> Vec<String> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.iter().filter(|(_, times)| **times > 1).map(|(id, _)| id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_reached_two_engines_or_one_engine_twice_is_found() {
        let ledger = Ledger::default();
        let pages = [[("once", 1), ("two-engines", 1)], [("one-engine", 2), ("two-engines", 1)]];
        for page in pages {
            let requests = page.map(|(id, received)| Line { id: id.to_owned(), received });
            ledger.book(Page { requests: requests.into() });
        }
        let mut found = ledger.more_than_once();
        found.sort();
        assert_eq!((found, ledger.requests()), (vec!["one-engine".to_owned(), "two-engines".to_owned()], 3));
    }
}
