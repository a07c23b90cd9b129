//! `kvroute trace generate`: traffic made from a seed.

use clap::Subcommand;
use kvroute_lab::InvalidOption;
use kvroute_lab::trace::generate::{
    Agent, Arrivals, Common, HotPrefix, Length, MultiTurn, Rag, Records, Shape, SharedPrefix,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kvroute trace generate shared-prefix --requests 20000 --rate 5 -o documents.jsonl.gz\n  \
    kvroute trace generate agent --closed --steps 20 | kvroute trace stats -")]
pub(super) struct Args {
    #[command(subcommand)]
    shape: ShapeArgs,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// Requests in all.
    #[arg(long, global = true, help_heading = "Load", default_value_t = Common::default().requests)]
    requests: u64,
    /// Requests a second.
    #[arg(long, global = true, help_heading = "Load", default_value_t = 10.0)]
    rate: f64,
    /// Shape of the gaps: 1 is Poisson, less is burstier, inf is even.
    #[arg(long, global = true, help_heading = "Load", default_value_t = 1.0)]
    burstiness: f64,
    /// Without times: each user sends when the answer before has come.
    #[arg(long, global = true, help_heading = "Load")]
    closed: bool,
    /// Tokens a block.
    #[arg(long, global = true, help_heading = "Load", default_value_t = Common::default().block_tokens)]
    block_tokens: u32,
    /// What everything is drawn with: the same seed gives the same trace.
    #[arg(long, global = true, help_heading = "Load", default_value_t = 0)]
    seed: u64,
    /// File to write; compressed if it ends in .gz [default: standard output].
    #[arg(short, long, global = true, help_heading = "Load", value_name = "FILE")]
    output: Option<std::path::PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ShapeArgs {
    /// Documents or few-shot prompts, each asked about several times.
    SharedPrefix(SharedPrefixArgs),
    /// The same, and one of them suddenly asked about by everybody.
    HotPrefix(HotPrefixArgs),
    /// Documents in Zipf order behind a system prompt.
    Rag(RagArgs),
    /// Chats: each turn's prompt is all that was said before.
    MultiTurn(MultiTurnArgs),
    /// Agents: long runs that grow by what their tools say.
    Agent(AgentArgs),
}

#[derive(Debug, clap::Args)]
struct SharedPrefixArgs {
    /// Prefixes in use at a time; with --zipf-alpha, prefixes in all.
    #[arg(long, default_value_t = SharedPrefix::default().live)]
    prefixes: u32,
    /// Mean uses of a prefix before another takes its place.
    #[arg(long, default_value_t = SharedPrefix::default().uses)]
    uses: f64,
    /// All prefixes stay in use, and popularity falls with rank to this power.
    #[arg(long)]
    zipf_alpha: Option<f64>,
    /// Tokens of a prefix.
    #[arg(long, default_value_t = SharedPrefix::default().prefix_tokens)]
    prefix_tokens: u32,
    /// Tokens of the question after it: a mean, or mean:spread:max of a lognormal length.
    #[arg(long, value_name = "LENGTH", default_value_t = SharedPrefix::default().question)]
    question_tokens: Length,
    /// Tokens of the answer.
    #[arg(long, value_name = "LENGTH", default_value_t = SharedPrefix::default().output)]
    output_tokens: Length,
}

#[derive(Debug, clap::Args)]
struct HotPrefixArgs {
    #[command(flatten)]
    base: SharedPrefixArgs,
    /// When the burst begins, seconds.
    #[arg(long, default_value_t = HotPrefix::default().burst_at_s)]
    burst_at_s: f64,
    /// How long it lasts, seconds.
    #[arg(long, default_value_t = HotPrefix::default().burst_s)]
    burst_s: f64,
    /// Its requests a second, as a multiple of --rate.
    #[arg(long, default_value_t = HotPrefix::default().burst_factor)]
    burst_factor: f64,
}

#[derive(Debug, clap::Args)]
struct RagArgs {
    /// Tokens of the system prompt.
    #[arg(long, default_value_t = Rag::default().system_tokens)]
    system_tokens: u32,
    /// Documents that there are.
    #[arg(long, default_value_t = Rag::default().documents)]
    documents: u32,
    /// Popularity of documents falls with rank to this power.
    #[arg(long, default_value_t = Rag::default().zipf_alpha)]
    zipf_alpha: f64,
    /// Documents in a prompt.
    #[arg(long, default_value_t = Rag::default().per_request)]
    per_request: u32,
    /// Documents stand in the order of their popularity, not as they were drawn.
    #[arg(long)]
    sorted: bool,
    /// Tokens of a document: a mean, or mean:spread:max of a lognormal length.
    #[arg(long, value_name = "LENGTH", default_value_t = Rag::default().document)]
    document_tokens: Length,
    /// Tokens of the question.
    #[arg(long, value_name = "LENGTH", default_value_t = Rag::default().question)]
    question_tokens: Length,
    /// Tokens of the answer.
    #[arg(long, value_name = "LENGTH", default_value_t = Rag::default().output)]
    output_tokens: Length,
}

#[derive(Debug, clap::Args)]
struct MultiTurnArgs {
    /// System prompts that there are; 0 for none.
    #[arg(long, default_value_t = MultiTurn::default().systems)]
    systems: u32,
    /// Popularity of system prompts falls with rank to this power.
    #[arg(long, default_value_t = MultiTurn::default().zipf_alpha)]
    zipf_alpha: f64,
    /// Tokens of a system prompt.
    #[arg(long, default_value_t = MultiTurn::default().system_tokens)]
    system_tokens: u32,
    /// Mean turns of a chat.
    #[arg(long, default_value_t = MultiTurn::default().turns)]
    turns: f64,
    /// Tokens of a message: a mean, or mean:spread:max of a lognormal length.
    #[arg(long, value_name = "LENGTH", default_value_t = MultiTurn::default().message)]
    message_tokens: Length,
    /// Tokens of an answer.
    #[arg(long, value_name = "LENGTH", default_value_t = MultiTurn::default().output)]
    output_tokens: Length,
    /// Mean seconds between an answer and the next message.
    #[arg(long, default_value_t = MultiTurn::default().think_s)]
    think_s: f64,
    /// Tokens at which a chat ends.
    #[arg(long, default_value_t = MultiTurn::default().context_tokens)]
    context_tokens: u32,
    /// Chats side by side, with --closed.
    #[arg(long, default_value_t = MultiTurn::default().side_by_side)]
    side_by_side: u32,
}

#[derive(Debug, clap::Args)]
struct AgentArgs {
    /// Kinds of agents: runs of one begin with the same tools and system prompt.
    #[arg(long, default_value_t = Agent::default().kinds)]
    kinds: u32,
    /// Popularity of kinds falls with rank to this power.
    #[arg(long, default_value_t = Agent::default().zipf_alpha)]
    zipf_alpha: f64,
    /// Tokens of tools and system prompt.
    #[arg(long, default_value_t = Agent::default().system_tokens)]
    system_tokens: u32,
    /// Tokens of the task: a mean, or mean:spread:max of a lognormal length.
    #[arg(long, value_name = "LENGTH", default_value_t = Agent::default().task)]
    task_tokens: Length,
    /// Mean requests of a run.
    #[arg(long, default_value_t = Agent::default().steps)]
    steps: f64,
    /// Tokens of what a tool says.
    #[arg(long, value_name = "LENGTH", default_value_t = Agent::default().tool)]
    tool_tokens: Length,
    /// Tokens of an answer.
    #[arg(long, value_name = "LENGTH", default_value_t = Agent::default().output)]
    output_tokens: Length,
    /// Mean seconds that a tool takes.
    #[arg(long, default_value_t = Agent::default().tool_s)]
    tool_s: f64,
    /// Part of the steps in which a person answers, and not a tool.
    #[arg(long, default_value_t = Agent::default().asks)]
    asks: f64,
    /// Mean seconds that a person takes.
    #[arg(long, default_value_t = Agent::default().think_s)]
    think_s: f64,
    /// Tokens at which the context is summarised.
    #[arg(long, default_value_t = Agent::default().context_tokens)]
    context_tokens: u32,
    /// Tokens of the summary.
    #[arg(long, default_value_t = Agent::default().summary_tokens)]
    summary_tokens: u32,
    /// Runs side by side, with --closed.
    #[arg(long, default_value_t = Agent::default().side_by_side)]
    side_by_side: u32,
}

impl SharedPrefixArgs {
    fn shape(&self) -> SharedPrefix {
        SharedPrefix {
            live: self.prefixes,
            uses: self.uses,
            zipf_alpha: self.zipf_alpha,
            prefix_tokens: self.prefix_tokens,
            question: self.question_tokens,
            output: self.output_tokens,
        }
    }
}

impl ShapeArgs {
    fn shape(&self) -> Box<dyn Shape> {
        match self {
            Self::SharedPrefix(args) => Box::new(args.shape()),
            Self::HotPrefix(args) => Box::new(HotPrefix {
                base: args.base.shape(),
                burst_at_s: args.burst_at_s,
                burst_s: args.burst_s,
                burst_factor: args.burst_factor,
            }),
            Self::Rag(args) => Box::new(Rag {
                system_tokens: args.system_tokens,
                documents: args.documents,
                zipf_alpha: args.zipf_alpha,
                per_request: args.per_request,
                sorted: args.sorted,
                document: args.document_tokens,
                question: args.question_tokens,
                output: args.output_tokens,
            }),
            Self::MultiTurn(args) => Box::new(MultiTurn {
                systems: args.systems,
                zipf_alpha: args.zipf_alpha,
                system_tokens: args.system_tokens,
                turns: args.turns,
                message: args.message_tokens,
                output: args.output_tokens,
                think_s: args.think_s,
                context_tokens: args.context_tokens,
                side_by_side: args.side_by_side,
            }),
            Self::Agent(args) => Box::new(Agent {
                kinds: args.kinds,
                zipf_alpha: args.zipf_alpha,
                system_tokens: args.system_tokens,
                task: args.task_tokens,
                steps: args.steps,
                tool: args.tool_tokens,
                output: args.output_tokens,
                tool_s: args.tool_s,
                asks: args.asks,
                think_s: args.think_s,
                context_tokens: args.context_tokens,
                summary_tokens: args.summary_tokens,
                side_by_side: args.side_by_side,
            }),
        }
    }
}

impl Args {
    /// The traffic asked for.
    pub(super) fn records(&self) -> Result<Records, InvalidOption> {
        let CommonArgs { requests, rate, burstiness, closed, block_tokens, seed, .. } = self.common;
        let arrivals = if closed {
            Arrivals::Closed
        } else if burstiness == f64::INFINITY {
            Arrivals::Constant { per_s: rate }
        } else if burstiness == 1.0 {
            Arrivals::Poisson { per_s: rate }
        } else {
            Arrivals::Gamma { per_s: rate, shape: burstiness }
        };
        self.shape.shape().generate(&Common { requests, arrivals, block_tokens, seed })
    }

    /// Where it is to be written.
    pub(super) fn output(&self) -> Option<&std::path::Path> {
        self.common.output.as_deref()
    }
}
