//! Runs the stand-in vendor on the given address, a free port of this host by default, until it is ended.

#[tokio::main]
#[expect(clippy::print_stdout, reason = "whoever starts it reads the address from the standard output")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let handle = test_support::serve(tokio::net::TcpListener::bind(&address).await?)?;
    println!("{}", handle.base_url());
    std::future::pending().await
}
