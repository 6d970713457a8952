//! Runs every stored input, unchanged and mutated, on stable Rust.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzzing::TARGETS;

/// The number of mutations of each input.
const BENT: u32 = 24;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names_in(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(fuzz_folder().join(folder)).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").path());
    names.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect()
}

#[test]
fn fuzz_target_has_program_and_seeds() {
    let known: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names_in("fuzz_targets"), known);
    assert_eq!(names_in("seeds"), known);
    let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).expect("a manifest");
    for name in known {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name} is not built");
    }
}

/// Mutates an input deterministically: changes bytes, truncates it or duplicates a piece.
fn mutate_seed(seed: &[u8], number: u32) -> Vec<u8> {
    let mut state = u64::from(number) + 1;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % bound.max(1)
    };
    let mut bytes = seed.to_vec();
    match below(3) {
        0 => bytes.truncate(below(seed.len() + 1)),
        1 => {
            let from = below(seed.len() + 1);
            let piece = seed[from..].to_vec();
            let at = below(seed.len() + 1);
            bytes.splice(at..at, piece);
        }
        _ => {
            for _ in 0..=below(4) {
                let (at, byte) = (below(seed.len()), below(256));
                if let Some(place) = bytes.get_mut(at) {
                    *place = u8::try_from(byte).expect("a byte");
                }
            }
        }
    }
    bytes
}

#[test]
fn every_kept_input_keeps_every_promise() {
    for (name, target) in TARGETS {
        let mut tried = 0;
        for entry in fs::read_dir(fuzz_folder().join("seeds").join(name)).expect("inputs") {
            let path = entry.expect("an input").path();
            let seed = fs::read(&path).expect("an input");
            target(&seed);
            for number in 0..BENT {
                let input = mutate_seed(&seed, number);
                let outcome = std::panic::catch_unwind(|| target(&input));
                assert!(
                    outcome.is_ok(),
                    "{}, bent in way {number}: {:?}",
                    path.display(),
                    String::from_utf8_lossy(&input)
                );
            }
            tried += 1;
        }
        assert!(tried >= 5, "{name}: {tried} inputs");
    }
}
