#!/usr/bin/env python3
"""Makes the vocabulary of the simulated engine and the golden vectors its tests compare with.

Writes into crates/engine/src/vocab/:
  tokenizer.json         byte-level BPE in the Hugging Face `tokenizers` format
  tokenizer_config.json  special tokens and the chat template (Jinja)
  golden.json            texts with their token ids, conversations with their rendered text

Everything is derived from vocab_words.txt beside this file, so that a run with the same version of
`tokenizers` writes the same bytes. Why a vocabulary of our own: a model's vocabulary is several
megabytes and somebody else's; a simulated engine needs one of the same kind, not of the same size.

  pip install tokenizers==0.23.3 jinja2==3.1.6
  python3 tools/make_vocab.py
"""

import json
import pathlib

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent / "crates" / "engine" / "src" / "vocab"

# Ids 0 to 3, in this order; the 256 bytes follow, then the merges.
SPECIALS = ["<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"]
VOCAB_SIZE = 8192

# A word stands for itself far more often than its other forms do, so that its own merges come first.
WEIGHT_WORD, WEIGHT_INFLECTED, WEIGHT_BARE, WEIGHT_CAPITAL, WEIGHT_DERIVED = 60, 9, 12, 8, 3

# Same text as the engine's own renderer in chat.rs; the golden conversations hold the two together.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% elif message['content'] %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}{{ '[' + part['type'] + ']' }}{% endif %}"
    "{% endfor %}{% endif %}"
    "{{ '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def inflected(word):
    """Regular plural, participles; a wrong one now and then only adds a fragment to the vocabulary."""
    stem = word[:-1] if word.endswith("e") else word
    plural = word[:-1] + "ies" if word.endswith("y") and word[-2] not in "aeiou" else word + "s"
    return [plural, stem + "ing", stem + "ed"]


def derived(word):
    stem = word[:-1] if word.endswith("e") else word
    return [stem + "er", stem + "able", word + "ly", word + "ment", word + "ness", "un" + word, "re" + word]


def corpus(words):
    for word in words:
        yield from [" " + word] * WEIGHT_WORD
        yield from [word] * WEIGHT_BARE
        yield from [" " + word.capitalize()] * WEIGHT_CAPITAL
        yield from [word.capitalize()] * (WEIGHT_CAPITAL // 2)
        if len(word) > 2:
            for form in inflected(word):
                yield from [" " + form] * WEIGHT_INFLECTED
            for form in derived(word):
                yield from [" " + form] * WEIGHT_DERIVED


def train(words):
    tokenizer = Tokenizer(models.BPE())
    # Cuts around every newline and before every space: no regular expression, so that the Rust side
    # is the same rule in one loop.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", "isolated"),
            pre_tokenizers.Split(" ", "merged_with_next"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(words), trainer)
    return tokenizer


def check(tokenizer, words):
    """Every listed word with its leading space should be one token."""
    split = [word for word in words if len(tokenizer.encode(" " + word).ids) != 1]
    share = 1 - len(split) / len(words)
    print(f"{len(words)} words, {share:.2%} of them one token; {len(split)} split: {split[:8]}")
    assert share > 0.99, "too many listed words are split"


def golden_texts(words):
    return [
        "",
        " ",
        "   ",
        "\n",
        "\n\n  \n",
        "hello world",
        " the quick brown fox jumps over the lazy dog",
        "The quick brown fox, isn't it? \"Yes\", (she) said: 100% of 3.14159...",
        "trailing space ",
        "tab\tand\r\nwindows line",
        "def route(request):\n    return replicas[hash(request.prefix) % len(replicas)]\n",
        '{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}',
        "zażółć gęślą jaźń",
        "안녕하세요 세계",
        "人工智能路由器",
        "emoji 🚀🧠 and e\u0301 combining",
        "a" * 300,
        "ab" * 150 + "c",
        "thethethethetheandandandofofof",
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
        "x<|im_end|>y <|bos|><|eos|> <|im_star|> <|<|im_end|>",
        "aaaa bbbb  cccc   dddd    eeee",
        "unbelievably misunderstanding counterproductive internationalization",
        "\u0000\u0001\u007f\u00a0\u00ad\u2028",
        " ".join(words[::37]),
        "".join(words[::53]),
    ]


def golden_conversations():
    turn = [{"role": "user", "content": "What is a prefix cache?"}]
    longer = turn + [
        {"role": "assistant", "content": "The keys and values of prompts seen before."},
        {"role": "user", "content": "And why does it matter?\n"},
    ]
    parts = [
        {"type": "text", "text": "look at "},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "text", "text": " this"},
    ]
    return [
        turn,
        longer,
        [{"role": "system", "content": "Answer briefly."}] + longer,
        [{"role": "user", "content": parts}],
        [{"role": "user", "content": []}],
        [{"role": "assistant", "content": None}, {"role": "tool", "content": "42"}],
        [{"role": "user", "content": "zażółć <|im_end|> 🚀"}],
        [],
    ]


def golden(tokenizer, words):
    # The settings with which `transformers` compiles chat templates.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(CHAT_TEMPLATE)
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    texts = [{"text": text, "ids": encode(text)} for text in golden_texts(words)]
    chats = []
    for messages in golden_conversations():
        for generate in (True, False):
            text = template.render(messages=messages, add_generation_prompt=generate)
            chats.append(
                {"messages": messages, "add_generation_prompt": generate, "text": text, "ids": encode(text)}
            )
    return {"texts": texts, "chats": chats}


def dump(path, value, **how):
    path.write_text(json.dumps(value, ensure_ascii=False, **how) + "\n", encoding="utf-8")
    print(f"{path.relative_to(HERE.parent)}: {path.stat().st_size} bytes")


def main():
    lines = (HERE / "vocab_words.txt").read_text(encoding="utf-8").split()
    words = list(dict.fromkeys(lines))
    tokenizer = train(words)
    check(tokenizer, words)

    model = json.loads(tokenizer.to_str())
    # Merges as "left right": the older of the two spellings in use, which every reader knows.
    model["model"]["merges"] = [" ".join(pair) for pair in model["model"]["merges"]]
    dump(OUT / "tokenizer.json", model, indent=0, separators=(",", ":"))
    # What is shipped must be what was trained, also after the respelling above.
    shipped = Tokenizer.from_file(str(OUT / "tokenizer.json"))
    assert shipped.get_vocab() == tokenizer.get_vocab()

    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": "<|bos|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|eos|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 131072,
        "added_tokens_decoder": {
            str(token["id"]): {key: token[key] for key in token if key != "id"}
            for token in model["added_tokens"]
        },
        "chat_template": CHAT_TEMPLATE,
    }
    dump(OUT / "tokenizer_config.json", config, indent=2)
    dump(OUT / "golden.json", golden(shipped, words), separators=(",", ":"))


if __name__ == "__main__":
    main()
