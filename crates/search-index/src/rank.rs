//! Ranks passages by how well they match a query.
//!
//! SQLite's BM25 selects candidates; this module orders them with more information than counts of stems: related
//! words, headings and titles, words elsewhere in the document, words close together, and exact word forms.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use text_analysis::literal::literal_at;
use text_analysis::stem::stem_in_all_languages;
use text_analysis::{Term, TextLanguage, extract_terms, fold_text, is_listing, synonyms::related_stems};

use protocol::embedding::QueryVector;

use super::SearchScope;
use super::store::candidates::PassageCandidate;
use super::store::{Index, IndexError};

/// The maximum number of query words. Preferring rare words would require counting all of them.
const QUERY_WORDS_MAX: usize = 40;
/// The maximum length of a query, in bytes.
const QUERY_MAX_BYTES: usize = 4_096;
/// The maximum number of candidates for the query's own words, and for related ones.
const CANDIDATES_MAX: usize = 160;
const RELATED_CANDIDATES_MAX: usize = 80;
/// The maximum number of candidates by meaning.
const NEAREST_MAX: usize = 80;
/// The constant of reciprocal rank fusion: the greater, the less the first ranks count. With the usual 60, fewer passages
/// that one of both ranks alone has first are among the eight that a model reads.
const FUSION_RANKS: f64 = 20.0;
/// A stem in more passages than this is too common to be looked up per file.
const SPREAD_MAX_PASSAGES: u64 = 5_000;

/// The maximum number of words of a query that are searched by their parts.
const COMPOUNDS_MAX: usize = 8;
/// The shortest part of a compound, and the letters that may join two parts.
const PART_MIN_BYTES: usize = 4;
const LINKS: [&str; 4] = ["", "s", "es", "n"];

/// The weight of a word if the passage contains only a related one.
const RELATED_WEIGHT: f64 = 0.55;
/// The weight of a word that occurs only in the heading, the title or the file name.
const CONTEXT_WEIGHT: f64 = 0.7;
/// The weight of a word that occurs only elsewhere in the document.
const DOCUMENT_WEIGHT: f64 = 0.35;
/// The factor for tables of contents and lists of links.
const LISTING: f64 = 0.4;
/// The weight of the query's literals, relative to its rarest word.
const LITERAL_WEIGHT: f64 = 0.5;
/// The saturation and length parameters of BM25.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.4;
/// The reference length of a passage, in words.
const USUAL_WORDS: f64 = 90.0;

/// A word of the query.
#[derive(Debug, Clone)]
pub(super) struct QueryTerm {
    /// The word as written.
    pub(super) word: String,
    /// Its stems in the languages that it may belong to.
    pub(super) stems: Vec<String>,
    /// Stems of related words.
    pub(super) related: Vec<String>,
    /// The number of passages with one of its stems.
    pub(super) passages: u64,
    /// Its weight: high if it is rare.
    pub(super) weight: f64,
}

/// A passage with its score.
#[derive(Debug, Clone)]
pub(super) struct Ranked {
    pub(super) candidate: PassageCandidate,
    pub(super) score: f64,
}

/// Returns the distinct words of a query with their weights in this index.
pub(super) fn query_terms(index: &Index, query: &str) -> Result<Vec<QueryTerm>, IndexError> {
    let query = &query[..query.floor_char_boundary(QUERY_MAX_BYTES)];
    let total = index.passage_count()?;
    let mut found: Vec<QueryTerm> = Vec::new();
    let mut compounds = 0;
    let all = extract_terms(query, TextLanguage::Czech);
    let only_stop_words = all.iter().all(|term| term.stop);
    for term in all.into_iter().filter(|term| only_stop_words || !term.stop) {
        let stems =
            if term.number { vec![term.stem] } else { stem_in_all_languages(&fold_text(&term.exact)) };
        if found.iter().any(|one| one.stems == stems) || found.len() >= QUERY_WORDS_MAX {
            continue;
        }
        let mut related: Vec<String> =
            stems.iter().flat_map(|stem| related_stems(stem)).map(str::to_owned).collect();
        related.sort_unstable();
        related.dedup();
        related.retain(|stem| !stems.contains(stem));
        let passages = count_passages(index, &stems)?;
        if passages == 0 && !term.number && compounds < COMPOUNDS_MAX {
            compounds += 1;
            related.extend(split_compound(index, &stems)?);
        }
        let weight = match passages {
            0 => inverse_document_frequency(count_passages(index, &related)?, total),
            passages => inverse_document_frequency(passages, total),
        };
        found.push(QueryTerm { word: term.exact, stems, related, passages, weight });
    }
    Ok(found)
}

/// Splits a word that no passage contains into two words that some contain: `urlaubstag` into `urlaub` and `tag`. Returns
/// the stems of the split whose rarer word is most frequent; empty if no split exists.
fn split_compound(index: &Index, stems: &[String]) -> Result<Vec<String>, IndexError> {
    let mut found: (u64, Vec<String>) = (0, Vec::new());
    for stem in stems {
        for at in PART_MIN_BYTES..=stem.len().saturating_sub(PART_MIN_BYTES) {
            let Some((first, second)) = stem.split_at_checked(at) else { continue };
            let passages = index.passages_with(second)?;
            if passages <= found.0 {
                continue;
            }
            for link in LINKS {
                let Some(first) = first.strip_suffix(link).filter(|first| first.len() >= PART_MIN_BYTES)
                else {
                    continue;
                };
                let rarer = passages.min(index.passages_with(first)?);
                if rarer > found.0 {
                    found = (rarer, vec![first.to_owned(), second.to_owned()]);
                }
            }
        }
    }
    Ok(found.1)
}

fn count_passages(index: &Index, stems: &[String]) -> Result<u64, IndexError> {
    stems.iter().map(|stem| index.passages_with(stem)).sum()
}

/// Computes the inverse document frequency of BM25.
fn inverse_document_frequency(passages: u64, total: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of passages are far below 2^52")]
    let (passages, total) = (passages as f64, total.max(passages) as f64);
    (1.0 + (total - passages + 0.5) / (passages + 0.5)).ln()
}

/// Returns the best passages, best first; breaks ties by path, page and line. With the query's vector, the ranks by words
/// and by meaning are fused.
pub(super) fn rank_passages(
    index: &Index,
    (query_terms, literals): (&[QueryTerm], &[String]),
    vector: Option<&QueryVector>,
    scope: &SearchScope,
    limit: usize,
) -> Result<Vec<Ranked>, IndexError> {
    let by_words = rank_by_words(index, (query_terms, literals), scope)?;
    let near = match vector {
        Some(QueryVector { model, components, .. }) => {
            index.nearest_passages(model, components, &scope.paths, &scope.named, NEAREST_MAX)?
        }
        None => Vec::new(),
    };
    let mut ranked = if near.is_empty() { by_words } else { fuse_ranks(index, by_words, &near)? };
    ranked.truncate(limit);
    Ok(ranked)
}

/// Fuses the ranks by words and by meaning: each passage scores the sum of `1 / (20 + rank)` over both
/// (reciprocal rank fusion).
fn fuse_ranks(index: &Index, by_words: Vec<Ranked>, near: &[i64]) -> Result<Vec<Ranked>, IndexError> {
    #[expect(clippy::cast_precision_loss, reason = "there are a few hundred ranks")]
    let share = |position: usize| 1.0 / (FUSION_RANKS + position as f64 + 1.0);
    let known: HashSet<i64> = by_words.iter().map(|ranked| ranked.candidate.id).collect();
    let unknown: Vec<i64> = near.iter().copied().filter(|id| !known.contains(id)).collect();
    let by_words = by_words.into_iter().enumerate();
    let mut ranked: Vec<Ranked> =
        by_words.map(|(at, ranked)| Ranked { score: share(at), ..ranked }).collect();
    let more = index.candidates_of(&unknown)?;
    ranked.extend(more.into_iter().map(|candidate| Ranked { candidate, score: 0.0 }));
    let positions: HashMap<i64, usize> = near.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    for ranked in &mut ranked {
        ranked.score += positions.get(&ranked.candidate.id).map_or(0.0, |at| share(*at));
    }
    sort_ranked(&mut ranked);
    Ok(ranked)
}

/// Sorts passages, best first, and drops repetitions of the same text.
fn sort_ranked(ranked: &mut Vec<Ranked>) {
    ranked.sort_by(|one, other| {
        other.score.total_cmp(&one.score).then_with(|| by_place(&one.candidate, &other.candidate))
    });
    ranked.dedup_by(|one, other| {
        one.candidate.text == other.candidate.text && one.candidate.path == other.candidate.path
    });
}

fn rank_by_words(
    index: &Index,
    (query_terms, literals): (&[QueryTerm], &[String]),
    scope: &SearchScope,
) -> Result<Vec<Ranked>, IndexError> {
    let own: Vec<String> = query_terms.iter().flat_map(|word| word.stems.iter().cloned()).collect();
    let related: Vec<String> = query_terms.iter().flat_map(|word| word.related.iter().cloned()).collect();
    let mut candidates = index.find_candidates(&own, &scope.paths, &scope.named, CANDIDATES_MAX)?;
    let known: HashSet<i64> = candidates.iter().map(|candidate| candidate.id).collect();
    let more = index.find_candidates(&related, &scope.paths, &scope.named, RELATED_CANDIDATES_MAX)?;
    candidates.extend(more.into_iter().filter(|candidate| !known.contains(&candidate.id)));
    let in_files: Vec<HashSet<i64>> = query_terms
        .iter()
        .map(|word| match word.passages {
            1..=SPREAD_MAX_PASSAGES => Ok(index.files_with(&word.stems)?.into_iter().collect()),
            _ => Ok(HashSet::new()),
        })
        .collect::<Result<_, IndexError>>()?;
    let mut ranked: Vec<Ranked> = candidates
        .into_iter()
        .map(|candidate| Ranked {
            score: score_candidate((query_terms, literals), &in_files, &candidate),
            candidate,
        })
        .filter(|ranked| ranked.score > 0.0)
        .collect();
    sort_ranked(&mut ranked);
    Ok(ranked)
}

fn by_place(one: &PassageCandidate, other: &PassageCandidate) -> Ordering {
    (&one.path, one.page, one.lines, one.id).cmp(&(&other.path, other.page, other.lines, other.id))
}

fn score_candidate(
    (query_terms, literals): (&[QueryTerm], &[String]),
    in_files: &[HashSet<i64>],
    candidate: &PassageCandidate,
) -> f64 {
    let body = extract_terms(&candidate.text, candidate.language);
    let context: HashSet<String> = extract_terms(&candidate_context(candidate), candidate.language)
        .into_iter()
        .map(|term| term.stem)
        .collect();
    let places = StemPositions::from_terms(&body);
    let mut score = 0.0;
    let mut possible = 0.0;
    let mut covered = 0.0;
    for (word, files) in query_terms.iter().zip(in_files) {
        possible += word.weight;
        let own = places.count_stems(&word.stems);
        let share = if own > 0 {
            let exact = body.iter().any(|term| term.exact == word.word);
            saturate_frequency(own, body.len()) * if exact { 1.08 } else { 1.0 }
        } else if places.count_stems(&word.related) > 0 {
            RELATED_WEIGHT
        } else if word.stems.iter().any(|stem| context.contains(stem)) {
            CONTEXT_WEIGHT
        } else if files.contains(&candidate.file) {
            DOCUMENT_WEIGHT
        } else {
            continue;
        };
        // A word in the heading counts extra: it indicates the topic of the passage.
        let share = if own > 0 && word.stems.iter().any(|stem| context.contains(stem)) {
            share + 0.15
        } else {
            share
        };
        score += word.weight * share;
        covered += word.weight * share.min(1.0);
    }
    if possible <= 0.0 {
        return 0.0;
    }
    let score = score * (0.4 + 0.6 * covered / possible)
        + closeness_bonus(query_terms, &places)
        + LITERAL_WEIGHT * share_of(literals, &candidate.text) * max_weight(query_terms);
    if is_listing(&candidate.text) { score * LISTING } else { score }
}

/// Returns the context of a passage: the name and title of its file, its heading, and the headings of its columns.
fn candidate_context(PassageCandidate { path, title, heading, columns, .. }: &PassageCandidate) -> String {
    format!("{path} {title} {heading} {columns}")
}

/// Returns the share of the literals that a text contains.
fn share_of(literals: &[String], text: &str) -> f64 {
    let found = literals.iter().filter(|literal| literal_at(text, literal).is_some()).count();
    #[expect(clippy::cast_precision_loss, reason = "a query has few literals")]
    let share = found as f64 / literals.len().max(1) as f64;
    share
}

fn max_weight(query_terms: &[QueryTerm]) -> f64 {
    query_terms.iter().map(|word| word.weight).fold(0.0, f64::max)
}

fn saturate_frequency(times: usize, words: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a passage has few words")]
    let (times, words) = (times as f64, words as f64);
    let length = 1.0 - LENGTH + LENGTH * words / USUAL_WORDS;
    (times * (SATURATION + 1.0) / (times + SATURATION * length)).min(1.5)
}

/// The positions of each stem in a passage.
struct StemPositions<'a>(HashMap<&'a str, Vec<usize>>);

impl<'a> StemPositions<'a> {
    fn from_terms(body: &'a [Term]) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for term in body {
            places.entry(&term.stem).or_default().push(term.position);
        }
        Self(places)
    }

    fn count_stems(&self, stems: &[String]) -> usize {
        stems.iter().filter_map(|stem| self.0.get(stem.as_str())).map(Vec::len).sum()
    }

    fn of_word(&self, word: &QueryTerm) -> Vec<usize> {
        word.stems.iter().filter_map(|stem| self.0.get(stem.as_str())).flatten().copied().collect()
    }
}

/// Computes a bonus for adjacent query words that are close to each other in the passage.
fn closeness_bonus(query_terms: &[QueryTerm], places: &StemPositions<'_>) -> f64 {
    let mut bonus = 0.0;
    for pair in query_terms.windows(2) {
        let (one, other) = (places.of_word(&pair[0]), places.of_word(&pair[1]));
        let nearest =
            one.iter().flat_map(|a| other.iter().map(|b| a.abs_diff(*b))).filter(|gap| *gap > 0).min();
        let share = match nearest {
            Some(1) => 0.30,
            Some(2..=3) => 0.18,
            Some(4..=8) => 0.08,
            _ => 0.0,
        };
        bonus += share * pair[0].weight.min(pair[1].weight);
    }
    bonus
}
