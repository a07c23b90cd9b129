use proptest::prelude::*;
use serde::Deserialize;

use super::{Message, TOKENIZER_CONFIG_JSON, Vocab, VocabError, render};

/// Made by `tools/make_vocab.py` with Hugging Face `tokenizers` and Jinja.
#[derive(Deserialize)]
struct Golden<'a> {
    texts: Vec<GoldenText>,
    #[serde(borrow)]
    chats: Vec<GoldenChat<'a>>,
}

#[derive(Deserialize)]
struct GoldenText {
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct GoldenChat<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    add_generation_prompt: bool,
    text: String,
    ids: Vec<u32>,
}

fn golden() -> Golden<'static> {
    serde_json::from_str(include_str!("golden.json")).unwrap()
}

#[test]
fn text_encodes_to_the_tokens_that_hugging_face_gives() {
    let vocab = Vocab::shared();
    let texts = golden().texts;
    assert!(texts.len() > 20);
    for GoldenText { text, ids } in texts {
        assert_eq!(vocab.encode(&text), ids, "{text:?}");
        assert_eq!(vocab.decode(&ids), text.as_bytes(), "{text:?}");
    }
}

#[test]
fn conversations_render_to_the_text_that_the_shipped_template_gives() {
    let chats = golden().chats;
    assert!(chats.len() > 10);
    for chat in chats {
        let text = render(&chat.messages, chat.add_generation_prompt);
        assert_eq!(text, chat.text);
        assert_eq!(Vocab::shared().encode(&text), chat.ids);
    }
}

#[test]
fn a_longer_conversation_begins_with_the_text_of_the_shorter() {
    let messages: Vec<Message<'_>> = serde_json::from_str(
        r#"[{"role":"system","content":"s"},{"role":"user","content":"u\n"},
            {"role":"assistant","content":" a"},{"role":"user","content":[{"type":"text","text":"v"}]}]"#,
    )
    .unwrap();
    let asked = render(&messages[..2], true);
    assert!(render(&messages, true).starts_with(&(asked + " a")));
}

#[test]
fn content_that_is_neither_text_nor_parts_is_refused() {
    for content in ["1", "true", r#"{"type":"text"}"#, "[1]", "[null]", r#"[{"text":"no type"}]"#] {
        let message = format!(r#"{{"role":"user","content":{content}}}"#);
        assert!(serde_json::from_str::<Message<'_>>(&message).is_err(), "{content}");
    }
}

#[test]
fn tokens_are_the_bytes_that_the_file_says() {
    let vocab = Vocab::shared();
    for (text, id) in [("<|bos|>", 0), ("<|eos|>", 1), ("<|im_start|>", 2), ("<|im_end|>", 3)] {
        assert_eq!(vocab.special(text), Some(id));
        assert_eq!(vocab.token_bytes(id), Some(text.as_bytes()));
        assert!(TOKENIZER_CONFIG_JSON.contains(text));
    }
    assert_eq!(vocab.token_bytes(vocab.size()), None);
    assert_eq!(vocab.decode(&[u32::MAX, vocab.size()]), b"");
}

#[test]
fn common_words_are_one_token_with_the_space_before_them() {
    let words = include_str!("../../../../tools/vocab_words.txt").split_whitespace();
    let (mut count, mut tokens) = (0, 0);
    for word in words {
        count += 1;
        tokens += Vocab::shared().encode(format!(" {word}")).len();
    }
    assert!(count > 2000);
    assert!(tokens * 100 <= count * 101, "{tokens} tokens for {count} words");
}

#[test]
fn text_made_of_words_encodes_to_the_same_words_again() {
    let vocab = Vocab::shared();
    assert!(vocab.words().len() > 2000);
    assert_eq!(vocab.encode(vocab.decode(vocab.words())), vocab.words());
}

#[test]
fn a_megabyte_without_a_space_is_encoded() {
    let text = "thequickbrownfox".repeat((1 << 20) / 16);
    let vocab = Vocab::shared();
    let ids = vocab.encode(&text);
    assert!(ids.len() < text.len() / 2, "{} tokens", ids.len());
    assert_eq!(vocab.decode(&ids), text.as_bytes());
}

#[test]
fn a_piece_gives_the_same_tokens_from_the_cache() {
    let text = "antidisestablishmentarianism ".repeat(3);
    let vocab = Vocab::shared();
    let first = vocab.encode(&text);
    assert_eq!(vocab.encode(&text), first);
}

#[test]
fn a_file_that_is_not_a_byte_level_vocabulary_is_refused_with_the_reason() {
    let alphabet: Vec<String> =
        (super::byte_level::alphabet().iter().enumerate()).map(|(id, c)| format!("{:?}:{id}", c.to_string())).collect();
    let alphabet = alphabet.join(",");
    let file = |vocab: &str, merges: &str| {
        format!(r#"{{"added_tokens":[],"model":{{"vocab":{{{vocab}}},"merges":[{merges}]}}}}"#)
    };
    assert!(Vocab::parse(&file(&alphabet, "")).is_ok());
    for (json, reason) in [
        (file(&format!(r#"{alphabet},"ab":300"#), ""), "leaves a gap"),
        (file(&format!(r#"{alphabet},"ab":7"#), ""), "share an id"),
        (file(&format!(r#"{alphabet},"a b":256"#), ""), "not written byte-level"),
        (file(&alphabet, r#""a b""#), "names no tokens"),
        (file(r#""a":0"#, ""), "no token for byte"),
    ] {
        let error = Vocab::parse(&json).err().expect(reason);
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert!(matches!(Vocab::parse("{"), Err(VocabError::Json(_))));
}

/// Merges pair by pair over the whole piece: slow, and plainly the definition.
fn encode_by_definition(vocab: &Vocab, piece: &[u8]) -> Vec<u32> {
    let mut ids: Vec<u32> = piece.iter().map(|&byte| vocab.byte_ids[usize::from(byte)]).collect();
    loop {
        let best = (0..ids.len().saturating_sub(1))
            .filter_map(|at| vocab.merges.merge(ids[at], ids[at + 1]).map(|(rank, id)| (rank, at, id)))
            .min();
        let Some((_, at, id)) = best else { return ids };
        ids.splice(at..at + 2, [id]);
    }
}

proptest! {
    #[test]
    fn any_bytes_come_back(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let vocab = Vocab::shared();
        prop_assert_eq!(vocab.decode(&vocab.encode(&text)), text);
    }

    #[test]
    fn any_text_with_special_tokens_comes_back(
        parts in prop::collection::vec(prop_oneof!["<\\|im_end\\|>", "<\\|", "[ \n]{1,3}", "\\PC{0,12}"], 0..20)
    ) {
        let text = parts.concat();
        let vocab = Vocab::shared();
        prop_assert_eq!(vocab.decode(&vocab.encode(&text)), text.as_bytes());
    }

    #[test]
    fn a_piece_encodes_as_the_definition_says(piece in "[a-eté]{1,40}") {
        let vocab = Vocab::shared();
        prop_assert_eq!(vocab.encode(&piece), encode_by_definition(vocab, piece.as_bytes()));
    }
}
