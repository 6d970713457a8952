//! Reads documents and writes their text beside what other programs made of them: `read_documents FOLDER OUT`.
//!
//! For each file of the folder, `OUT/NAME.txt` has the text; a line on standard output says the format, the pages, the
//! time in milliseconds, or why the file cannot be read.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Instant;

use documents::extract_file;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let (Some(folder), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("read_documents FOLDER OUT".into());
    };
    fs::create_dir_all(&out)?;
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let begun = Instant::now();
        let read = extract_file(&path, File::open(&path)?);
        let took = begun.elapsed().as_millis();
        match read {
            Ok(document) => {
                let text: Vec<&str> = document.segments.iter().map(|segment| segment.text.as_str()).collect();
                fs::write(out.join(format!("{name}.txt")), text.join("\n"))?;
                println!("{name}\t{}\t{:?}\t{took}", document.format.name(), document.pages);
            }
            Err(error) => println!("{name}\tERROR\t{error}\t{took}"),
        }
    }
    Ok(())
}
