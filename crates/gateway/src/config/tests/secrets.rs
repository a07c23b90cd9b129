//! Secrets: where they come from, and that they are never shown.

use super::super::secret::{ProcessSecrets, SecretSource};
use super::super::{Secret, changes};
use super::{accepted, brief, parse, refused};

fn api_key(written: &str) -> Result<Secret, String> {
    let text = format!("replicas: [{{url: http://a:1, api_key: {written}}}, http://b:1]");
    match parse(&text) {
        Ok((config, _)) => Ok(config.endpoints[0].variants[0].replicas[0].api_key.clone().unwrap()),
        Err(diagnostics) => Err(brief(diagnostics.iter().next().unwrap())),
    }
}

#[test]
fn a_secret_is_a_literal_a_variable_or_a_file() {
    for (written, value) in [
        ("sk-1", "sk-1"),
        ("0123", "0123"),
        ("\"${ENGINE_KEY}\"", "sk-from-env"),
        ("\"${file:/run/key}\"", "sk-from-file"),
    ] {
        let secret = api_key(written).unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(secret.expose(), value, "{written}");
    }
}

#[test]
fn a_secret_that_cannot_be_had_is_an_error_at_its_place() {
    for (written, error) in [
        ("'${NOPE}'", "1:39 api_key: the environment variable NOPE is not set"),
        ("\"${file:/run/none}\"", "1:39 api_key: cannot read the file /run/none: not there"),
        ("'${EMPTY}'", "1:39 api_key: the value is empty"),
        ("''", "1:39 api_key: the value is empty"),
        ("'${}'", "1:39 api_key: a reference is `${NAME}` or `${file:/path}`"),
        ("'${A B}'", "1:39 api_key: a reference is `${NAME}` or `${file:/path}`"),
        ("'Bearer ${ENGINE_KEY}'", "1:39 api_key: `${...}` must be the whole value"),
        (
            "\"a\\nb\"",
            "1:39 api_key: the value contains a space, a line break or another character that a header cannot carry",
        ),
        (
            "${ENGINE_KEY}",
            "1:40 invalid yaml: while parsing a flow mapping, did not find expected ',' or '}' \
             (put `${...}` in quotes inside a mapping in braces)",
        ),
        ("[sk-1]", "1:39 api_key must be text, found a list"),
    ] {
        assert_eq!(api_key(written).unwrap_err(), error, "{written}");
    }
}

#[test]
fn the_environment_and_files_of_the_process_are_read() {
    assert_eq!(
        ProcessSecrets.env("KVROUTE_NOT_SET").unwrap_err(),
        "the environment variable KVROUTE_NOT_SET is not set"
    );
    assert!(ProcessSecrets.env("PATH").is_ok_and(|path| !path.is_empty()));
    let path = std::env::temp_dir().join(format!("kvroute-secret-{}", std::process::id()));
    std::fs::write(&path, "sk-1\r\n").unwrap();
    let text = format!("replicas: [{{url: http://a:1, api_key: \"${{file:{}}}\"}}]", path.display());
    let (config, _) = super::super::parse(&text, "test.yaml").unwrap();
    std::fs::remove_file(&path).unwrap();
    let secret = config.endpoints[0].variants[0].replicas[0].api_key.clone().unwrap();
    assert_eq!(secret.expose(), "sk-1", "the end of the line is no part of it");
    let folder = ProcessSecrets.file("/", 10).unwrap_err();
    assert_eq!(folder, "cannot read the file /: not a regular file");
}

#[test]
fn no_excerpt_or_message_shows_a_secret() {
    for text in [
        "replicas: [{url: http://a:1, api_key: hunter2, weight: -1}]",
        "replicas: [{url: http://a:1, api_key: 'hunter2', weight: -1}]",
        "replicas:\n- {url: 1, api_kye: hunter2}",
        "replicas:\n- url: http://a:1\n  api-key: hunter2",
        "replicas:\n- url: http://a:1\n  api_key: \"hunter2 two\"",
        "replicas:\n- url: http://a:1\n  api_key: hunter2\n  api_key: hunter2",
        "replicas:\n- url: http://a:1\n  api_key: hunter2: x",
        "replicas:\n- url: http://a:1\n  api_key: \"hunter2",
        "replicas: [{url: http://a:1, api_key: hunter2, ]",
        "replicas:\n- url: http://a:1\n  api_key: [hunter2]",
        "replicas:\n- url: http://a:1\n  api_key: {x: hunter2}",
        "x: &k hunter2\nreplicas:\n- url: http://a:1\n  api_key: *k",
        "x: &k hunter2\nreplicas:\n- url: http://a:1\n  <<: {api_key: *k}",
        "replicas: [http://me:hunter2@a:1]",
        "replicas: [me:hunter2@a:1]",
        "hash_seed: hunter2\nreplicas: [http://a:1]",
        "password: hunter2\nreplicas: [http://a:1]",
    ] {
        let diagnostics = refused(text);
        let shown = format!("{diagnostics} {diagnostics:?}");
        assert!(!shown.contains("hunter2"), "{text}\n{shown}");
    }
}

#[test]
fn the_caret_stays_in_place_beside_a_hidden_secret() {
    let shown =
        refused("replicas: [{api_key: a-rather-long-secret, url: http://a:1, weight: -1}, http://b:1]").to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[3], "1 | replicas: [{api_key: ***, url: http://a:1, weight: -1}, http://b:1]");
    assert_eq!(lines[4].find('^'), lines[3].find("-1"));
    assert!(!lines[4].contains("^^^"));
}

#[test]
fn debug_display_and_changes_hide_the_value() {
    let with = |key: &str| accepted(&format!("replicas: [{{url: http://a:1, api_key: {key}}}]"));
    let (old, new) = (with("sk-old"), with("sk-new"));
    let secret = old.endpoints[0].variants[0].replicas[0].api_key.clone().unwrap();
    assert_eq!(format!("{secret} {secret:?}"), "*** Secret(***)");
    let shown: Vec<String> = changes(&old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["replica default/main/a:1: api_key *** -> ***"]);
    assert!(!format!("{old:?} {:?} {:?}", changes(&old, &new), old.summary()).contains("sk-"));
    assert!(!format!("{:?}", accepted("hash_seed: 8712\nreplicas: [http://a:1]")).contains("8712"));
}
