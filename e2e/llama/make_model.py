"""Makes a small llama model with random weights as a GGUF file: nothing is downloaded, two runs give the same file.

What the model says is noise. What matters is real: llama.cpp tokenises, prefills, caches and reports as it does for
any model, only thousands of times cheaper: it has 4 million weights and the file is 8 MB.

Usage: python make_model.py OUT.gguf
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.shapes import prose  # noqa: E402, found through the line above

HIDDEN, LAYERS, FEED_FORWARD = 256, 4, 768
HEADS, KV_HEADS = 8, 4
HEAD_WIDTH = HIDDEN // HEADS
CONTEXT_TOKENS = 4096
VOCABULARY = 2048
BEGIN, END, TURN_BEGIN, TURN_END = SPECIAL = ("<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>")

# A longer conversation renders with the shorter one as its beginning: that is what a prefix cache lives on.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    + TURN_BEGIN
    + "{{ message.role }}\n{{ message.content }}"
    + TURN_END
    + "{{ '\\n' }}{%- endfor -%}{%- if add_generation_prompt -%}"
    + TURN_BEGIN
    + "{{ 'assistant\\n' }}{%- endif -%}"
)


def train_tokenizer() -> Tokenizer:
    """Byte-level BPE over the words of the tests' prompts; the split is GPT-2's, as the GGUF file declares."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((prose(f"vocabulary {page}", 4_000) for page in range(50)), trainer)
    return tokenizer


def write_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    """Tokens in id order, merges in rank order, and the chat template."""
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([control if token in SPECIAL else normal for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(tokens.index(BEGIN))
    writer.add_eos_token_id(tokens.index(END))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def write_shape(writer: gguf.GGUFWriter, vocabulary: int) -> None:
    """The hyperparameters that llama.cpp needs to build the graph."""
    writer.add_name("tiny-random")
    writer.add_vocab_size(vocabulary)
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def write_weights(writer: gguf.GGUFWriter, vocabulary: int) -> None:
    """Seeded noise for the matrices, ones for the norms."""
    noise = np.random.default_rng(0)

    def matrix(name: str, rows: int, columns: int) -> None:
        values = noise.standard_normal((rows, columns), dtype=np.float32) * 0.02
        writer.add_tensor(f"{name}.weight", values.astype(np.float16))

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, dtype=np.float32))

    matrix("token_embd", vocabulary, HIDDEN)
    matrix("output", vocabulary, HIDDEN)
    norm("output_norm")
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm")
        norm(f"{block}.ffn_norm")
        matrix(f"{block}.attn_q", HIDDEN, HIDDEN)
        matrix(f"{block}.attn_k", KV_HEADS * HEAD_WIDTH, HIDDEN)
        matrix(f"{block}.attn_v", KV_HEADS * HEAD_WIDTH, HIDDEN)
        matrix(f"{block}.attn_output", HIDDEN, HIDDEN)
        matrix(f"{block}.ffn_gate", FEED_FORWARD, HIDDEN)
        matrix(f"{block}.ffn_up", FEED_FORWARD, HIDDEN)
        matrix(f"{block}.ffn_down", HIDDEN, FEED_FORWARD)


def make_model(path: Path) -> None:
    """Writes the model to `path`."""
    tokenizer = train_tokenizer()
    vocabulary = tokenizer.get_vocab_size()
    writer = gguf.GGUFWriter(path, "llama")
    write_shape(writer, vocabulary)
    write_tokenizer(writer, tokenizer)
    write_weights(writer, vocabulary)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    make_model(Path(sys.argv[1]))
