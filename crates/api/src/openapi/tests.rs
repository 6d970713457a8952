
#[test]
fn show() {
    std::fs::write("/tmp/openapi.yaml", super::interface().to_yaml().unwrap()).unwrap();
}
