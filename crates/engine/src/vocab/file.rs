//! Reads a vocabulary from the Hugging Face `tokenizers` format.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use super::bpe::{Merges, Workspace};
use super::{Vocab, byte_level};

/// Why a vocabulary cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum VocabError {
    /// Not JSON, or not of the format's shape.
    Json(serde_json::Error),
    /// Well-formed, but not a complete byte-level BPE vocabulary; says what is wrong with it.
    Content(String),
}

#[derive(Deserialize)]
struct File {
    added_tokens: Vec<AddedToken>,
    model: Model,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
}

#[derive(Deserialize)]
struct Model {
    vocab: BTreeMap<String, u32>,
    /// "left right", the lowest rank first.
    merges: Vec<String>,
}

impl std::fmt::Display for VocabError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(_) => f.write_str("vocabulary is not readable as json"),
            Self::Content(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for VocabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::Content(_) => None,
        }
    }
}

impl Vocab {
    /// Reads a vocabulary of this module's kind: byte-level BPE, ids without gaps, merges as text, cut
    /// at newlines and spaces.
    pub(super) fn parse(json: &str) -> Result<Self, VocabError> {
        let file: File = serde_json::from_str(json).map_err(VocabError::Json)?;
        let mut specials: Vec<(Box<[u8]>, u32)> = Vec::new();
        for token in &file.added_tokens {
            specials.push((token.content.as_bytes().into(), token.id));
        }
        let tokens = tokens_by_id(&file)?;
        let mut vocab = Self {
            bytes: tokens.concat(),
            ends: tokens
                .iter()
                .scan(0, |end, token| {
                    *end += token.len() as u32;
                    Some(*end)
                })
                .collect(),
            byte_ids: byte_ids(&file)?,
            merges: merges(&file)?,
            whole: HashMap::default(),
            specials,
            words: Vec::new(),
            token_bytes_max: tokens.iter().map(Vec::len).max().unwrap_or(1).max(1),
        };
        vocab.find_whole();
        vocab.words = (0..vocab.size()).filter(|&id| vocab.is_word(id)).collect();
        Ok(vocab)
    }

    /// Finds the tokens that encode to themselves, by encoding them: it holds for nearly all, but only
    /// trying tells.
    fn find_whole(&mut self) {
        let mut workspace = Workspace::default();
        let mut ids = Vec::new();
        for id in 0..self.size() {
            let Some(bytes) = self.token_bytes(id) else { continue };
            ids.clear();
            self.merges.encode(bytes, &self.byte_ids, &mut workspace, &mut ids);
            if ids == [id] {
                let hash = xxh3_64(bytes);
                self.whole.insert(hash, id);
            }
        }
    }

    fn is_word(&self, id: u32) -> bool {
        let Some([b' ', letters @ ..]) = self.token_bytes(id) else { return false };
        letters.len() >= 3
            && letters.iter().all(u8::is_ascii_lowercase)
            && self.whole.get(&xxh3_64(self.token_bytes(id).unwrap_or_default())) == Some(&id)
    }
}

/// The bytes of every token, in order of id.
fn tokens_by_id(file: &File) -> Result<Vec<Vec<u8>>, VocabError> {
    let added = |id| file.added_tokens.iter().find(|token| token.id == id);
    let mut tokens = vec![None; file.model.vocab.len()];
    for (text, &id) in &file.model.vocab {
        let bytes = match added(id) {
            Some(token) => Some(token.content.as_bytes().to_vec()),
            None => byte_level::bytes_of(text),
        };
        let bytes = bytes.ok_or_else(|| VocabError::Content(format!("token {id} is not written byte-level")))?;
        *tokens.get_mut(id as usize).ok_or_else(|| VocabError::Content(format!("token id {id} leaves a gap")))? =
            Some(bytes);
    }
    let tokens: Option<Vec<_>> = tokens.into_iter().collect();
    tokens.ok_or_else(|| VocabError::Content("two tokens share an id".to_owned()))
}

fn byte_ids(file: &File) -> Result<[u32; 256], VocabError> {
    let mut ids = [0; 256];
    for (byte, char) in byte_level::alphabet().into_iter().enumerate() {
        let id = file.model.vocab.get(char.encode_utf8(&mut [0; 4]) as &str);
        ids[byte] = *id.ok_or_else(|| VocabError::Content(format!("no token for byte {byte}")))?;
    }
    Ok(ids)
}

fn merges(file: &File) -> Result<Merges, VocabError> {
    let mut merges = Merges::default();
    for (rank, text) in file.model.merges.iter().enumerate() {
        let ids = text.split_once(' ').and_then(|(left, right)| {
            let vocab = &file.model.vocab;
            let merged = vocab.get(&format!("{left}{right}"))?;
            Some((*vocab.get(left)?, *vocab.get(right)?, *merged))
        });
        let (left, right, merged) = ids.ok_or_else(|| VocabError::Content(format!("merge {rank} names no tokens")))?;
        merges.push(left, right, merged);
    }
    Ok(merges)
}
