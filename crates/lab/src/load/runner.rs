//! The loop of a run: who leaves when, and what came back.
//!
//! One task decides, and one task a request talks; the deciding task alone touches the workload, the
//! pace and the outcome, so there are no locks and a workload sees events in one order.
//!
//! The timer wakes at whole milliseconds, so a request of an open loop leaves up to about one
//! millisecond after its time. The lag is measured like any other.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    task::{JoinError, JoinSet, yield_now},
    time::{Instant, sleep_until},
};

use super::{
    client::Client,
    exchange::Exchange,
    failure::{Failure, FailureKind},
    options::LoadOptions,
    outcome::{Departure, Ending, Outcome},
    pace::Pace,
    progress::{Phase, Progress, Snapshot},
};
use crate::{
    InvalidOption,
    workload::{Next, Request, Workload},
};

/// Requests started between two looks at the clock and at what has ended.
const STARTS_IN_A_ROW: usize = 32;
/// Warm-up requests in flight where the pacing allows more.
const WARMUP_IN_FLIGHT_MAX: usize = 16;
/// Least time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Sends the workload and gives what was met.
///
/// Ends when everything was sent and has ended, when the time is over, or when `stop` completes
/// (`std::future::pending()` for never). Must run within a Tokio runtime with time and I/O. Fails only
/// for options that cannot be used; failures of requests are part of the outcome.
pub async fn run(
    options: &LoadOptions,
    workload: &mut dyn Workload,
    progress: &mut dyn Progress,
    stop: impl Future<Output = ()>,
) -> Result<Outcome, InvalidOption> {
    options.check()?;
    let client = Arc::new(Client::new(&options.target)?);
    let mut stop = pin!(stop);
    let (warmups_failed, stopped) = tokio::select! {
        failed = warm_up(options, &client, workload, progress) => (failed, false),
        () = &mut stop => (0, true),
    };
    let mut runner = Runner::new(options, client, workload, progress);
    runner.outcome.warmups_failed = warmups_failed;
    if stopped {
        runner.outcome.ending = Ending::Stopped;
        return Ok(runner.outcome);
    }
    runner.drive(stop).await;
    Ok(runner.outcome)
}

/// Sends the warm-up requests and gives the number of those that failed.
async fn warm_up(
    options: &LoadOptions,
    client: &Arc<Client>,
    workload: &mut dyn Workload,
    progress: &mut dyn Progress,
) -> usize {
    let started = Instant::now();
    let in_flight_max = options.pacing.in_flight_max().min(WARMUP_IN_FLIGHT_MAX);
    let (mut sent, mut served, mut failed) = (0, 0, 0);
    let mut tasks = JoinSet::new();
    while served + failed < options.warmups {
        while tasks.len() < in_flight_max && sent < options.warmups {
            let (client, request) = (Arc::clone(client), workload.warmup(sent as u64));
            let limit = options.request_timeout;
            tasks.spawn(async move { Exchange::perform(&client, &request, limit).await });
            sent += 1;
        }
        match tasks.join_next().await {
            Some(Ok(exchange)) if exchange.result.is_ok() => served += 1,
            _ => failed += 1,
        }
        progress.update(&Snapshot {
            phase: Phase::Warmup,
            elapsed: started.elapsed(),
            duration_max: None,
            total: options.warmups as u64,
            served: served as u64,
            failed: failed as u64,
            in_flight: tasks.len() as u64,
        });
    }
    failed
}

/// Waits, or only lets others run when the moment is there. The timer counts in whole milliseconds and
/// would wait for the next one.
async fn pause_until(moment: Instant) {
    if moment <= Instant::now() {
        yield_now().await;
    } else {
        sleep_until(moment).await;
    }
}

/// A request that has ended.
struct Ended {
    ticket: u64,
    departure: Departure,
    exchange: Exchange,
}

struct Runner<'a> {
    options: &'a LoadOptions,
    client: Arc<Client>,
    workload: &'a mut dyn Workload,
    progress: &'a mut dyn Progress,
    pace: Pace,
    tasks: JoinSet<Ended>,
    outcome: Outcome,
    epoch: Instant,
    sent: usize,
    /// Nothing further will be sent: all was, or the time is over.
    closed: bool,
    /// When a request last ended while all slots were taken.
    slot_freed: Duration,
    progress_due: Duration,
}

impl<'a> Runner<'a> {
    fn new(
        options: &'a LoadOptions,
        client: Arc<Client>,
        workload: &'a mut dyn Workload,
        progress: &'a mut dyn Progress,
    ) -> Self {
        Self {
            options,
            client,
            workload,
            progress,
            pace: Pace::new(&options.pacing, options.seed),
            tasks: JoinSet::new(),
            outcome: Outcome::new(options),
            epoch: Instant::now(),
            sent: 0,
            closed: false,
            slot_freed: Duration::ZERO,
            progress_due: Duration::ZERO,
        }
    }

    async fn drive(&mut self, mut stop: std::pin::Pin<&mut impl Future<Output = ()>>) {
        loop {
            let next_start = self.start_what_is_due().unwrap_or(Duration::MAX);
            if self.closed && self.tasks.is_empty() {
                break;
            }
            let boundary = self.boundary().map(|at| self.instant(at));
            let wake = self.instant(next_start.min(self.progress_due));
            tokio::select! {
                biased;
                () = &mut stop => {
                    self.outcome.ending = Ending::Stopped;
                    break;
                }
                () = sleep_until(boundary.unwrap_or(wake)), if boundary.is_some() => {
                    let drained = self.outcome.ending == Ending::TimeOver;
                    self.outcome.ending = Ending::TimeOver;
                    self.closed = true;
                    if drained || self.options.drain_max.is_zero() {
                        break;
                    }
                }
                Some(ended) = self.tasks.join_next() => self.take(ended),
                () = pause_until(wake) => {}
            }
            self.report_progress();
        }
        self.outcome.duration = self.now();
        self.outcome.cut = self.tasks.len();
        self.tasks.shutdown().await;
        self.progress_due = Duration::ZERO;
        self.report_progress();
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// The moment of a time of the run. The clock may not hold the largest ones, which are as good as
    /// a year.
    fn instant(&self, at: Duration) -> Instant {
        let year = Duration::from_secs(365 * 86_400);
        self.epoch + at.min(year)
    }

    /// When the time for sending, or for draining, is over.
    fn boundary(&self) -> Option<Duration> {
        let limit = self.options.duration_max?;
        Some(match self.outcome.ending {
            Ending::TimeOver => limit.saturating_add(self.options.drain_max),
            Ending::Finished | Ending::Stopped => limit,
        })
    }

    /// Starts the requests whose time has come and gives the time of the next one, if it is known.
    fn start_what_is_due(&mut self) -> Option<Duration> {
        for _ in 0..STARTS_IN_A_ROW {
            let all_sent = self.sent >= self.options.requests_max;
            self.closed |= all_sent;
            if self.closed || self.tasks.len() >= self.options.pacing.in_flight_max() {
                return None;
            }
            let now = self.now();
            let due = self.pace.next_at()?;
            if due > now {
                return Some(due);
            }
            match self.workload.next(now) {
                Next::Request(request) => self.start(due, request),
                Next::NotBefore(at) => return Some(at),
                Next::AwaitingAnswer if !self.tasks.is_empty() => return None,
                // Also when an answer is awaited that nobody is about to give.
                Next::AwaitingAnswer | Next::Exhausted => self.closed = true,
            }
        }
        Some(self.now())
    }

    fn start(&mut self, due: Duration, request: Request) {
        let departure = Departure {
            scheduled: self.pace.scheduled(due, request.ready_at),
            slot_freed: self.slot_freed,
            prompt_tokens: request.prompt_tokens,
        };
        self.pace.started();
        self.sent += 1;
        let client = Arc::clone(&self.client);
        let limit = self.options.request_timeout;
        self.tasks.spawn(async move {
            let exchange = Exchange::perform(&client, &request, limit).await;
            Ended { ticket: request.ticket, departure, exchange }
        });
        let in_flight = self.tasks.len();
        self.outcome.in_flight_peak = self.outcome.in_flight_peak.max(in_flight);
    }

    fn take(&mut self, ended: Result<Ended, JoinError>) {
        let now = self.now();
        if self.tasks.len() + 1 >= self.options.pacing.in_flight_max() {
            self.slot_freed = now;
        }
        self.pace.ended(now);
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                let failure = Failure::new(FailureKind::Internal, &error.to_string());
                self.outcome.count(&failure);
                return;
            }
        };
        let Ended { ticket, departure, exchange } = ended;
        let answer = match &exchange.result {
            Ok(()) => Some(exchange.answer.text.as_deref().unwrap_or_default()),
            Err(_) => None,
        };
        self.workload.finished(ticket, answer, now);
        let sent = exchange.sent_at.duration_since(self.epoch);
        self.outcome.add(departure, sent, &exchange, self.options.keep_gaps);
    }

    fn report_progress(&mut self) {
        let now = self.now();
        if now < self.progress_due {
            return;
        }
        self.progress_due = now + PROGRESS_INTERVAL;
        let failed = self.outcome.failed();
        let total = self.workload.requests_total();
        self.progress.update(&Snapshot {
            phase: Phase::Measure,
            elapsed: now,
            duration_max: self.options.duration_max,
            total: total.min(self.options.requests_max as u64),
            served: (self.outcome.records.len() as u64).saturating_sub(failed),
            failed,
            in_flight: self.tasks.len() as u64,
        });
    }
}
