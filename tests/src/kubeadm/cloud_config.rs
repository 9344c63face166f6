//! What Cluster API's kubeadm provider gives a new machine to do, carried out in place of cloud-init.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// The part of a cloud-config that the provider writes. Source: `bootstrap/kubeadm/internal/cloudinit` of Cluster API.
#[derive(Debug, Deserialize)]
struct CloudConfig {
    #[serde(default)]
    write_files: Vec<File>,
    #[serde(default)]
    runcmd: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct File {
    path: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    permissions: String,
    #[serde(default)]
    encoding: String,
}

/// The shell script that does what the bootstrap data says. It ends at the first command that fails.
///
/// # Errors
/// It is no cloud-config, has a file that cloud-init would decode first, or no commands.
pub fn script(data: &str) -> Result<String> {
    let config: CloudConfig = serde_saphyr::from_str(data).context("the bootstrap data is no cloud-config")?;
    ensure!(!config.runcmd.is_empty(), "the bootstrap data has no commands");
    let mut lines = vec!["set -e".to_owned()];
    for file in &config.write_files {
        ensure!(file.encoding.is_empty(), "{} is encoded: {}", file.path, file.encoding);
        let path = quoted(&file.path);
        lines.push(format!("mkdir -p \"$(dirname {path})\""));
        lines.push(format!("printf %s {} > {path}", quoted(&file.content)));
        if !file.permissions.is_empty() {
            lines.push(format!("chmod {} {path}", quoted(&file.permissions)));
        }
    }
    lines.extend(config.runcmd);
    Ok(lines.join("\n") + "\n")
}

/// One word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::script;

    #[test]
    fn files_are_written_as_they_are_and_then_the_commands_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/it's here");
        let data = format!(
            "## template: jinja\n#cloud-config\n\nwrite_files:\n-   path: {path:?}\n    owner: root:root\n    permissions: '0600'\n    content: |\n      a: 'b'\n      $(c) \"d\" \\\nruncmd:\n  - 'true && echo done'\n",
        );
        let ran = Command::new("/bin/sh").args(["-c", &script(&data).unwrap()]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n", "{ran:?}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "a: 'b'\n$(c) \"d\" \\\n");
        assert!(script("#cloud-config\nwrite_files: []\n").is_err());
        assert!(script("write_files: [{path: /a, encoding: gzip}]\nruncmd: ['true']").is_err());
    }
}
