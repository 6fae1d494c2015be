//! Writes a model of the shape of Llama 3.1 whose files are headers and nothing behind them, to try `plan` on:
//! `cargo run --example sparse_llama -- 70b target/llama-70b`.

#[path = "../tests/common/llama.rs"]
mod llama;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (size, folder) = match arguments.as_slice() {
        [size, folder] => (size.as_str(), folder),
        _ => ("", &String::new()),
    };
    let model = match size {
        "8b" => llama::LLAMA_8B,
        "70b" => llama::LLAMA_70B,
        "405b" => llama::LLAMA_405B,
        _ => {
            eprintln!("usage: sparse_llama 8b|70b|405b FOLDER");
            return ExitCode::from(2);
        }
    };
    model.write(Path::new(folder));
    println!("{folder}: {} parameters, no bytes", model.parameters);
    ExitCode::SUCCESS
}
